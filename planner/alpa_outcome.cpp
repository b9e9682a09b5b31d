#include "planner/alpa_outcome.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include "configs/diagnostics.h"
#include "planner/alpa_proposals.h"
#include "planner/alpa_rescheduling.h"
#include "planner/alpa_tightening.h"
#include "planner/alpa_trials.h"
#include "planner/reference_plans.h"
#include "sim/in_threads.h"

namespace simrun {
namespace {

constexpr std::size_t fine_buckets = 512;
constexpr std::size_t tightenings = 3;  // of a proposal's memory, at most
// Of proposals behind the best ones, at most; the second number where nothing has fit yet.
constexpr std::size_t further_rounds = 4, rounds_in_vain = 2;
// Tries of plans under other schedules.
constexpr std::size_t most_reschedulings = 16;
// Proposals for these whose slowest stage is busy for less than so much of the best step.
constexpr std::size_t less_busy_plans = 4;
constexpr double worth_a_look = 0.97;
constexpr std::size_t proposals_with_less = 4;
constexpr double less_memory = 0.93;

// The granularity that a job's own section has, in whatever detail; empty: the simulator is asked for it.
std::string own_recompute(const Job& job) {
  switch (job.recompute.granularity) {
    case RecomputeGranularity::none: return "none";
    case RecomputeGranularity::selective: return "selective";
    case RecomputeGranularity::full: return "full";
    case RecomputeGranularity::automatic: break;
  }
  return "";
}

class AlpaPlanner {
 public:
  AlpaPlanner(const JobLoader& load, const AlpaPlanning& planning, const PlanProgress& progress)
      : load_(load),
        planning_(planning),
        search_(planning.search),
        threads_(search_.threads > 0 ? search_.threads : thread_per_processor()),
        job_(load({})),
        collectives_(job_.cluster),
        trials_(load, planning, threads_, progress),
        progress_([this](const char* phase, std::int64_t done, std::int64_t all) {
          return trials_.goes_on(phase, done, all);
        }),
        tightening_(variants_, search_, collectives_, trials_) {
    AlpaPlan plain;
    if (!trials_.is_allowed(plain)) search_.least_stages = std::max<std::int64_t>(search_.least_stages, 2);
    // Where 1F1B only leads to what is asked for, more leads there than what is fast with it.
    plain.pipeline = 2;
    if (!trials_.is_allowed(plain)) search_.within = std::numeric_limits<double>::infinity();
    make_variants();
  }

  AlpaOutcome run() {
    propose();
    // Where all that was proposed needs more than the sums over operators say, less is asked of them.
    for (std::size_t i = 0; i < proposals_with_less && trials_.fitting() == nullptr && nearly_fits(); ++i) {
      if (trials_.outcome().was_stopped) break;
      search_.memory_share *= less_memory;
      propose();
    }
    reschedule();
    if (trials_.goes_on("searching with finer memory")) simulate_finer();
    if (trials_.goes_on("simulating what stands beside")) simulate_references();
    trials_.settle_with_contention();
    return std::move(trials_.outcome());
  }

 private:
  // The best, and behind them what is estimated to be faster than the fastest that fits: where the best need
  // more than the sums over operators say, the next ones may not.
  void propose() {
    proposals_.emplace(variants_, search_, collectives_, progress_);
    try_out(proposals_->best());
    for (std::size_t i = 0; i < further_rounds && trials_.goes_on("searching layouts and stages"); ++i) {
      const AlpaPlan* fitting = trials_.fitting();
      if (fitting == nullptr && (i >= rounds_in_vain || !nearly_fits())) return;
      const std::vector<AlpaPlan> plans = proposals_->more(
          fitting == nullptr ? std::numeric_limits<double>::infinity() : fitting->estimate_s);
      if (plans.empty()) return;
      try_out(plans);
    }
  }

  // What the sums over operators do not see (an allocator's rest, buffers that come and go, a framework's
  // own) the engine does: what does not fit is searched again with as much less memory.
  void try_out(const std::vector<AlpaPlan>& plans) {
    trials_.simulate(plans, "simulating proposals");
    if (!trials_.goes_on("searching with less memory")) return;
    std::vector<SearchedPlan> tried;
    for (const AlpaPlan& plan : plans)
      if (const std::optional<std::size_t> at = trials_.index_of(plan))
        tried.push_back({*at, search_.memory_share});
    tightening_.tighten(std::move(tried), tightenings);
  }

