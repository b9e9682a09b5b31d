#pragma once

#include <string>
#include <vector>

namespace simrun {

// What one entry of the imperfections adds to the step of a cluster where nothing else is wrong.
struct ImperfectionCost {
  std::string cause;  // key path below imperfections: "jitter", "stragglers.hot"
  std::string what;   // in words: "node0.gpu3 x 1.25"
  double added_s = 0;
};

// without_s + the sum of added_s + interaction_s = the step with all of them: what they add together is more
// or less than the sum of what each adds alone.
struct ImperfectionCosts {
  double without_s = 0;  // the step where nothing is wrong
  std::vector<ImperfectionCost> causes;
  double interaction_s = 0;
};

std::string imperfection_table(const ImperfectionCosts& costs, double step_time_s);

// An object, without a line end after it.
std::string imperfection_json(const ImperfectionCosts& costs);

}  // namespace simrun
