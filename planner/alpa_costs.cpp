#include "planner/alpa_costs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/backward.h"
#include "schedules/partition.h"

namespace simrun {
namespace {

// What of it must be kept: read by a backward step from outside the region that would repeat it.
std::vector<bool> tensors_read_backward(const Graph& graph, const RecomputeRegions& regions) {
  std::vector<std::int32_t> written_in(graph.tensors.size(), -1);
  for (std::size_t o = 0; o < graph.operators.size(); ++o)
    for (const TensorId output : graph.operators[o].outputs) written_in[output] = regions.region_of[o];
  const auto is_repeated = [&](TensorId tensor, std::int32_t reader) {
    const std::int32_t region = written_in[tensor];
    return region >= 0 && (region == reader || regions.discards_output[static_cast<std::size_t>(region)]);
  };
  std::vector<bool> is_read(graph.tensors.size(), false);
  for (std::size_t o = 0; o < graph.operators.size(); ++o) {
    const Operator& op = graph.operators[o];
    const std::int32_t own = regions.region_of[o];
    if (own >= 0)  // the region repeats its forward steps
      for (const TensorId input : op.inputs)
        if (!is_repeated(input, own)) is_read[input] = true;
    for (const BackwardStep& step : backward_steps(graph, op))
      for (const Operand& read : step.reads) {
        const bool is_input = read.role == OperandRole::input_value;
        if (!is_input && read.role != OperandRole::output_value) continue;
        const TensorId tensor = is_input ? op.inputs[read.index] : op.outputs[read.index];
        if (!is_repeated(tensor, own)) is_read[tensor] = true;
      }
  }
  return is_read;
}

// Ranks that have equal parts of a parameter and other tokens.
std::vector<AxisId> summed_axes(const Graph& graph, const Operator& op, const Layout& layout,
                                std::size_t input) {
  return gradient_layout(graph, op, layout, input).partial_sum;
}

}  // namespace

AlpaCosts::AlpaCosts(const Job& job, const StageShape& shape, const StageGraph& stage,
                     CollectivePrices& collectives)
    : job_(job),
      microbatches_(static_cast<double>(shape.microbatches)),
      hides_data_parallel_(shape.hides_data_parallel),
      stage_(stage),
      prices_(job, stage.graph, stage.mesh, collectives),
      state_(parameter_state(job)) {
  const RecomputeRegions regions =
      recompute_regions(stage.graph, job.recompute, partition(stage.graph, job.parallelism.stages));
  region_of_ = regions.region_of;
  is_read_backward_ = tensors_read_backward(stage.graph, regions);
  counts_at_.assign(stage.graph.tensors.size(), nullptr);
  if (shape.stages > 1) return;
  for (const Operator& op : stage.graph.operators)
    for (const TensorId input : op.inputs)
      if (stage.graph.tensors[input].kind == TensorKind::parameter) counts_at_[input] = &op;
}

// Stages that hold the ends of a pipeline each have a shared parameter of their own.
bool AlpaCosts::counts(const Operator& op, TensorId parameter) const {
  return stage_.graph.tensors[parameter].kind == TensorKind::parameter &&
         (counts_at_[parameter] == nullptr || counts_at_[parameter] == &op);
}

std::string AlpaCosts::key_of(std::size_t o) const {
  const Graph& graph = stage_.graph;
  const Operator& op = graph.operators[o];
  std::string key = fmt::format("{} {} {} {} {} {} {} {} {} {}", op.name, static_cast<int>(op.opcode),
                                static_cast<int>(op.function), op.dropout, op.causal.window, op.soft_cap,
                                op.alibi, op.sums_later, region_of_[o] >= 0, op.forward_inputs);
  const auto add_tensor = [&](TensorId tensor) {
    const Tensor& t = graph.tensors[tensor];
    key += fmt::format("|{} {} {} {} {} {}", counts(op, tensor), static_cast<int>(t.kind),
                       static_cast<int>(t.dtype), t.frozen, bool{is_read_backward_[tensor]},
                       fmt::join(t.dims, ","));
  };
  for (const TensorId input : op.inputs) add_tensor(input);
  key += " ->";
  for (const TensorId output : op.outputs) add_tensor(output);
  return key;
}

// What data parallelism costs, per microbatch: sums of gradients, as far as the operator's own backward pass
// does not hide them where they overlap it; ZeRO-2 and 3 scatter every microbatch's, others once per step.
// ZeRO-3 gathers weights before either pass, hidden behind one of like length. The update reads and writes
// what is kept, once.
AlpaCosts::DataParallelSeconds AlpaCosts::data_parallel_seconds(const Operator& op, const Layout& layout,
                                                                const OperatorSeconds& own) {
  const int zero = job_.optimizer.zero_stage;
  double sums = 0, gathers = 0, update = 0;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const Tensor& tensor = stage_.graph.tensors[op.inputs[i]];
    if (!counts(op, op.inputs[i]) || tensor.frozen) continue;
    const double elements = prices_.local_elements(op.inputs[i], input_layout(stage_.graph, op, layout, i));
    const std::vector<AxisId> axes = summed_axes(stage_.graph, op, layout, i);
    const double ranks = static_cast<double>(stage_.mesh.size(axes));
    // Of many parameters in one bucket, each adds its bytes only.
    const auto of_bytes = [&](Opcode opcode, double bytes) {
      return ranks > 1 ? prices_.collective_seconds(opcode, axes, bytes) -
                             prices_.collective_seconds(opcode, axes, 0)
                       : 0;
    };
    const double reduced = elements * static_cast<double>(bytes_of(job_.optimizer.grad_reduce_dtype));
    sums += of_bytes(zero >= 2 ? Opcode::reduce_scatter : Opcode::all_reduce, reduced);
    if (zero >= 3) gathers += of_bytes(Opcode::all_gather, elements * state_.weights);
    update += prices_.memory_seconds(2 * elements / (zero >= 1 ? ranks : 1) *
                                     (state_.optimizer + state_.gradients));
  }
  const bool each_time = zero >= 2 && !job_.optimizer.no_sync;
  const double exchanged = (each_time ? sums : sums / microbatches_) + 2 * gathers;
  if (hides_data_parallel_) return {update / microbatches_, exchanged};
  const double backward = own.backward_input + own.backward_weight;
  if (job_.optimizer.overlap_grad_reduce) sums = std::max(0.0, sums - backward);
  const double taken = (each_time ? sums : sums / microbatches_) + std::max(0.0, gathers - own.forward) +
                       std::max(0.0, gathers - backward) + update / microbatches_;
  return {taken, exchanged};
}

