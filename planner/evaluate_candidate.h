#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "configs/config_node.h"
#include "configs/load_job.h"
#include "planner/candidate.h"
#include "sim/simulate.h"

namespace simrun {

// A job's file, read: what candidates are put into.
struct PlanBase {
  ConfigNode root;   // with what --set says
  std::string file;  // for relative paths and messages
  LoadOptions load;  // where presets lie
  LoadedJob job;     // as written
};

// From the text of the file. Throws ConfigError.
PlanBase plan_base(const std::string& text, const std::string& file, const LoadOptions& load);

// What a candidate takes, by the engine.
struct Evaluation {
  std::string refusal;  // why it cannot be run; else empty
  double step_s = 0;
  double tokens_per_s = 0;
  double mfu = 0;
  double bubble_fraction = 0;
  double exposed_s = 0;
  std::int64_t peak_bytes = 0;         // PlanMemory
  std::int64_t limit_bytes = 0;        // of that GPU
  std::int64_t host_excess_bytes = 0;  // PlanMemory
  bool fits = false;
  std::string engine;
};

// Of a plan that was run, against the limits of the job.
Evaluation evaluation_of(const PlanBase& base, const Plan& plan, const Timeline& timeline);

// The candidate's job; throws ConfigError.
Job load_candidate(const PlanBase& base, const Candidate& candidate);
// Nothing where the loader refuses it.
std::optional<Job> accepted_job(const PlanBase& base, const Candidate& candidate);

// Loads, compiles and simulates the candidate. `automatic` may time shorter steps in place of the whole one;
// `alone`, if known: by the fast engine.
Evaluation evaluate_candidate(const PlanBase& base, const Candidate& candidate, EngineChoice engine,
                              const Evaluation* alone = nullptr);

}  // namespace simrun
