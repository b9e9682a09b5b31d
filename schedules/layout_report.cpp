#include "schedules/layout_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "schedules/lower_model.h"

namespace simrun {
namespace {

using Parts = std::vector<std::string>;

Parts parts_of(const Layout& layout, const LoweredModel& model, const DeviceMesh& mesh) {
  Parts parts;
  for (const DimensionSplit& split : layout.splits)
    parts.push_back(fmt::format("{} {}", model.graph.dimensions[split.dim].name, mesh.words(split.axes)));
  if (!layout.partial_sum.empty()) parts.push_back("sum over " + mesh.words(layout.partial_sum));
  if (!layout.partial_max.empty()) parts.push_back("max over " + mesh.words(layout.partial_max));
  return parts;
}

std::string words(const Parts& parts) {
  return parts.empty() ? "whole" : fmt::format("{}", fmt::join(parts, ", "));
}

Parts without(const Parts& parts, const Parts& others) {
  Parts left;
  for (const std::string& part : parts)
    if (std::find(others.begin(), others.end(), part) == others.end()) left.push_back(part);
  return left;
}

class ReportWriter {
 public:
  explicit ReportWriter(const Job& job) : job_(job), model_(lower_model(job)) {
    const std::vector<Operator>& operators = model_.graph.operators;
    std::vector<std::size_t> stage_of(operators.size());
    for (std::size_t stage = 0; stage < model_.stages.size(); ++stage)
      for (const std::size_t o : model_.partition.operators[stage]) stage_of[o] = stage;
    for (std::size_t o = 0; o < operators.size(); ++o) {
      by_name_[{operators[o].layer, operators[o].name}] = o;
      for (const TensorId tensor : operators[o].outputs) producer_[tensor] = o;
      for (const TensorId tensor : operators[o].inputs) first_reader_.emplace(tensor, o);
      rows_.push_back(row_of(o, model_.mesh(stage_of[o])));
    }
  }

  LayoutReport write() {
    for (std::size_t stage = 0; stage < model_.stages.size(); ++stage) {
      const ChunkCode& code = model_.stages[stage];
      mesh_ = &model_.mesh(stage);
      const std::size_t last = model_.partition.operators[stage].back();
      add_steps(code, code.forward, last);
      add_steps(code, code.backward, last);
      add_gradient_sums(code);
    }
    LayoutReport report{model_.mesh(0).mesh.axes, job_.parallelism.pipeline_model_parallel_size, {}};
    collect(report);
    return report;
  }

 private:
  OperatorLayout row_of(std::size_t o, const DeviceMesh& mesh) const {
    const Operator& op = model_.graph.operators[o];
    const Layout& layout = model_.layouts[o];
    OperatorLayout row{op.name, op.module, words(parts_of(layout, model_, mesh)), "", {}};
    if (op.outputs.empty() || op.keeps_partial_sums) return row;
    Layout partial = output_layout(model_.graph, op, layout, 0);
    partial.splits.clear();
    if (partial != Layout{}) row.partial = words(parts_of(partial, model_, mesh));
    return row;
  }

  std::int64_t bytes(const Value& value) const {
    if (value.flat_elements > 0) return stored_bytes(value.dtype, value.flat_elements);
    std::int64_t elements = 1;
    for (const DimensionId dim : model_.graph.tensors[value.tensor].dims)
      elements *= local_extent(model_.graph, value.layout, dim, mesh_->mesh);
    return stored_bytes(value.dtype, elements);
  }

  LayoutTransfer transfer(const ChunkCode& code, const CodeStep& step) const {
    const Value& from = code.values[step.inputs.front()];
    const Value& to = code.values[step.outputs.front()];
    LayoutTransfer made;
    made.when = step.phase == Phase::forward     ? "forward"
                : step.phase == Phase::recompute ? "recompute"
                                                 : "backward";
    made.operation = step.opcode == Opcode::copy ? "slice" : to_string(step.opcode);
    made.axes = mesh_->words(step.axes);
    made.ranks = mesh_->size(step.axes);
    made.bytes = std::max(bytes(from), bytes(to));
    const Parts before = parts_of(from.layout, model_, *mesh_), after = parts_of(to.layout, model_, *mesh_);
    made.change = step.label;  // numbers that are no part of a tensor
    if (from.flat_elements == 0)
      made.change = fmt::format("{}: {} -> {}", model_.graph.tensors[from.tensor].name,
                                words(without(before, after)), words(without(after, before)));
    made.cause = step.cause;
    return made;
  }

  // What a transfer's result is for is known when the next operator runs, but for gradients.
  void add_steps(const ChunkCode& code, const std::vector<CodeStep>& steps, std::size_t last) {
    std::vector<LayoutTransfer> waiting;
    for (const CodeStep& step : steps) {
      const bool moves = !step.axes.empty() && !step.inputs.empty() && !step.outputs.empty();
      const auto producer = moves ? producer_.find(code.values[step.inputs.front()].tensor) : producer_.end();
      if (producer != producer_.end() && step.phase == Phase::backward_input) {
        rows_[producer->second].transfers.push_back(transfer(code, step));
      } else if (moves) {
        waiting.push_back(transfer(code, step));
      } else if (const auto op = by_name_.find({step.layer, step.label}); op != by_name_.end()) {
        append(op->second, waiting);
      }
    }
    append(last, waiting);
  }

