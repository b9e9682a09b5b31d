#pragma once

#include <map>
#include <optional>
#include <tuple>

#include "planner/candidate.h"
#include "planner/pass_costs.h"
#include "planner/step_costs.h"

namespace simrun {

// What a candidate takes, from costs of its passes: the pipeline in closed form, transfers in between not
// shared. The order in which candidates are simulated, never what is reported.
struct Estimate {
  double step_s = 0;
  double peak_bytes = 0;  // of the fullest pipeline rank
  double room_bytes = 0;  // of a GPU
};

// Estimates candidates of one job; keeps what they share. Not thread-safe.
class Estimator {
 public:
  // REQUIRES: has_layer_kinds(job). The job must outlive it.
  explicit Estimator(const Job& job) : job_(job) {}

  // Nothing where the compiler refuses the sizes.
  std::optional<Estimate> estimate(const Candidate& candidate);

 private:
  using PassKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, int>;
  using StepKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>;
  const PassCosts* passes_of(const Candidate& candidate);
  StepCosts* steps_of(const Candidate& candidate);

  const Job& job_;
  std::map<PassKey, std::optional<PassCosts>> passes_;
  std::map<StepKey, std::optional<StepCosts>> steps_;
};

}  // namespace simrun
