#include "planner/alpa_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "models/model_graph.h"
#include "models/trained_parameters.h"
#include "planner/alpa_costs.h"
#include "planner/sub_mesh.h"
#include "schedules/chunk_code.h"
#include "schedules/layout_rules.h"
#include "schedules/partition.h"

namespace simrun {

Job stage_job(const Job& job, const StageShape& shape) {
  const std::int64_t ranks = shape.mesh.devices();
  Job stage = job;
  Parallelism& parallelism = stage.parallelism;
  parallelism.tensor_model_parallel_size = tensor_ranks(shape.sequences, ranks);
  if (job.model.num_attention_heads % parallelism.tensor_model_parallel_size != 0)
    throw std::invalid_argument(fmt::format("{} sequences leave {} ranks to share {} heads", shape.sequences,
                                            parallelism.tensor_model_parallel_size,
                                            job.model.num_attention_heads));
  parallelism.data_parallel_size = ranks / parallelism.tensor_model_parallel_size;
  parallelism.sequence_parallel = false;
  parallelism.context_parallel_size = parallelism.context_a2a_size = 1;
  parallelism.expert_model_parallel_size = parallelism.expert_tensor_parallel_size = 1;
  parallelism.pipeline_model_parallel_size = parallelism.virtual_pipeline_model_parallel_size = 1;
  StageContent all;
  for (const StageContent& content : job.parallelism.stages) {
    all.layers += content.layers;
    all.mtp_layers += content.mtp_layers;
  }
  all.embedding = all.loss = true;
  parallelism.stages = {all};
  stage.training.micro_batch_size = shape.sequences / parallelism.data_parallel_size;
  stage.training.global_batch_size = shape.sequences * shape.microbatches;
  stage.layout = {};
  if (shape.mesh.x > 1) stage.layout.mesh.push_back({"x", shape.mesh.x});
  if (shape.mesh.y > 1) stage.layout.mesh.push_back({"y", shape.mesh.y});
  return stage;
}

namespace {

// A new number wherever the layer changes.
std::vector<std::int32_t> segments_of_operators(const Graph& graph) {
  std::vector<std::int32_t> segments;
  std::int32_t current = 0;
  for (std::size_t o = 0; o < graph.operators.size(); ++o) {
    const Operator& op = graph.operators[o];
    if (o > 0 &&
        (op.layer != graph.operators[o - 1].layer || op.after_layers != graph.operators[o - 1].after_layers))
      ++current;
    segments.push_back(current);
  }
  return segments;
}

class StageGraphBuilder {
 public:
  StageGraphBuilder(const Job& job, const StageShape& shape, StageGraph& stage, CollectivePrices& collectives)
      : stage_(stage), costs_(job, shape, stage, collectives) {}

  void run() {
    for (std::size_t o = 0; o < stage_.graph.operators.size(); ++o) {
      add_node(o);
      add_edges(o);
      for (const TensorId output : stage_.graph.operators[o].outputs) writer_[output] = o;
    }
  }

 private:
  void add_node(std::size_t o) {
    const std::string key = costs_.key_of(o);
    const auto [known, is_new] = same_as_.emplace(key, o);
    kind_.push_back(known->second);
    const std::size_t first = known->second;
    if (!is_new) {
      stage_.strategies.push_back(stage_.strategies[first]);
      stage_.seconds.push_back(stage_.seconds[first]);
      stage_.static_bytes.push_back(stage_.static_bytes[first]);
      stage_.activation_bytes.push_back(stage_.activation_bytes[first]);
      stage_.exchange_seconds.push_back(stage_.exchange_seconds[first]);
      return;
    }
    stage_.strategies.push_back(
        operator_strategies(stage_.graph, stage_.graph.operators[o], stage_.mesh, stage_.axes));
    std::vector<double> seconds, static_bytes, activation_bytes, exchange_seconds;
    for (const OperatorStrategy& strategy : stage_.strategies[o]) {
      const OperatorCost cost = costs_.operator_cost(o, strategy.layout);
      seconds.push_back(cost.seconds);
      static_bytes.push_back(cost.static_bytes);
      activation_bytes.push_back(cost.activation_bytes);
      exchange_seconds.push_back(cost.exchange_seconds);
    }
    stage_.seconds.push_back(std::move(seconds));
    stage_.static_bytes.push_back(std::move(static_bytes));
    stage_.activation_bytes.push_back(std::move(activation_bytes));
    stage_.exchange_seconds.push_back(std::move(exchange_seconds));
  }

  // By writer: all tensors between the two, and parameters that both read.
  void add_edges(std::size_t o) {
    const Operator& op = stage_.graph.operators[o];
    std::map<std::size_t, std::vector<std::size_t>> inputs_by_writer;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const bool is_parameter = stage_.graph.tensors[op.inputs[i]].kind == TensorKind::parameter;
      const auto writer = writer_.find(op.inputs[i]);
      if (writer != writer_.end()) inputs_by_writer[writer->second].push_back(i);
      if (is_parameter) {
        const auto [reader, is_new] = reader_.emplace(op.inputs[i], o);
        if (!is_new && reader->second != o) inputs_by_writer[reader->second].push_back(i);
      }
    }
    for (const auto& [writer, inputs] : inputs_by_writer) add_edge(writer, o, inputs);
    if (!op.regroup || op.regroup->from.size() < 2) return;
    if (op.function == Function::dispatch)
      sender_ = o;
    else
      add_return(o);
  }

