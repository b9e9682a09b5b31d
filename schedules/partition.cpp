#include "schedules/partition.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>

namespace simrun {
namespace {

void assign_operators(const Graph& graph, const std::vector<StageContent>& stages, Partition& result) {
  std::vector<std::int32_t> stage_of_layer;
  std::int32_t embedding_stage = 0;
  std::int32_t loss_stage = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const auto stage = static_cast<std::int32_t>(s);
    result.first_layer.push_back(static_cast<std::int32_t>(stage_of_layer.size()));
    stage_of_layer.insert(stage_of_layer.end(), static_cast<std::size_t>(stages[s].layers), stage);
    if (stages[s].embedding) embedding_stage = stage;
    if (stages[s].loss) loss_stage = stage;
  }
  // Layers of multi-token prediction are numbered behind all others.
  for (std::size_t s = 0; s < stages.size(); ++s)
    stage_of_layer.insert(stage_of_layer.end(), static_cast<std::size_t>(stages[s].mtp_layers),
                          static_cast<std::int32_t>(s));
  result.operators.resize(stages.size());
  for (std::size_t o = 0; o < graph.operators.size(); ++o) {
    const Operator& op = graph.operators[o];
    std::int32_t stage = op.after_layers ? loss_stage : embedding_stage;
    if (op.layer >= 0) stage = stage_of_layer.at(static_cast<std::size_t>(op.layer));
    result.stage_of.push_back(stage);
    result.operators[static_cast<std::size_t>(stage)].push_back(o);
  }
}

struct Use {
  std::int32_t producer = -1;                                                // stage; -1: none (parameters)
  std::map<std::int32_t, std::pair<std::size_t, std::size_t>> first_reader;  // by stage: operator and input
};

std::vector<Use> find_uses(const Graph& graph, const Partition& partition) {
  std::vector<Use> uses(graph.tensors.size());
  for (std::size_t o = 0; o < graph.operators.size(); ++o) {
    const Operator& op = graph.operators[o];
    for (const TensorId tensor : op.outputs) uses[tensor].producer = partition.stage_of[o];
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      uses[op.inputs[i]].first_reader.emplace(partition.stage_of[o], std::pair{o, i});
  }
  return uses;
}

// Over every border between its producer and its last reader.
void add_crossings(Partition& result, TensorId tensor, const Use& use) {
  const std::int32_t last = use.first_reader.rbegin()->first;
  for (std::int32_t stage = use.producer; stage < last; ++stage) {
    const auto& [operator_number, input] = use.first_reader.upper_bound(stage)->second;
    result.borders[static_cast<std::size_t>(stage)].push_back({tensor, operator_number, input});
  }
}

void set_tied(Partition& result, TensorId tensor, const Use& use) {
  result.tied_tensor = tensor;
  result.tied_stages.clear();
  for (const auto& [stage, reader] : use.first_reader) result.tied_stages.push_back(stage);
}

}  // namespace

Partition partition(const Graph& graph, const std::vector<StageContent>& stages) {
  Partition result;
  assign_operators(graph, stages, result);
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (result.operators[s].empty())
      throw std::invalid_argument(fmt::format("pipeline stage {} holds no layer, embedding or loss", s));
  const std::size_t borders = stages.size() - 1;
  result.borders.resize(borders);
  const std::vector<Use> uses = find_uses(graph, result);
  for (TensorId tensor = 0; tensor < uses.size(); ++tensor) {
    const Use& use = uses[tensor];
    if (graph.tensors[tensor].kind == TensorKind::parameter) {
      if (use.first_reader.size() > 1) set_tied(result, tensor, use);
    } else if (use.producer >= 0 && !use.first_reader.empty() &&
               use.first_reader.rbegin()->first > use.producer) {
      add_crossings(result, tensor, use);
    }
  }
  for (std::size_t b = 0; b < borders; ++b)
    if (result.borders[b].empty())
      throw std::invalid_argument(
          fmt::format("no activation crosses from pipeline stage {} to {}", b, b + 1));
  return result;
}

}  // namespace simrun
