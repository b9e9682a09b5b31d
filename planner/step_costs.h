#pragma once

#include <memory>

#include "planner/candidate.h"

namespace simrun {

// What stages exchange, and what a step does behind its passes, for one split of the ranks: prices of the
// simulator for a plan of two stages (or one) on the real number of data-parallel ranks, taken for other byte
// counts. Not thread-safe: prices are worked out when first asked for.
class StepCosts {
 public:
  // Throws what compile() throws.
  StepCosts(const Job& job, const Candidate& candidate);
  ~StepCosts();
  StepCosts(StepCosts&&) noexcept;

  double send_s(std::int64_t micro_batch);                         // of a boundary between stages
  double reduce_s(double dense_elements, double expert_elements);  // gradients over data-parallel ranks
  double gather_s(double dense_elements, double expert_elements);  // updated or sharded weights
  double update_s(double elements) const;                          // of the optimizer; elements it updates

 private:
  struct Largest;
  struct Priced;
  std::unique_ptr<Priced> priced_;
};

}  // namespace simrun