  // Nothing goes from a dispatch to its combine but what experts make of it, which comes back to who sent it.
  void add_return(std::size_t combine) {
    const auto [known, is_new] =
        edge_costs_.try_emplace(std::vector<std::size_t>{kind_[sender_], kind_[combine]});
    if (is_new) {
      std::vector<double> costs;
      for (const OperatorStrategy& sent : stage_.strategies[sender_])
        for (const OperatorStrategy& back : stage_.strategies[combine])
          costs.push_back(
              rows_come_back(stage_.graph.operators[sender_], sent.layout, back.layout) ? 0 : forbidden_cost);
      known->second = std::move(costs);
    }
    if (std::ranges::count(known->second, forbidden_cost) > 0)
      stage_.edges.push_back({sender_, combine, known->second});
  }

  void add_edge(std::size_t writer, std::size_t reader, const std::vector<std::size_t>& inputs) {
    std::vector<std::size_t> key{kind_[writer], kind_[reader]};
    const Operator& from = stage_.graph.operators[writer];
    for (const std::size_t i : inputs) {
      const TensorId tensor = stage_.graph.operators[reader].inputs[i];
      const auto output = std::find(from.outputs.begin(), from.outputs.end(), tensor) - from.outputs.begin();
      key.insert(key.end(), {i, static_cast<std::size_t>(output)});
    }
    const auto [known, is_new] = edge_costs_.try_emplace(key);
    if (is_new) known->second = costs_.edge_costs(writer, reader, inputs);
    stage_.edges.push_back({writer, reader, known->second});
  }

  StageGraph& stage_;
  std::size_t sender_ = 0;  // the dispatch of the layer
  AlpaCosts costs_;
  std::map<std::string, std::size_t> same_as_;
  std::vector<std::size_t> kind_;  // by operator: the first one like it
  std::map<TensorId, std::size_t> writer_, reader_;
  std::map<std::vector<std::size_t>, SharedList<double>> edge_costs_;
};

}  // namespace

StageGraph stage_graph(const Job& job, const StageShape& shape) {
  CollectivePrices collectives(job.cluster);
  return stage_graph(job, shape, collectives);
}

StageGraph stage_graph(const Job& job, const StageShape& shape, CollectivePrices& collectives) {
  const Job of_stage = stage_job(job, shape);
  StageGraph stage;
  stage.mesh = mesh_of(of_stage);
  stage.graph = build_graph(of_stage);
  select_trained(stage.graph, of_stage);
  for (const OwnAxis& axis : of_stage.layout.mesh) stage.axes.push_back(axis.name);
  stage.segment = segments_of_operators(stage.graph);
  StageGraphBuilder(of_stage, shape, stage, collectives).run();
  return stage;
}

namespace {

// Of the writer, what the reader reads first; nothing: they have a parameter in common.
std::optional<std::size_t> output_read(const Operator& writer, const Operator& reader) {
  for (const TensorId input : reader.inputs)
    for (std::size_t output = 0; output < writer.outputs.size(); ++output)
      if (writer.outputs[output] == input) return output;
  return std::nullopt;
}

bool splits_over_all(const StageGraph& stage, const OperatorStrategy& strategy) {
  return std::all_of(strategy.loop_of_axis.begin(), strategy.loop_of_axis.end(),
                     [](std::int32_t loop) { return loop >= 0; }) &&
         strategy.loop_of_axis.size() == stage.axes.size();
}

// What a reader's strategy costs where its input comes from the stage before, each device its part of it: as
// from the writer's cheapest layout that splits it over all devices, of those there are.
void add_entry(const StageGraph& stage, const ChoiceEdge& edge, ChoiceNode& reader) {
  const Operator& writer = stage.graph.operators[edge.from];
  const std::optional<std::size_t> read = output_read(writer, stage.graph.operators[edge.to]);
  if (!read) return;
  const std::size_t strategies = reader.cost.size();
  std::vector<double> entry(strategies, forbidden_cost);
  for (std::size_t from = 0; from < stage.strategies[edge.from].size(); ++from) {
    const OperatorStrategy& strategy = stage.strategies[edge.from][from];
    const Layout output = output_layout(stage.graph, writer, strategy.layout, *read);
    if (!splits_over_all(stage, strategy) || !output.partial_sum.empty() || !output.partial_max.empty())
      continue;
    for (std::size_t to = 0; to < strategies; ++to)
      entry[to] = std::min(entry[to], edge.cost[from * strategies + to]);
  }
  for (std::size_t to = 0; to < strategies; ++to)
    if (entry[to] < forbidden_cost) reader.cost[to] += entry[to];
}

}  // namespace

StageChoices choices_of(const StageGraph& stage, const StageRange& range) {
  StageChoices part;
  std::map<std::size_t, std::size_t> node_of;
  for (std::size_t o = 0; o < stage.segment.size(); ++o) {
    if (stage.segment[o] < range.first || stage.segment[o] >= range.last) continue;
    node_of[o] = part.operators.size();
    part.operators.push_back(o);
    ChoiceNode node{{stage.seconds[o].begin(), stage.seconds[o].end()},
                    {stage.static_bytes[o].begin(), stage.static_bytes[o].end()},
                    stage.segment[o]};
    for (std::size_t s = 0; s < node.memory.size(); ++s)
      node.memory[s] += static_cast<double>(range.in_flight) * stage.activation_bytes[o][s];
    part.choices.nodes.push_back(std::move(node));
  }
  for (const ChoiceEdge& edge : stage.edges)
    if (node_of.count(edge.from) > 0 && node_of.count(edge.to) > 0)
      part.choices.edges.push_back({node_of[edge.from], node_of[edge.to], edge.cost});
    else if (node_of.count(edge.to) > 0 && stage.segment[edge.from] < range.first)
      add_entry(stage, edge, part.choices.nodes[node_of[edge.to]]);
  return part;
}

}  // namespace simrun
