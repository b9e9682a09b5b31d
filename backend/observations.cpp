#include "backend/observations.h"

#include <algorithm>

namespace simrun {

// Added in an order that does not depend on which rank was first.
std::vector<double> Observations::loss() const {
  std::vector<double> sums = loss_;
  std::vector<std::pair<std::int64_t, double>> parts = loss_parts_;
  std::sort(parts.begin(), parts.end());
  for (const auto& [step, share] : parts) sums[static_cast<std::size_t>(step)] += share;
  return sums;
}

}  // namespace simrun