  void append(std::size_t o, std::vector<LayoutTransfer>& waiting) {
    rows_[o].transfers.insert(rows_[o].transfers.end(), waiting.begin(), waiting.end());
    waiting.clear();
  }

  // Replicas that had other parts of a sequence add up first, then those that had other tokens of the batch,
  // who share the optimizer's work under ZeRO.
  void add_gradient_sums(const ChunkCode& code) {
    for (std::size_t p = 0; p < code.parameters.size(); ++p) {
      std::vector<AxisId> data, tensor;
      for (auto axis = code.gradient_axes[p].rbegin(); axis != code.gradient_axes[p].rend(); ++axis)
        (mesh_->kind[*axis] == 't' && !code.of_experts[p] ? tensor : data).push_back(*axis);
      const Value& gradient = code.values[code.parameter_gradients[p]];
      if (!tensor.empty()) add_gradient_sum(gradient, tensor, Opcode::all_reduce);
      if (data.empty()) continue;
      if (job_.optimizer.parameter_server) {
        add_gradient_sum(gradient, data, Opcode::push);
        add_pull(code.values[code.parameters[p]], data);
      } else {
        add_gradient_sum(gradient, data,
                         job_.optimizer.zero_stage == 0 && !is_sharded_layer(gradient)
                             ? Opcode::all_reduce
                             : Opcode::reduce_scatter);
      }
    }
  }

  bool is_sharded_layer(const Value& gradient) const {
    const Operator& reader = model_.graph.operators[first_reader_.at(gradient.tensor)];
    return has_layer(job_.optimizer.zero_3_layers, reader.layer);
  }

  void add_gradient_sum(const Value& gradient, const std::vector<AxisId>& axes, Opcode opcode) {
    LayoutTransfer sum;
    sum.when = "step";
    sum.operation = to_string(opcode);
    sum.axes = mesh_->words(axes);
    sum.ranks = mesh_->size(axes);
    sum.bytes = bytes(gradient);
    sum.change = fmt::format("{}: sum over {}", gradient.name, sum.axes);
    sum.cause = fmt::format("{}: {}, partial sum over {}", gradient.name,
                            describe(gradient.layout, model_.graph, *mesh_), sum.axes);
    rows_[first_reader_.at(gradient.tensor)].transfers.push_back(std::move(sum));
  }

  void add_pull(const Value& weights, const std::vector<AxisId>& axes) {
    LayoutTransfer pull;
    pull.when = "step";
    pull.operation = to_string(Opcode::pull);
    pull.axes = mesh_->words(axes);
    pull.ranks = mesh_->size(axes);
    pull.bytes = bytes(weights);
    pull.change =
        fmt::format("{}: {} servers -> whole", weights.name, job_.optimizer.parameter_server->servers);
    pull.cause = fmt::format("{}: updated by {} parameter servers, replicated over {}", weights.name,
                             job_.optimizer.parameter_server->servers, pull.axes);
    rows_[first_reader_.at(weights.tensor)].transfers.push_back(std::move(pull));
  }

  void collect(LayoutReport& report) const {
    std::map<std::int32_t, std::vector<OperatorLayout>> layers;
    LayoutPart embedding{"embedding", {}, {}}, head{"head", {}, {}};
    for (std::size_t o = 0; o < rows_.size(); ++o) {
      const Operator& op = model_.graph.operators[o];
      if (op.layer >= 0)
        layers[op.layer].push_back(rows_[o]);
      else
        (op.after_layers ? head : embedding).operators.push_back(rows_[o]);
    }
    report.parts.push_back(std::move(embedding));
    for (const auto& [layer, rows] : layers) {
      const auto alike = std::find_if(
          report.parts.begin(), report.parts.end(),
          [&same = rows](const LayoutPart& part) { return part.name == "layers" && part.operators == same; });
      if (alike == report.parts.end())
        report.parts.push_back({"layers", {layer}, rows});
      else
        alike->layers.push_back(layer);
    }
    report.parts.push_back(std::move(head));
  }

  const Job& job_;
  const LoweredModel model_;
  const DeviceMesh* mesh_ = nullptr;  // of the stage at hand
  std::map<std::pair<std::int32_t, std::string>, std::size_t> by_name_;
  std::map<TensorId, std::size_t> producer_;
  std::map<TensorId, std::size_t> first_reader_;
  std::vector<OperatorLayout> rows_;
};

}  // namespace

LayoutReport layout_report(const Job& job) { return ReportWriter(job).write(); }

}  // namespace simrun
