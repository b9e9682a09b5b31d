#include "backend/calibration.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

namespace simrun {
namespace {

using Extents = std::vector<std::pair<std::string, std::int64_t>>;

// A plan of one segment, grown instruction by instruction.
class ExperimentPlan {
 public:
  explicit ExperimentPlan(std::int64_t ranks) : ranks_(ranks) {
    Plan& plan = of_.plan;
    plan.job.tokens_per_step = 1;
    plan.streams = {{"compute", StreamDevice::gpu, Traffic::compute},
                    {"exchange", StreamDevice::gpu, Traffic::tensor}};
    plan.stages = {{{{0, ranks}}, {{"all", {{"ranks", ranks}}}}}};
    plan.segments = {{"calibration", PassKind::step, no_index, {}}};
    plan.programs = {{0, {{.segment = 0, .first_binding = 0, .binding_count = 0}}, {}}};
  }

  // Equal extents and purposes share a buffer. `split`: of which dimension every rank has its part, or "".
  Index buffer(const Extents& extents, const std::string& split = "",
               Category category = Category::activations) {
    const auto [known, fresh] = buffers_.try_emplace({extents, split, category}, no_index);
    if (!fresh) return known->second;
    Buffer buffer;
    buffer.name = "operand";
    buffer.category = category;
    buffer.scope = Scope::run;
    buffer.dtype = Dtype::fp32;
    for (const auto& [name, extent] : extents) {
      buffer.dims.push_back({dimension(name), -1, name == split ? extent / ranks_ : extent});
      buffer.split.emplace_back(name == split ? "ranks" : "");
    }
    of_.plan.buffers.push_back(buffer);
    return known->second = static_cast<Index>(of_.plan.buffers.size() - 1);
  }

  static Instruction instruction(Opcode opcode, std::vector<Index> inputs, std::vector<Index> outputs) {
    Instruction what;
    what.opcode = opcode;
    what.inputs = std::move(inputs);
    what.outputs = std::move(outputs);
    what.label = "calibration";
    return what;
  }

  void add(const std::string& what, std::vector<std::int64_t> sizes, Instruction instruction) {
    std::vector<Instruction>& all = of_.plan.segments.front().instructions;
    const auto number = static_cast<Index>(all.size());
    of_.experiments.push_back({what, std::move(sizes), number, number});
    all.push_back(std::move(instruction));
  }
  // The last experiment has one more instruction.
  void extend(Instruction instruction) {
    ++of_.experiments.back().last;
    of_.plan.segments.front().instructions.push_back(std::move(instruction));
  }

  // Among all ranks; or from each to the one `offset` behind it.
  Index communication(std::int32_t offset = 0) {
    Communication communication;
    communication.group.axes = {0};
    communication.cause = "calibration";
    if (offset != 0) communication.peer = {.axes = {0}, .offset = offset, .wrap = true, .coordinate_map = {}};
    of_.plan.communications.push_back(communication);
    return static_cast<Index>(of_.plan.communications.size() - 1);
  }

  CalibrationPlan take() { return std::move(of_); }

 private:
  std::uint16_t dimension(const std::string& name) {
    std::vector<std::string>& names = of_.plan.dimension_names;
    const auto found = std::find(names.begin(), names.end(), name);
    if (found != names.end()) return static_cast<std::uint16_t>(found - names.begin());
    names.push_back(name);
    return static_cast<std::uint16_t>(names.size() - 1);
  }

