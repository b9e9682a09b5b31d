#pragma once

#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "planner/candidate.h"
#include "planner/pass_costs.h"
#include "planner/step_prices.h"

namespace simrun {

// What a candidate takes, from costs of its passes: the pipeline in closed form, transfers in between not
// shared. The order in which candidates are simulated, never what is reported.
struct Estimate {
  double step_s = 0;      // 0 where the peak is far above the room
  double peak_bytes = 0;  // of the fullest pipeline rank
  double room_bytes = 0;  // of a GPU
};

// The candidate's job as the loader accepts it; nothing where it does not.
using LoadCandidate = std::function<std::optional<Job>(const Candidate&)>;

// Estimates candidates of one job; keeps what they share. Not thread-safe.
class Estimator {
 public:
  // REQUIRES: has_layer_kinds(job). The job must outlive it.
  Estimator(const Job& job, LoadCandidate load) : job_(job), load_(std::move(load)) {}

  // Nothing where the loader or the compiler refuses the sizes.
  std::optional<Estimate> estimate(const Candidate& candidate);

 private:
  using PassKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, int>;
  using StepKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>;
  Job loaded(Candidate candidate) const;  // throws std::invalid_argument
  const PassCosts* passes_of(const Candidate& candidate);
  const StepPrices* steps_of(const Candidate& candidate);
  std::optional<Estimate> too_large(const Candidate& candidate);

  const Job& job_;
  LoadCandidate load_;
  std::map<PassKey, std::optional<PassCosts>> passes_;
  std::map<StepKey, std::optional<StepPrices>> steps_;
};

}  // namespace simrun