double AlpaCosts::kept_outputs(std::size_t o, const Layout& layout) const {
  const Operator& op = stage_.graph.operators[o];
  double bytes = 0;
  for (std::size_t i = 0; i < op.outputs.size(); ++i)
    if (is_read_backward_[op.outputs[i]])
      bytes += prices_.local_bytes(op.outputs[i], stage_.graph.tensors[op.outputs[i]].dtype,
                                   output_layout(stage_.graph, op, layout, i));
  return bytes;
}

OperatorCost AlpaCosts::operator_cost(std::size_t o, const Layout& layout) {
  const Operator& op = stage_.graph.operators[o];
  const OperatorSeconds seconds = prices_.operator_seconds(op, layout);
  const double backward = seconds.backward_input + seconds.backward_weight;
  const double forwards = region_of_[o] >= 0 ? 2 : 1;
  OperatorCost cost;
  const DataParallelSeconds data_parallel = data_parallel_seconds(op, layout, seconds);
  cost.seconds = forwards * seconds.forward + backward + data_parallel.taken;
  cost.exchange_seconds = data_parallel.exchanged;
  cost.activation_bytes = kept_outputs(o, layout);
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const Tensor& tensor = stage_.graph.tensors[op.inputs[i]];
    if (!counts(op, op.inputs[i])) continue;
    const double ranks = static_cast<double>(stage_.mesh.size(summed_axes(stage_.graph, op, layout, i)));
    const double per_element = tensor.frozen ? state_.weights : state_.kept(job_.optimizer.zero_stage, ranks);
    cost.static_bytes +=
        per_element * prices_.local_elements(op.inputs[i], input_layout(stage_.graph, op, layout, i));
  }
  return cost;
}