  const std::int64_t ranks_;
  CalibrationPlan of_;
  std::map<std::tuple<Extents, std::string, Category>, Index> buffers_;
};

void add_product(ExperimentPlan& plan, std::int64_t m, std::int64_t n, std::int64_t k) {
  const Index x = plan.buffer({{"m", m}, {"k", k}}), y = plan.buffer({{"m", m}, {"n", n}});
  const Index w = plan.buffer({{"k", k}, {"n", n}}, "", Category::gradients);
  plan.add("product", {m, n, k}, ExperimentPlan::instruction(Opcode::gemm, {x, w}, {y}));
  plan.add("product", {m, n, k}, ExperimentPlan::instruction(Opcode::gemm, {y, w}, {x}));
  Instruction weight_gradient = ExperimentPlan::instruction(Opcode::gemm, {x, y}, {w});
  weight_gradient.accumulate = true;
  plan.add("product", {m, n, k}, weight_gradient);
}

void add_attention(ExperimentPlan& plan, std::int64_t sequence, std::int64_t head_dim) {
  constexpr std::int64_t heads = 4;
  const auto of_heads = [&](const char* name, std::int64_t extent) {
    return Extents{
        {"batch", 1}, {"sequence", sequence}, {"kv_heads", heads}, {name, extent}, {"head_dim", head_dim}};
  };
  const Index packed = plan.buffer(of_heads("qkv", 3)), context = plan.buffer(of_heads("group", 1));
  const Index sums = plan.buffer({{"batch", 1}, {"kv_heads", heads}, {"group", 1}, {"sequence", sequence}});
  const Index gradient = plan.buffer(of_heads("qkv", 3), "", Category::gradients);
  Instruction forward = ExperimentPlan::instruction(Opcode::attention, {packed}, {context, sums});
  forward.function = Function::flash;
  forward.causal.on = true;
  forward.constants = {1 / std::sqrt(static_cast<double>(head_dim)), 0};
  Instruction backward = forward;
  backward.opcode = Opcode::attention_backward;
  backward.inputs = {context, packed, context, sums};
  backward.outputs = {gradient};
  plan.add("attention", {sequence, head_dim}, forward);
  plan.add("attention_backward", {sequence, head_dim}, backward);
}

void add_exchange(ExperimentPlan& plan, Opcode opcode, std::int64_t bytes, std::vector<Index> operands) {
  Instruction what = ExperimentPlan::instruction(opcode, {operands[0]}, {operands[1]});
  what.stream = 1;
  what.communication = plan.communication();
  plan.add(to_string(opcode), {bytes}, what);
}

void add_repetition(const Measurement& measured, std::size_t step, const Experiment& of,
                    ExperimentSeconds& seconds) {
  std::int64_t begin = INT64_MIN, end = INT64_MIN, longest = 0;
  for (const std::vector<MeasuredStep>& rank : measured.ranks) {
    const std::vector<MeasuredInstruction>& instructions = rank[step].instructions;
    begin = std::max(begin, instructions[of.first].begin_ns);
    end = std::max(end, instructions[of.last].end_ns);
    std::int64_t work = 0;
    for (Index i = of.first; i <= of.last; ++i) work += instructions[i].busy_ns;
    longest = std::max(longest, work);
  }
  seconds.work.push_back(static_cast<double>(longest) * 1e-9);
  seconds.wall.push_back(static_cast<double>(end - begin) * 1e-9);
}

}  // namespace

CalibrationPlan kernel_experiments() {
  ExperimentPlan plan(1);
  const Index one = plan.buffer({{"m", 1}}), other = plan.buffer({{"k", 1}});
  Instruction sum = ExperimentPlan::instruction(Opcode::map, {one, one}, {other});
  sum.function = Function::sum_gradients;
  for (int i = 0; i < 16; ++i) plan.add("overhead", {}, sum);
  const std::vector<std::int64_t> sizes{32, 128, 512, 2048};
  for (const std::int64_t m : sizes)
    for (const std::int64_t n : sizes)
      for (const std::int64_t k : sizes) add_product(plan, m, n, k);
  for (const std::int64_t sequence : {64, 256, 1024})
    for (const std::int64_t head_dim : {32, 64, 128}) add_attention(plan, sequence, head_dim);
  return plan.take();
}

CalibrationPlan exchange_experiments(std::int64_t ranks) {
  ExperimentPlan plan(ranks);
  for (const std::int64_t kib : {4, 64, 1024, 8192}) {
    // Whole numbers of rows for any number of ranks.
    const std::int64_t columns = 64,
                       rows = std::max<std::int64_t>(kib * 1024 / 4 / columns / ranks, 1) * ranks;
    const std::int64_t bytes = rows * columns * 4;
    const Extents extents{{"rows", rows}, {"columns", columns}};
    const Index whole = plan.buffer(extents), result = plan.buffer(extents, "", Category::comm);
    const Index by_rows = plan.buffer(extents, "rows"), by_columns = plan.buffer(extents, "columns");
    add_exchange(plan, Opcode::all_reduce, bytes, {whole, result});
    add_exchange(plan, Opcode::all_gather, bytes, {by_rows, whole});
    add_exchange(plan, Opcode::reduce_scatter, bytes, {whole, by_rows});
    if (columns % ranks == 0) add_exchange(plan, Opcode::all_to_all, bytes / ranks, {by_rows, by_columns});
    Instruction send = ExperimentPlan::instruction(Opcode::send, {whole}, {});
    Instruction receive = ExperimentPlan::instruction(Opcode::recv, {}, {result});
    send.stream = receive.stream = 1;
    send.communication = plan.communication(1);
    receive.communication = plan.communication(-1);
    plan.add("send", {bytes}, send);
    plan.extend(receive);
  }
  return plan.take();
}

std::vector<ExperimentSeconds> run_experiments(const CalibrationPlan& of, ExecutionDevice device,
                                               int repetitions) {
  ExecuteOptions options;
  options.device = device;
  options.steps = repetitions + 1;
  options.timed = true;
  options.compares = false;
  options.limit = std::chrono::minutes(10);
  const Execution run = execute(of.plan, options);
  if (!run.failure.empty()) throw std::runtime_error(run.failure);
  std::vector<ExperimentSeconds> seconds;
  for (const Experiment& experiment : of.experiments) {
    ExperimentSeconds& own = seconds.emplace_back();
    for (std::size_t step = 1; step < run.measured.ranks.front().size(); ++step)
      add_repetition(run.measured, step, experiment, own);
  }
  return seconds;
}

}  // namespace simrun
