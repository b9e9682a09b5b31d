#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "backend/calibration.h"
#include "cli/calibrate.h"
#include "configs/load_job.h"
#include "schedules/compile.h"
#include "sim/kernel_cost.h"
#include "sim/measured_cost.h"

namespace simrun {
namespace {

constexpr int repetitions = 5;
constexpr int exchange_repetitions = 15;

// Jobs whose kernels of rows are measured as they run: 1,024 tokens, tensors of some MB as larger models
// have.
constexpr const char* gpt_model =
    "{model_type: gpt, num_layers: 1, hidden_size: 512, num_attention_heads: 8, vocab_size: 4096, "
    "max_position_embeddings: 512, hidden_dropout: 0, attention_dropout: 0}";
constexpr const char* llama_model =
    "{model_type: llama, num_hidden_layers: 1, hidden_size: 512, intermediate_size: 1376, "
    "num_attention_heads: 8, num_key_value_heads: 4, vocab_size: 4096, max_position_embeddings: 512}";
constexpr const char* job_around =
    "training: {{seq_length: 512, micro_batch_size: 2, global_batch_size: 2, precision: fp32}}\n"
    "parallelism: {{}}\n"
    "cluster: {{nodes: 1, gpus_per_node: 1, reserved_memory: 0 GiB, gpu: {{peak_flops: {{fp32: 1 TFLOP/s}}, "
    "vector_flops: 1 TFLOP/s, memory: 64 GiB, memory_bandwidth: 100 GB/s, sm_count: 1, l2: 1 MiB, "
    "kernel_launch: 1 us, matmul_efficiency: 1, memory_efficiency: 1}}}}\n";

Plan plan_of(const char* model) {
  return compile(
      load_job_text(fmt::format(fmt::runtime(std::string("simrun: 1\nmodel: {}\n") + job_around), model),
                    "calibration", {})
          .job);
}

// Bytes and seconds of every kernel of rows, by name, then repetition.
struct RowWork {
  double bytes = 0;
  std::vector<double> seconds;
};
using RowWorks = std::map<std::string, RowWork>;

bool is_kernel_of_rows(Opcode opcode) {
  const std::set<Opcode> others{Opcode::gemm, Opcode::attention, Opcode::attention_backward,
                                Opcode::free, Opcode::init,      Opcode::copy};
  return !is_communication(opcode) && others.find(opcode) == others.end();
}

// The smallest instructions take little more than every instruction does.
double without(double overhead_s, double seconds) {
  constexpr double least_share = 0.2;
  return std::max(seconds - overhead_s, least_share * seconds);
}

// The first is left out: it stands behind a barrier.
Spread overhead_of(const CalibrationPlan& experiments, const std::vector<ExperimentSeconds>& seconds) {
  std::vector<double> all;
  for (std::size_t e = 1; experiments.experiments[e].what == "overhead"; ++e)
    all.insert(all.end(), seconds[e].work.begin(), seconds[e].work.end());
  return spread_of(std::move(all));
}

void add_kernels_of(const char* model, ExecutionDevice device, double overhead_s, RowWorks& works) {
  const Plan plan = plan_of(model);
  ExecuteOptions options;
  options.device = device;
  options.steps = repetitions + 1;
  options.timed = true;
  options.compares = false;
  options.limit = std::chrono::minutes(10);
  const Execution run = execute(plan, options);
  if (!run.failure.empty()) throw std::runtime_error(run.failure);
  const std::vector<MeasuredStep>& steps = run.measured.ranks.front();
  for (std::size_t i = 0; i < steps.back().instructions.size(); ++i) {
    const MeasuredInstruction& of = steps.back().instructions[i];
    const Segment& segment = plan.segments[plan.programs.front().entries[of.entry].segment];
    const Instruction& what = segment.instructions[of.instruction];
    if (!is_kernel_of_rows(what.opcode)) continue;
    RowWork& work = works[kernel_name(what)];
    work.bytes += kernel_work(plan, what).bytes;
    work.seconds.resize(repetitions, 0);
    for (std::size_t step = 1; step < steps.size(); ++step)
      work.seconds[step - 1] +=
          without(overhead_s, static_cast<double>(steps[step].instructions[i].busy_ns) * 1e-9);
  }
}

std::vector<double> rates(double work, const std::vector<double>& seconds) {
  std::vector<double> rates;
  for (const double s : seconds) rates.push_back(work / std::max(s, 1e-9));
  return rates;
}

std::string sizes_text(const std::vector<std::int64_t>& sizes) {
  return fmt::format("{}", fmt::join(sizes, "x"));
}

void measure_kernels(ExecutionDevice device, Calibration& calibration) {
  const CalibrationPlan experiments = kernel_experiments();
  const std::vector<ExperimentSeconds> seconds = run_experiments(experiments, device, repetitions);
  calibration.overhead_s = overhead_of(experiments, seconds);
  const double overhead_s = calibration.overhead_s.median;
  // The three products of one shape are one rate.
  std::map<std::vector<std::int64_t>, RowWork> products;
  for (std::size_t e = 0; e < experiments.experiments.size(); ++e) {
    const Experiment& of = experiments.experiments[e];
    if (of.what == "overhead") continue;
    const Instruction& what = experiments.plan.segments.front().instructions[of.first];
    const double flops = kernel_work(experiments.plan, what).flops;
    std::vector<double> own = seconds[e].work;
    for (double& s : own) s = without(overhead_s, s);
    if (of.what == "product") {
      RowWork& product = products[of.sizes];
      product.bytes += flops;
      product.seconds.resize(own.size(), 0);
      for (std::size_t i = 0; i < own.size(); ++i) product.seconds[i] += own[i];
    } else {
      (of.what == "attention" ? calibration.attention : calibration.attention_backward)
          .push_back({sizes_text(of.sizes), spread_of(rates(flops, own))});
    }
  }
  for (const auto& [sizes, product] : products)
    calibration.products.push_back({sizes_text(sizes), spread_of(rates(product.bytes, product.seconds))});
  RowWorks works;
  for (const char* model : {gpt_model, llama_model}) add_kernels_of(model, device, overhead_s, works);
  for (const auto& [name, work] : works)
    calibration.kernels.push_back({name, spread_of(rates(work.bytes, work.seconds))});
}

// Each exchange's smallest message is its latency. The largest, by the work that it makes beyond the
// smallest, is its bandwidth: ranks work at once.
void measure_exchanges(ExecutionDevice device, std::int64_t ranks, Calibration& calibration) {
  const CalibrationPlan experiments = exchange_experiments(ranks);
  const std::vector<ExperimentSeconds> seconds = run_experiments(experiments, device, exchange_repetitions);
  std::map<std::string, std::map<std::int64_t, const ExperimentSeconds*>> by_name;
  for (std::size_t e = 0; e < experiments.experiments.size(); ++e)
    by_name[experiments.experiments[e].what][experiments.experiments[e].sizes.front()] = &seconds[e];
  for (const auto& [name, by_bytes] : by_name) {
    const ExperimentSeconds& least = *by_bytes.begin()->second;
    const auto& [most_bytes, most] = *by_bytes.rbegin();
    const double least_work = spread_of(least.work).median;
    std::vector<double> moving = most->work;
    for (double& s : moving) s = without(least_work, s);
    calibration.exchanges.push_back(
        {name, ranks, spread_of(least.wall), spread_of(rates(static_cast<double>(most_bytes), moving))});
  }
}

}  // namespace

Calibration measure_machine(ExecutionDevice device, const std::string& dtype) {
  Calibration calibration;
  calibration.dtype = dtype;
  calibration.cores = available_cores();
  calibration.memory_bytes =
      static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  calibration.cache_bytes = std::max<std::int64_t>(sysconf(_SC_LEVEL2_CACHE_SIZE), 1 << 20);
  measure_kernels(device, calibration);
  for (const std::int64_t ranks : {2, 4, 8}) measure_exchanges(device, ranks, calibration);
  return calibration;
}

}  // namespace simrun
