#include "cli/execute_one.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <stdexcept>

#include "backend/agreement.h"
#include "backend/execute.h"
#include "backend/hyperparameters.h"
#include "backend/reference_job.h"
#include "cli/execution_memory.h"
#include "configs/diagnostics.h"
#include "schedules/compile.h"
#include "schedules/lint.h"
#include "visualizer/quantity.h"

namespace simrun {
namespace {

constexpr int default_steps = 2;
// Some minutes of one core: what an unsharded run may cost that nobody asked for.
constexpr double most_reference_flops = 1e13;

std::string device_of(const ExecuteFlags& flags) { return flags.device.value_or("cpu"); }
std::string dtype_of(const ExecuteFlags& flags) { return flags.dtype.value_or("f32"); }

ExecutionDevice execution_device(const ExecuteFlags& flags) {
  if (device_of(flags) == "null") return ExecutionDevice::null;
  const std::string dtype = dtype_of(flags);
  return dtype == "f64"   ? ExecutionDevice::cpu_f64
         : dtype == "f32" ? ExecutionDevice::cpu_f32
                          : ExecutionDevice::cpu_half;
}

// What is rounded is held against what is not.
ExecuteOptions reference_options(ExecuteOptions how) {
  if (how.device == ExecutionDevice::cpu_half) how.device = ExecutionDevice::cpu_f32;
  return how;
}

bool has_halves(const Plan& plan) {
  return std::any_of(plan.buffers.begin(), plan.buffers.end(), [](const Buffer& buffer) {
    return buffer.dtype == Dtype::bf16 || buffer.dtype == Dtype::fp16;
  });
}

ExecuteOptions execute_options(const ExecuteFlags& flags, const Plan& plan) {
  ExecuteOptions options;
  options.training = hyperparameters_of(plan);
  options.device = execution_device(flags);
  options.steps = flags.steps.value_or(default_steps);
  options.training.seed = flags.seed.value_or(options.training.seed);
  options.training.learning_rate = flags.learning_rate.value_or(options.training.learning_rate);
  return options;
}

// The key that a refusal names behind its last colon, where the job has it.
SourcePosition position_of(const Input& input, const std::string& refusal) {
  const SourcePosition file{input.path, 0, 0};
  const std::size_t colon = refusal.rfind(": ");
  if (!input.job || colon == std::string::npos) return file;
  const std::size_t begin = colon + 2;
  std::string key = refusal.substr(begin, refusal.find_first_of(" ,:", begin) - begin);
  for (;;) {
    const auto at = input.job->positions.find(key);
    if (at != input.job->positions.end()) return at->second;
    const std::size_t dot = key.rfind('.');
    if (dot == std::string::npos) return file;
    key.resize(dot);
  }
}

// All ranks are in this process.
std::int64_t bytes_of_run(const Plan& plan, const ExecuteOptions& options) {
  const std::vector<std::int64_t> peaks = predicted_peaks(as_stored(plan, options.device), options.steps);
  return std::accumulate(peaks.begin(), peaks.end(), observation_bytes(plan));
}

// What there is to compare with: a plan, or why there is none.
struct ReferencePlan {
  std::optional<Plan> plan;
  std::string why_not;
};

std::string too_large(const Plan& alone, const Plan& plan, const ExecuteOptions& options, bool wanted) {
  const std::int64_t bytes = bytes_of_run(alone, reference_options(options)) + observation_bytes(plan);
  const std::int64_t there_is = memory_of_this_machine();
  if (bytes > there_is)
    return fmt::format("it takes {}, this machine has {}", memory_text(bytes), memory_text(there_is));
  const double flops = alone.job.hardware_flops_per_step * options.steps;
  if (flops > most_reference_flops && !wanted)
    return fmt::format("{:.0f} TFLOP on one core take long; --reference runs it all the same", flops / 1e12);
  return "";
}

ReferencePlan reference_plan(const Options& options, const Input& input, const ExecuteOptions& how) {
  const ExecuteFlags& flags = options.execute;
  if (how.device == ExecutionDevice::null) return {std::nullopt, "the null device computes nothing"};
  if (flags.no_reference) return {std::nullopt, "--no-reference"};
  if (!input.job) return {std::nullopt, "a Plan file has no job that one rank could run"};
  ReferencePlan reference;
  try {
    reference.plan = compile(reference_job(input.job->job));
  } catch (const std::invalid_argument& error) {
    return {std::nullopt, error.what()};
  } catch (const ConfigError& error) {
    return {std::nullopt, error.diagnostics().front().message};
  }
  std::vector<std::string> faults = lint(*reference.plan);
  const std::vector<std::string> refusals =
      execution_refusals(*reference.plan, reference_options(how).device);
  faults.insert(faults.end(), refusals.begin(), refusals.end());
  if (!faults.empty()) return {std::nullopt, faults.front()};
  if (std::string why = too_large(*reference.plan, input.plan, how, flags.reference); !why.empty())
    return {std::nullopt, why};
  return reference;
}

struct TimedExecution {
  Execution execution;
  double seconds_per_step = 0;  // of the whole run, initial values included
};

TimedExecution timed(const Plan& plan, const ExecuteOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  TimedExecution run{execute(plan, options), 0};
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  run.seconds_per_step = took.count() / options.steps;
  return run;
}

std::string memory_fault(const ExecutionReport& report) {
  for (std::size_t rank = 0; rank < report.allocated_peak_bytes.size(); ++rank)
    if (report.allocated_peak_bytes[rank] != report.predicted_peak_bytes[rank])
      return fmt::format("rank {} allocated {} bytes at its peak, {} were predicted", rank,
                         report.allocated_peak_bytes[rank], report.predicted_peak_bytes[rank]);
  return "";
}

ExecutionReport::Reference compared(const Agreement& agreed, const Execution& alone, const Plan& plan,
                                    const AgreementTolerance& within) {
  ExecutionReport::Reference reference;
  reference.loss = alone.loss;
  reference.max_loss_error = agreed.loss_error;
  reference.max_gradient_error = agreed.gradients.error;
  reference.max_parameter_error = agreed.parameters.error;
  reference.worst_tensor = agreed.gradients.worst;
  reference.first_tensor = agreed.gradients.first;
  reference.tolerance = within.gradients;
  reference.microbatches = plan.job.microbatches;
  return reference;
}

// Behind the run: against one rank.
void compare_with_one_rank(const ReferencePlan& reference, const ExecuteOptions& how, const Execution& run,
                           ExecutionReport& report) {
  report.no_reference = reference.why_not;
  if (!reference.plan) return;
  const Execution alone = execute(*reference.plan, reference_options(how));
  if (!alone.failure.empty()) {
    report.fault = "without parallelism: " + alone.failure;
    return;
  }
  const AgreementTolerance within = tolerance_of(how.device);
  const Agreement agreed = agreement(run, alone, within);
  report.reference = compared(agreed, alone, *reference.plan, within);
  if (report.fault.empty()) report.fault = agreed.fault;
}

}  // namespace

void check_execution(const Options& options, const Input& input) {
  const ExecuteFlags& flags = options.execute;
  std::vector<Diagnostic> faults;
  const auto refuse = [&](const SourcePosition& position, const std::string& why, const std::string& hint) {
    faults.push_back({position, why, hint});
  };
  const SourcePosition file{input.path, 0, 0};
  if (device_of(flags) == "cuda")
    refuse(file, "--device cuda: this simrun has no CUDA plugin", "--device cpu runs anywhere.");
  if (device_of(flags) == "cpu" && dtype_of(flags) == "bf16" && !has_halves(input.plan))
    refuse(position_of(input, ": training.precision"),
           "--dtype bf16 rounds what the plan holds in bf16 or fp16, and this plan holds nothing in them",
           "--dtype f32 runs it as it is.");
  if (!faults.empty()) throw ConfigError(std::move(faults));
  const ExecuteOptions how = execute_options(flags, input.plan);
  for (const std::string& refusal : execution_refusals(input.plan, how.device))
    refuse(position_of(input, refusal), "cannot be executed: " + refusal, "");
  if (faults.empty() && how.device != ExecutionDevice::null) {
    const std::int64_t bytes = bytes_of_run(input.plan, how), there_is = memory_of_this_machine();
    if (bytes > there_is)
      refuse(file,
             fmt::format("cannot be executed: all ranks together take {}, this machine has {}",
                         memory_text(bytes), memory_text(there_is)),
             "--device null checks the plan without its numbers.");
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
}

ExecutionReport execute_one(const Options& options, const Input& input, double predicted_step_s) {
  const ExecuteFlags& flags = options.execute;
  const Plan& plan = input.plan;
  const ExecuteOptions how = execute_options(flags, input.plan);
  const bool computes = how.device != ExecutionDevice::null;
  ExecutionReport report;
  report.device = device_of(flags);
  report.dtype = computes ? dtype_of(flags) : "";
  report.transport = "threads";
  report.ranks = plan.ranks();
  report.steps = how.steps;
  report.predicted_step_s = predicted_step_s;
  const Plan stored = as_stored(plan, how.device);
  report.stores_other_types = stored != plan;
  report.predicted_peak_bytes = predicted_peaks(stored, how.steps);

  const TimedExecution run = timed(plan, how);
  report.fault = run.execution.failure;
  for (const RankReport& rank : run.execution.ranks) report.instructions += rank.instructions;
  if (!report.fault.empty()) {
    report.no_reference = "the run failed";
    return report;
  }
  // The null device counts all memory spaces as one.
  for (const RankReport& rank : run.execution.ranks)
    report.allocated_peak_bytes.push_back(computes ? rank.allocated_peak_bytes : rank.planned_peak_bytes);
  report.fault = memory_fault(report);
  if (report.fault.empty() && computes) report.fault = replica_fault(run.execution, tolerance_of(how.device));
  if (computes) {
    report.loss = run.execution.loss;
    report.measured_step_s = run.seconds_per_step;
  }
  compare_with_one_rank(reference_plan(options, input, how), how, run.execution, report);
  return report;
}

}  // namespace simrun
