#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/checkpoint.h"
#include "backend/device.h"
#include "backend/measured_timeline.h"
#include "backend/observations.h"
#include "backend/operations.h"
#include "backend/run_failure.h"
#include "backend/transport.h"
#include "schedules/plan.h"
#include "schedules/recorded_rows.h"

namespace simrun {

class ProcessGroup;

// cpu_half, cuda_half: f32 arithmetic, bf16 (the CPU: and fp16) where the plan has them.
enum class ExecutionDevice : std::uint8_t { null, cpu_f64, cpu_f32, cpu_half, cuda_f64, cuda_f32, cuda_half };

struct ExecuteOptions {
  ExecutionDevice device = ExecutionDevice::cpu_f64;
  int steps = 1;             // optimizer steps
  Hyperparameters training;  // hyperparameters_of(plan), unless another learning rate, say, is wanted
  const Checkpoint* start = nullptr;        // to go on from; REQUIRES: no mismatch (ResumedParameters)
  bool keeps_moments = false;               // for a checkpoint behind the last step
  std::chrono::milliseconds limit{60'000};  // for which a rank waits for another
  ProcessGroup* processes = nullptr;        // that share the ranks; nullptr: all are threads of this one
  bool timed = false;                       // fills Execution::measured
  bool compares = true;                     // fills Execution::gradients and parameters
  // What a rank's messages pass on their way, if anything: delays and faults of tests.
  std::function<std::unique_ptr<Transport>(Transport& through, std::int64_t rank)> around_transport;
};

constexpr std::int64_t most_thread_ranks = 64;

struct RankReport {
  std::int64_t planned_peak_bytes = 0;    // by the plan's types
  std::int64_t allocated_peak_bytes = 0;  // as the device counted them
  std::int64_t instructions = 0;
};

// Of a run over several processes, process 0 gets all of it, the others the failure alone.
struct Execution {
  FailureKind failure_kind = FailureKind::none;
  std::string failure;       // why it did not end well: rank, instruction, who waited for whom; empty: it did
  std::vector<double> loss;  // by step: mean over all tokens of the step
  ParameterValues gradients;             // of the first step, summed over all ranks, not clipped
  ParameterValues parameters;            // behind the last step
  std::vector<ParameterValues> moments;  // of the optimizer, behind the last step; if asked for
  std::vector<RankReport> ranks;
  RoutedRows expert_rows;
  Measurement measured;
};

// Why a plan cannot be run, one sentence each, with the config key to change; empty if it can. Nothing runs
// that is refused. On the null device everything runs that threads can hold.
std::vector<std::string> execution_refusals(const Plan& plan, ExecutionDevice device);

// Runs a plan with a thread per rank, in this process or its share of them. REQUIRES: lint() and
// execution_refusals() have nothing to say.
Execution execute(const Plan& plan, const ExecuteOptions& options);

// The same on devices that the caller makes: one per rank, made and used on the rank's thread.
using DeviceOfRank = std::function<std::unique_ptr<Device>(std::int64_t rank)>;
Execution execute_on(const Plan& plan, const ExecuteOptions& options, const DeviceOfRank& make);

}  // namespace simrun
