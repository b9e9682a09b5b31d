#include "models/trained_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "models/lora.h"
#include "models/vision_language.h"

namespace simrun {
namespace {

// By the names that models/vision_language.h gives.
bool is_in_part(ModelPart part, const Operator& op) {
  const bool vision = op.name.starts_with(vision_prefix), projector = op.name.starts_with(projector_prefix);
  return part == ModelPart::vision_tower ? vision
         : part == ModelPart::projector  ? projector
                                         : !vision && !projector;
}

bool is_in(const ScopePattern& scope, const Operator& op) {
  if (scope.part >= ModelPart::vision_tower) return is_in_part(scope.part, op);
  if (op.layer < 0) return scope.part == (op.after_layers ? ModelPart::head : ModelPart::embedding);
  if (scope.part != ModelPart::layers || op.layer < scope.first_layer) return false;
  if (scope.last_layer >= 0 && op.layer > scope.last_layer) return false;
  if (scope.is_prefix) return op.name.starts_with(scope.name);
  return scope.name.empty() || op.name == scope.name || op.module == scope.name;
}

bool is_parameter(const Graph& graph, TensorId tensor) {
  return graph.tensors[tensor].kind == TensorKind::parameter;
}

// A product's bias may be added by a later kernel; it goes with the product.
bool has_product_in(const Graph& graph, const ScopePattern& scope, const Operator& reader,
                    TensorId parameter) {
  constexpr std::string_view suffix = "_bias";
  const std::string& name = graph.tensors[parameter].name;
  if (!name.ends_with(suffix)) return false;
  const std::string product = name.substr(0, name.size() - suffix.size());
  for (const Operator& op : graph.operators)
    if (op.layer == reader.layer && op.name == product) return is_in(scope, op);
  return false;
}

void freeze_scope(Graph& graph, const ScopePattern& scope) {
  bool found = false;
  for (const Operator& op : graph.operators)
    for (const TensorId input : op.inputs) {
      if (!is_parameter(graph, input)) continue;
      if (!is_in(scope, op) && !has_product_in(graph, scope, op, input)) continue;
      graph.tensors[input].frozen = true;
      found = true;
    }
  if (!found) throw std::invalid_argument(fmt::format("model.frozen: '{}' has no parameters", scope.text));
}

// What nobody reads has no gradient.
void freeze_discarded(Graph& graph) {
  for (const Operator& op : graph.operators)
    for (const TensorId input : op.inputs)
      if (op.discarded && is_parameter(graph, input)) graph.tensors[input].frozen = true;
}

// Operators are in an order in which they can run, so every input is settled before it is read.
void spread(Graph& graph) {
  for (const Operator& op : graph.operators) {
    const bool frozen = op.discarded || std::all_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
                          const Tensor& tensor = graph.tensors[input];
                          return tensor.frozen || tensor.kind == TensorKind::index;
                        });
    if (!frozen) continue;
    for (const TensorId output : op.outputs) graph.tensors[output].frozen = true;
  }
}

}  // namespace

void select_trained(Graph& graph, const Job& job) {
  freeze_discarded(graph);
  for (const ScopePattern& scope : job.model.frozen) freeze_scope(graph, scope);
  if (job.training.lora) {
    for (Tensor& tensor : graph.tensors)
      if (tensor.kind == TensorKind::parameter) tensor.frozen = true;
    add_lora(graph, *job.training.lora);
  }
  spread(graph);
  if (count_trained_parameters(graph) == 0)
    throw std::invalid_argument("model.frozen: nothing is left to train");
}

}  // namespace simrun
