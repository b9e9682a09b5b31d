#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "planner/candidate.h"
#include "planner/pass_costs.h"
#include "planner/pipeline_costs.h"
#include "planner/step_prices.h"

namespace simrun {

// What a candidate takes, from costs of its passes: the pipeline in closed form, transfers in between not
// shared. The order in which candidates are simulated, never what is reported.
struct Estimate {
  double step_s = 0;      // 0 where the peak is far above the room
  double peak_bytes = 0;  // of the fullest pipeline rank
  double room_bytes = 0;  // of a GPU
  bool is_bound = false;  // it takes step_s at least, which was not asked for; nothing else is known
  double excess = 1.03;   // x the engine's peak: hardly ever is peak_bytes above that
  bool may_fit(double room) const { return peak_bytes <= excess * room; }
};

// x the room: no step of it is timed, and no layers are moved to make it fit.
constexpr double hopeless = 1.2;

// Estimate::excess.
double memory_excess(const Candidate& candidate);

// The candidate's job as the loader accepts it; nothing where it does not.
using LoadCandidate = std::function<std::optional<Job>(const Candidate&)>;

// By tensor, context, expert and expert tensor parallel size, microbatch, recompute and what the candidate
// has of whole_sequences and exchange; nothing: the sizes do not divide.
using PassKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, int, bool,
                           AttentionExchange>;
using PassTable = std::map<PassKey, std::optional<PassCosts>>;

// Prices of steps that the estimators of several threads share: whoever needs some first makes them.
class SharedStepPrices {
 public:
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool, bool>;
  // nullptr: `make` throws std::invalid_argument or ConfigError, since the sizes do not divide.
  const StepPrices* of(const Key& key, const std::function<StepPrices()>& make);

 private:
  struct Slot {
    std::once_flag once;
    std::optional<StepPrices> prices;
  };
  std::mutex mutex_;
  std::map<Key, Slot> slots_;
};

// Seconds of a microbatch's passes through the whole model at least, of which recompute is so much.
double least_pass_s(const PassCosts& plain, RecomputeGranularity recompute);

// Estimates candidates of one job; keeps what they share. Not thread-safe.
class Estimator {
 public:
  // REQUIRES: has_layer_kinds(job). The job and the prices must outlive it.
  Estimator(const Job& job, LoadCandidate load, SharedStepPrices& steps, PassTable known = {})
      : job_(job), load_(std::move(load)), passes_(std::move(known)), steps_(steps) {}

  // Nothing where the loader or the compiler refuses the sizes; a bound where that is above `most_s`.
  std::optional<Estimate> estimate(const Candidate& candidate, double most_s);
  PassTable passes() && { return std::move(passes_); }

  // What estimates are made of. Passes of microbatches of another size, or with other recompute, than the
  // candidate's; nullptr: refused.
  const PassCosts* passes_of(const Candidate& candidate, std::int64_t micro_batch,
                             RecomputeGranularity recompute);
  // Without a step's time, where activations alone are far too large for any GPU.
  std::optional<Estimate> too_large(const Candidate& candidate, RecomputeGranularity recompute);
  // Of a step with such a pipeline, and PassCosts::tied_elements; nothing: refused.
  std::optional<double> step_s(const Candidate& candidate, const PipelineCosts& pipeline,
                               double tied_elements);

 private:
  using SplitKey =
      std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool, AttentionExchange>;
  using PipelineKey = std::tuple<std::int64_t, std::int64_t, std::string, const PassCosts*>;
  // What is known of one split of the ranks.
  struct Split {
    PassProbes probes;
    std::map<RecomputeGranularity, std::optional<Job>> jobs;  // nothing: the loader refuses it
  };
  Job loaded(Candidate candidate) const;  // throws std::invalid_argument
  PassCosts probed(const Candidate& candidate);
  // Nothing where the sizes do not divide.
  std::optional<PassCosts> probed_of(Candidate of, std::int64_t micro_batch, RecomputeGranularity recompute);
  std::optional<PassCosts> on_line(const Candidate& candidate, std::int64_t micro_batch,
                                   RecomputeGranularity recompute);
  const PipelineCosts& pipeline_of(const Candidate& candidate, const PassCosts& passes);
  const StepPrices* steps_of(const Candidate& candidate);
  double least_s(const Candidate& candidate);

  const Job& job_;
  LoadCandidate load_;
  std::map<SplitKey, Split> splits_;
  PassTable passes_;
  std::map<PipelineKey, PipelineCosts, std::less<>> pipelines_;  // by sizes, schedule and costs of passes
  SharedStepPrices& steps_;
};

}  // namespace simrun
