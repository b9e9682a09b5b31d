#include "models/trained_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "models/lora.h"
#include "models/model_scope.h"
#include "models/quantized_base.h"

namespace simrun {
namespace {

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
    if (op.layer == reader.layer && op.name == product) return holds(scope, graph, op);
  return false;
}

// Notes a fault if the scope has nothing to freeze.
void freeze_scope(Graph& graph, const ScopePattern& scope, std::vector<Diagnostic>& faults) {
  bool found = false, holds_operators = false;
  for (const Operator& op : graph.operators) {
    holds_operators = holds_operators || holds(scope, graph, op);
    for (const TensorId input : op.inputs) {
      if (!is_parameter(graph, input)) continue;
      if (!holds(scope, graph, op) && !has_product_in(graph, scope, op, input)) continue;
      graph.tensors[input].frozen = true;
      found = true;
    }
  }
  if (found) return;
  faults.push_back(holds_operators
                       ? Diagnostic{scope.position,
                                    fmt::format("the scope '{}' has no parameters to freeze", scope.text), ""}
                       : no_such_scope(scope, graph));
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
  std::vector<Diagnostic> faults;
  for (const ScopePattern& scope : job.model.frozen) freeze_scope(graph, scope, faults);
  if (!faults.empty()) throw ConfigError(std::move(faults));
  if (job.training.lora) {
    for (Tensor& tensor : graph.tensors)
      if (tensor.kind == TensorKind::parameter) tensor.frozen = true;
    add_lora(graph, *job.training.lora);
  }
  if (job.training.lora && job.training.lora->nf4_base) quantize_base(graph);
  spread(graph);
  if (count_trained_parameters(graph) == 0)
    throw std::invalid_argument("model.frozen: nothing is left to train");
}

}  // namespace simrun
