#include "cli/execute_one.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <stdexcept>

#include "backend/agreement.h"
#include "backend/execute.h"
#include "backend/hyperparameters.h"
#include "backend/plugin_device.h"
#include "backend/processes/group.h"
#include "backend/reference_job.h"
#include "cli/console.h"
#include "cli/execution_memory.h"
#include "cli/processes.h"
#include "cli/refusal_position.h"
#include "configs/diagnostics.h"
#include "schedules/compile.h"
#include "schedules/lint.h"
#include "schedules/timeline.h"
#include "sim/core_replay.h"
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
  if (device_of(flags) == "cuda")
    return dtype == "f64"   ? ExecutionDevice::cuda_f64
           : dtype == "f32" ? ExecutionDevice::cuda_f32
                            : ExecutionDevice::cuda_half;
  return dtype == "f64"   ? ExecutionDevice::cpu_f64
         : dtype == "f32" ? ExecutionDevice::cpu_f32
                          : ExecutionDevice::cpu_half;
}

// What is rounded is held against what is not; a GPU against the CPU.
ExecuteOptions reference_options(ExecuteOptions how) {
  if (how.device == ExecutionDevice::cuda_half) how.device = ExecutionDevice::cpu_f32;
  if (is_cuda(how.device)) how.device = ExecutionDevice::cpu_f64;
  if (how.device == ExecutionDevice::cpu_half) how.device = ExecutionDevice::cpu_f32;
  how.processes = nullptr;
  how.timed = false;
  how.keeps_moments = false;
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
  options.keeps_moments = flags.save.has_value();
  options.training.seed = flags.seed.value_or(options.training.seed);
  options.training.learning_rate = flags.learning_rate.value_or(options.training.learning_rate);
  return options;
}

// All ranks are in this process.
std::int64_t bytes_of_run(const Plan& plan, const ExecuteOptions& options) {
  const std::vector<std::int64_t> peaks = predicted_peaks(as_stored(plan, options.device), options.steps);
  return std::accumulate(peaks.begin(), peaks.end(), observation_bytes(plan, options));
}

// What there is to compare with: a plan, or why there is none.
struct ReferencePlan {
  std::optional<Plan> plan;
  std::string why_not;
};

std::string too_large(const Plan& alone, const Plan& plan, const ExecuteOptions& options, bool wanted) {
  const std::int64_t bytes =
      bytes_of_run(alone, reference_options(options)) + observation_bytes(plan, options);
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

// A measurement keeps some tens of bytes of every instruction of every rank and step.
bool is_short_enough_to_time(const Plan& plan, int steps) {
  constexpr std::int64_t most_instructions = 4'000'000;
  std::int64_t instructions = 0;
  for (const Program& program : plan.programs) {
    std::int64_t devices = 0;
    for (const DeviceRange& range : plan.stages[static_cast<std::size_t>(program.pipeline_rank)].devices)
      devices += range.count;
    for (const Entry& entry : program.entries)
      instructions += devices * static_cast<std::int64_t>(plan.segments[entry.segment].instructions.size());
  }
  return instructions * steps <= most_instructions;
}

// How long it took, beside what was predicted.
void add_times(const Plan& plan, const Timeline& predicted, const Measurement& measured,
               ExecutionReport& report) {
  if (measured.empty()) return;
  report.measured_step_s = measured_step_seconds(measured).median;
  report.cores = measured.cores;
  report.unit = measured.unit;
  // Any rank may take any core, but not any GPU.
  const bool is_bound = report.device == "cuda" && measured.cores > 1 && measured.cores < report.ranks;
  if (!is_bound)
    report.replayed_step_s =
        to_seconds(replay_on_cores(plan, measured_costs(plan, measured), measured.cores));
  report.measured = measured_timeline(plan, measured);
  const auto has_lanes = [](const RankTimeline& rank) { return !rank.lanes.empty(); };
  if (std::any_of(predicted.ranks.begin(), predicted.ranks.end(), has_lanes))
    report.by_instruction = compare_measured(plan, predicted, *report.measured);
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
  reference.parameter_tolerance = within.parameters;
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
  const AgreementTolerance within = tolerance_of(how.device, *reference.plan);
  const Agreement agreed = agreement(run, alone, within);
  report.reference = compared(agreed, alone, *reference.plan, within);
  if (report.fault.empty()) report.fault = agreed.fault;
}

// What products read in 8 or 4 bits, or a state is kept in, stays as the device stores numbers.
std::vector<std::string> unrounded_types(const Plan& plan) {
  std::vector<std::string> types;
  for (const Dtype dtype : {Dtype::fp8, Dtype::fp4})
    if (std::ranges::any_of(plan.buffers, [&](const Buffer& buffer) { return buffer.dtype == dtype; }))
      types.emplace_back(to_string(dtype));
  return types;
}

}  // namespace

