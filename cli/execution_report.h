#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/run_failure.h"
#include "schedules/measured_comparison.h"
#include "schedules/timeline.h"

namespace simrun {

// What the run of a plan has told, as plain numbers. Losses are by step, bytes by rank.
struct ExecutionReport {
  std::string device;     // cpu, cuda, null
  std::string dtype;      // of the numbers: f64, f32, bf16; empty: the device computes nothing
  std::string transport;  // threads, mpi
  std::int64_t ranks = 0;
  int processes = 1;  // that share the ranks
  int steps = 0;
  std::int64_t steps_before = 0;  // done when the checkpoint was saved from which it went on
  std::string data, saved;        // the text and the checkpoint written; empty: none
  std::vector<double> loss;
  // Of the unsharded run; nothing where there is none, and why.
  struct Reference {
    std::vector<double> loss;
    double max_loss_error = 0, max_gradient_error = 0, max_parameter_error = 0;
    std::string worst_tensor;        // of the gradients
    std::string first_tensor;        // in backward order whose gradient is beyond the tolerance; empty: none
    double tolerance = 0;            // of gradients
    double parameter_tolerance = 0;  // 0: they are not held to account
    std::int64_t microbatches = 0;
  };
  std::optional<Reference> reference;
  std::string no_reference;
  // By the simulator's walk over the plan, with the element sizes that the device stores; and what the device
  // had allocated.
  std::vector<std::int64_t> predicted_peak_bytes, allocated_peak_bytes;
  // Other sizes than the plan's, as f32 in place of bf16.
  bool stores_other_types = false;
  std::vector<std::string> unrounded;     // types of the plan whose numbers are not rounded to them: fp8, fp4
  double predicted_step_s = 0;            // of the job's cluster, as simulated
  std::optional<double> measured_step_s;  // on this machine: median, first step not counted
  // What was predicted beside it, where that was simulated instruction by instruction; and the step that the
  // measured instructions make (sim/core_replay.h).
  std::optional<Timeline> measured;
  std::optional<MeasuredComparison> by_instruction;
  std::optional<double> replayed_step_s;
  int cores = 1;                  // or GPUs, that the ranks shared
  std::string unit = "core";      // which of the two
  std::int64_t instructions = 0;  // of all ranks and steps
  std::string fault;              // what ran is not what was planned: a sentence; empty: it is
  FailureKind fault_kind = FailureKind::disagreement;
};

// The value of the key `execute` beside the simulation's keys.
std::string execution_json(const ExecutionReport& report);

// A few lines behind the terminal's summary.
std::string execution_text(const ExecutionReport& report);

}  // namespace simrun
