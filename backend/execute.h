#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/observations.h"
#include "backend/operations.h"
#include "schedules/plan.h"

namespace simrun {

enum class ExecutionDevice : std::uint8_t { null, cpu_f64, cpu_f32 };

struct ExecuteOptions {
  ExecutionDevice device = ExecutionDevice::cpu_f64;
  int steps = 1;             // optimizer steps
  Hyperparameters training;  // hyperparameters_of(plan), unless another learning rate, say, is wanted
  std::chrono::milliseconds limit{60'000};  // for which a rank waits for another
};

constexpr std::int64_t most_thread_ranks = 64;

struct RankReport {
  std::int64_t planned_peak_bytes = 0;    // by the plan's types
  std::int64_t allocated_peak_bytes = 0;  // as the device counted them
  std::int64_t instructions = 0;
};

struct Execution {
  std::string failure;       // why it did not end well: rank, instruction, who waited for whom; empty: it did
  std::vector<double> loss;  // by step: mean over all tokens of the step
  ParameterValues gradients;   // of the first step, summed over all ranks, not clipped
  ParameterValues parameters;  // behind the last step
  std::vector<RankReport> ranks;
};

// Why a plan cannot be run, one sentence each, with the config key to change; empty if it can. Nothing runs
// that is refused. On the null device everything runs that threads can hold.
std::vector<std::string> execution_refusals(const Plan& plan, ExecutionDevice device);

// Runs a plan with a thread per rank. REQUIRES: lint() and execution_refusals() have nothing to say.
Execution execute(const Plan& plan, const ExecuteOptions& options);

}  // namespace simrun
