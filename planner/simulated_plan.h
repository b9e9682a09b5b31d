#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "configs/job.h"
#include "configs/load_job.h"
#include "sim/simulate.h"

namespace simrun {

// Loads the job that is planned for with some of its values replaced. Throws ConfigError.
using JobLoader = std::function<Job(const std::vector<Override>&)>;

// A plan under the simulator.
struct SimulatedPlan {
  std::string name;  // in words: "data parallel", "tensor 8, pipeline 2"
  std::vector<Override> overrides;
  double step_s = 0;
  std::int64_t peak_bytes = 0;   // of the GPU with least to spare
  std::int64_t limit_bytes = 0;  // of that GPU, and its kind
  std::string gpu;
  bool fits = false;
  std::string refusal;        // why it is not one; empty: it was simulated
  bool shares_links = false;  // simulated by SimGrid: transfers met on links
};

SimulatedPlan simulate_plan(std::string name, std::vector<Override> overrides, const JobLoader& load,
                            EngineChoice engine = EngineChoice::fast);

// Whether it is better: it fits where the other does not, or takes less time.
bool is_better(const SimulatedPlan& a, const SimulatedPlan& b);

// What is set beside a plan: data parallel alone, ZeRO-2 and ZeRO-3 (Rajbhandari et al. 2020), each with the
// best microbatch of 1, 2, 4, ... sequences; and the best of Megatron-LM's grid of tensor (within a node) x
// pipeline x microbatch (Narayanan et al. 2021), with sequence parallelism or not.
std::vector<SimulatedPlan> reference_plans(const Job& job, const JobLoader& load);

}  // namespace simrun