  // Whether anything that was proposed lacks so little that proposals with less memory may fit.
  bool nearly_fits() const {
    return std::ranges::any_of(trials_.outcome().simulated, [](const SimulatedPlan& of) {
      return of.refusal.empty() && of.peak_bytes <= 2 * of.limit_bytes;
    });
  }

  bool allows_recompute(const std::string& recompute) const {
    return planning_.recomputes.empty() || std::ranges::count(planning_.recomputes, recompute) > 0;
  }

  // Where the job's own section cannot be put aside (its model has no such recompute), its own is all there
  // is.
  void make_variants() {
    const std::string own = own_recompute(job_);
    if (!own.empty() && allows_recompute(own)) variants_.push_back({"", job_});
    for (const char* recompute : {"none", "selective", "full"}) {
      if (recompute == own || !allows_recompute(recompute)) continue;
      AlpaPlan plan;
      plan.recompute = recompute;
      try {
        variants_.push_back({recompute, load_(recompute_overrides(plan))});
      } catch (const ConfigError&) {
        continue;
      }
    }
    if (variants_.empty())
      throw std::invalid_argument("plan.fix.recompute leaves nothing that the model can have");
  }

  // Where all that waits less under another schedule was tried, what waits more under 1F1B may win.
  void reschedule() {
    const bool has_others = planning_.schedules.empty() ||
                            std::ranges::any_of(planning_.schedules, [](const std::string& schedule) {
                              return schedule != AlpaPlan{}.schedule;
                            });
    if (!has_others || !trials_.goes_on("simulating other schedules")) return;
    const ScheduleLimits limits{planning_.schedules, planning_.virtual_stages};
    AlpaRescheduling others(limits, search_, tightening_, trials_);
    others.try_others(most_reschedulings);
    if (!trials_.outcome().best) return;
    trials_.simulate(proposals_->less_busy(trials_.best_s() * worth_a_look, less_busy_plans),
                     "simulating proposals");
    others.try_others(most_reschedulings / 2);
  }

  void simulate_finer() {
    if (!trials_.outcome().best) return;
    AlpaOptions fine = search_;
    fine.buckets = fine_buckets;
    if (const std::optional<AlpaPlan> plan =
            tightening_.searched_again(trials_.outcome().plans[*trials_.outcome().best], fine))
      trials_.simulate({*plan}, "searching with finer memory");
  }

  // Under 1F1B or without a pipeline, as far as that is allowed, and with the first variant's recompute: the
  // job's own where that is allowed.
  void simulate_references() {
    AlpaPlan plan;
    plan.recompute = variants_.front().recompute;
    const std::vector<Override> own = recompute_overrides(plan);
    const auto with_own = [&](const std::vector<Override>& overrides) {
      std::vector<Override> all = own;
      all.insert(all.end(), overrides.begin(), overrides.end());
      return all;
    };
    ReferenceLimits limits{search_.pipelines, search_.zero_stages, search_.max_memory, threads_};
    for (const std::int64_t pipeline : {1, 2}) {
      plan.pipeline = pipeline;
      if (trials_.is_allowed(plan)) continue;
      if (pipeline == 1 || (!limits.pipelines.empty() && std::ranges::count(limits.pipelines, 1) == 0))
        return;
      limits.pipelines = {1};
    }
    trials_.outcome().references = reference_plans(
        variants_.front().job,
        [&](const std::vector<Override>& overrides) { return load_(with_own(overrides)); }, limits,
        progress_);
    for (SimulatedPlan& reference : trials_.outcome().references)
      reference.overrides = with_own(reference.overrides);
  }

  const JobLoader& load_;
  const AlpaPlanning& planning_;
  AlpaOptions search_;
  unsigned threads_;
  const Job job_;
  CollectivePrices collectives_;
  AlpaTrials trials_;
  const PlanProgress progress_;
  std::vector<AlpaVariant> variants_;
  AlpaTightening tightening_;
  std::optional<AlpaProposals> proposals_;
};

}  // namespace

AlpaOutcome plan_by_alpa(const JobLoader& load, const AlpaPlanning& planning, const PlanProgress& progress) {
  return AlpaPlanner(load, planning, progress).run();
}

std::optional<std::vector<Override>> best_overrides(const AlpaOutcome& outcome) {
  if (outcome.reference) return outcome.references[*outcome.reference].overrides;
  if (outcome.best) return alpa_overrides(outcome.plans[*outcome.best]);
  return std::nullopt;
}

}  // namespace simrun