// What the writer of a reader's input leaves of it; of a parameter of both, its gradient.
Layout AlpaCosts::held(const Operator& writer, TensorId tensor, const Layout& layout) const {
  const auto index_in = [&](const auto& tensors) {
    return static_cast<std::size_t>(std::find(tensors.begin(), tensors.end(), tensor) - tensors.begin());
  };
  return stage_.graph.tensors[tensor].kind == TensorKind::parameter
             ? gradient_layout(stage_.graph, writer, layout, index_in(writer.inputs))
             : output_layout(stage_.graph, writer, layout, index_in(writer.outputs));
}

// How the reader's passes use the input, whatever its strategy.
AlpaCosts::Use AlpaCosts::use_of(std::size_t reader, std::size_t input) const {
  const Operator& op = stage_.graph.operators[reader];
  Use use{op.inputs[input], region_of_[reader] >= 0};
  for (const BackwardStep& step : backward_steps(stage_.graph, op)) {
    use.is_differentiated |= std::count(step.gradients_of.begin(), step.gradients_of.end(), input) > 0;
    for (const Operand& read : step.reads)
      use.is_read_backward |= read.role == OperandRole::input_value && read.index == input;
  }
  use.is_differentiated &= !stage_.graph.tensors[use.tensor].frozen;
  return use;
}

AlpaCosts::Arrival AlpaCosts::arrival(std::size_t reader, std::size_t input, const Use& use,
                                      const Layout& layout) {
  const Operator& op = stage_.graph.operators[reader];
  Arrival arrival{input_layout(stage_.graph, op, layout, input),
                  gradient_layout(stage_.graph, op, layout, input)};
  if (use.is_read_backward && !use.is_repeated)
    arrival.hidden_seconds = prices_.operator_seconds(op, layout).backward_input;
  return arrival;
}

double AlpaCosts::tensor_seconds(const Use& use, const Layout& held, const Arrival& arrival) {
  const Tensor& t = stage_.graph.tensors[use.tensor];
  if (t.kind == TensorKind::parameter) return held == arrival.gradient ? 0 : forbidden_cost;
  const double forward = prices_.conversion_seconds(use.tensor, t.dtype, held, arrival.wanted);
  double seconds = forward * (use.is_repeated ? 2 : 1);
  if (use.is_read_backward && !use.is_repeated)
    seconds += std::max(
        0.0, prices_.gather_seconds(use.tensor, t.dtype, held, arrival.wanted) - arrival.hidden_seconds);
  if (use.is_differentiated)
    seconds += prices_.conversion_seconds(use.tensor, job_.training.precision, arrival.gradient,
                                          without_partials(held));
  return seconds;
}

namespace {

// Those that differ, and of each one which of these it is.
template <typename T>
struct Distinct {
  std::vector<T> values;
  std::vector<std::size_t> index;
  void add(T value) {
    const auto known = std::find(values.begin(), values.end(), value);
    index.push_back(static_cast<std::size_t>(known - values.begin()));
    if (known == values.end()) values.push_back(std::move(value));
  }
};

}  // namespace

// Many strategies leave a tensor in one layout, or want it in one.
std::vector<double> AlpaCosts::edge_costs(std::size_t writer, std::size_t reader,
                                          const std::vector<std::size_t>& inputs) {
  const SharedList<OperatorStrategy>&from = stage_.strategies[writer], &to = stage_.strategies[reader];
  std::vector<double> costs(from.size() * to.size(), 0);
  for (const std::size_t input : inputs) {
    const Use use = use_of(reader, input);
    Distinct<Layout> left;
    for (const OperatorStrategy& strategy : from)
      left.add(held(stage_.graph.operators[writer], use.tensor, strategy.layout));
    Distinct<Arrival> arrivals;
    for (const OperatorStrategy& strategy : to) arrivals.add(arrival(reader, input, use, strategy.layout));
    std::vector<double> seconds;
    for (const Layout& layout : left.values)
      for (const Arrival& of : arrivals.values) seconds.push_back(tensor_seconds(use, layout, of));
    for (std::size_t f = 0; f < from.size(); ++f)
      for (std::size_t t = 0; t < to.size(); ++t)
        costs[f * to.size() + t] += seconds[left.index[f] * arrivals.values.size() + arrivals.index[t]];
  }
  return costs;
}

}  // namespace simrun