PreparedExecution prepare_execution(const Options& options, const Input& input, ProcessGroup* processes) {
  const ExecuteFlags& flags = options.execute;
  std::vector<Diagnostic> faults;
  const auto refuse = [&](const SourcePosition& position, const std::string& why, const std::string& hint) {
    faults.push_back({position, why, hint});
  };
  const SourcePosition file{input.path, 0, 0};
  if (const std::string why = device_of(flags) == "cuda" ? why_no_cuda_device() : ""; !why.empty())
    refuse(file, "--device cuda: " + why, "--device cpu runs anywhere.");
  if (device_of(flags) == "cuda" && flags.data)
    refuse(file, "--device cuda does not read --data yet", "--device cpu reads it.");
  if (device_of(flags) != "null" && dtype_of(flags) == "bf16" && !has_halves(input.plan))
    refuse(refusal_position(input, ": training.precision"),
           "--dtype bf16 rounds what the plan holds in bf16 or fp16, and this plan holds nothing in them",
           "--dtype f32 runs it as it is.");
  if (const std::string why =
          processes == nullptr ? "" : uneven_shares(input.plan.ranks(), processes->processes());
      !why.empty())
    refuse(file, why, "");
  if (!faults.empty()) throw ConfigError(std::move(faults));
  PreparedExecution prepared{execute_options(flags, input.plan), {}};
  ExecuteOptions& how = prepared.how;
  how.processes = processes;
  for (const std::string& refusal : execution_refusals(input.plan, how.device))
    refuse(refusal_position(input, refusal), "cannot be executed: " + refusal, "");
  if (faults.empty() && how.device != ExecutionDevice::null && !is_cuda(how.device)) {
    const std::int64_t shares =
        processes == nullptr ? 1 : processes->processes();  // perhaps on other machines
    const std::int64_t bytes = bytes_of_run(input.plan, how) / shares, there_is = memory_of_this_machine();
    if (bytes > there_is)
      refuse(
          file,
          fmt::format("cannot be executed: all ranks {} take {}, this machine has {}",
                      shares == 1 ? "together" : "of a process", memory_text(bytes), memory_text(there_is)),
          "--device null checks the plan without its numbers.");
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
  prepared.files = read_training_files(flags, input);
  how.training.text = prepared.files.text.get();
  how.start = prepared.files.start.get();
  if (how.start != nullptr) how.training.seed = how.start->seed();
  return prepared;
}

int execute_share(const Options& options, const Input& input, ProcessGroup& processes) {
  const PreparedExecution prepared = prepare_execution(options, input, &processes);
  const Execution run =
      execute_and_save(input.plan, prepared.how, options.execute, [](const std::string&) {});
  // Process 0 reports; where it is lost itself, the first that is left says why.
  if (!run.failure.empty() && processes.speaks())
    complain(fmt::format("simrun: not as planned: {}\n", run.failure));
  return exit_code(run.failure_kind);
}

ExecutionReport execute_one(const Options& options, const Input& input, const PreparedExecution& prepared,
                            const Timeline& predicted) {
  const ExecuteFlags& flags = options.execute;
  const Plan& plan = input.plan;
  ExecuteOptions how = prepared.how;
  const bool computes = how.device != ExecutionDevice::null;
  // What other processes took only they know.
  how.timed =
      computes && how.processes == nullptr && is_short_enough_to_time(plan, steps_at_once(how, flags));
  ExecutionReport report;
  report.device = device_of(flags);
  report.dtype = computes ? dtype_of(flags) : "";
  report.transport = how.processes == nullptr ? "threads" : "mpi";
  report.processes = how.processes == nullptr ? 1 : how.processes->processes();
  report.ranks = plan.ranks();
  report.steps = how.steps;
  report.steps_before = how.start == nullptr ? 0 : how.start->steps();
  report.data = flags.data.value_or("");
  report.saved = flags.save.value_or("");
  report.predicted_step_s = to_seconds(predicted.step);
  const Plan stored = as_stored(plan, how.device);
  report.stores_other_types = stored != plan;
  if (computes) report.unrounded = unrounded_types(plan);

  const bool is_told = !options.json && !options.quiet;
  const auto begin = std::chrono::steady_clock::now();
  const Execution run = execute_and_save(plan, how, flags, [&](const std::string& line) {
    if (is_told) print(line);
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  report.fault = run.failure;
  if (!report.fault.empty()) report.fault_kind = run.failure_kind;
  if (how.processes != nullptr) how.processes->leave();
  for (const RankReport& rank : run.ranks) report.instructions += rank.instructions;
  if (!report.fault.empty()) {
    report.no_reference = "the run failed";
    return report;
  }
  // The null device counts all memory spaces as one.
  for (const RankReport& rank : run.ranks)
    report.allocated_peak_bytes.push_back(computes ? rank.allocated_peak_bytes : rank.planned_peak_bytes);
  report.predicted_peak_bytes = predicted_peaks(stored, steps_at_once(how, flags), run.expert_rows);
  report.fault = memory_fault(report);
  if (report.fault.empty() && computes) report.fault = replica_fault(run, tolerance_of(how.device));
  if (computes) {
    report.loss = run.loss;
    // Of a run that is not timed instruction by instruction: initial values and files included.
    report.measured_step_s = took.count() / how.steps;
    add_times(plan, predicted, run.measured, report);
  }
  compare_with_one_rank(reference_plan(options, input, how), how, run, report);
  return report;
}

}  // namespace simrun
