#pragma once

#include <string>
#include <vector>

#include "cli/options.h"

namespace simrun {

// One thing that a plan can be run or simulated with.
struct Facility {
  std::string kind, name;    // "device" "cuda"; "transport" "mpi"; "flows" "lmm"; "memory" "jemalloc"
  std::string about = {};    // what it is and stands on
  std::string why_not = {};  // why it cannot be used here; empty: it can
  std::vector<std::string> devices = {};  // one line each
  std::string plugin = {};                // path of its library; empty: it is built in, or there is none
};

// The devices, transports and flow engines (sim/flow_engine.h) that there may be, on this machine, and who
// gives memory.
std::vector<Facility> facilities();

// A line each, and for each missing one why.
std::string facilities_text(const std::vector<Facility>& all);
std::string facilities_json(const std::vector<Facility>& all);

// --doctor. Returns the exit code: 0, whatever is missing.
int run_doctor(const Options& options);

}  // namespace simrun
