#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "configs/job.h"
#include "configs/load_job.h"
#include "sim/simulate.h"

namespace simrun {

// Loads the job that is planned for with some of its values replaced; from several threads at once. Throws
// ConfigError.
using JobLoader = std::function<Job(const std::vector<Override>&)>;

// A plan under the simulator.
struct SimulatedPlan {
  std::string name;  // in words: "data parallel", "tensor 8, pipeline 2"
  std::vector<Override> overrides;
  double step_s = 0;
  std::int64_t peak_bytes = 0;   // PlanMemory
  std::int64_t limit_bytes = 0;  // of that GPU, and its kind
  std::string gpu;
  bool fits = false;
  std::string refusal;        // why it is not one; empty: it was simulated
  bool shares_links = false;  // simulated by SimGrid: transfers met on links
};

// How a plan is simulated.
struct PlanSimulation {
  EngineChoice engine = EngineChoice::fast;
  std::int64_t max_memory = 0;  // bytes of a GPU, at most what it has; 0: what it has
};

SimulatedPlan simulate_plan(std::string name, std::vector<Override> overrides, const JobLoader& load,
                            const PlanSimulation& how = {});

// Of the plans that were simulated and do not fit, which one lacks least and how much that is, as a sentence;
// "" if there is none.
std::string nearest_text(const std::vector<const SimulatedPlan*>& plans);

// Whether it is better: it fits where the other does not, or takes less time.
bool is_better(const SimulatedPlan& a, const SimulatedPlan& b);

}  // namespace simrun
