#include "planner/mixed_search.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "configs/diagnostics.h"
#include "configs/node_groups.h"
#include "planner/balanced_plans.h"
#include "planner/candidate_config.h"
#include "planner/climb.h"
#include "planner/dealt_layers.h"
#include "planner/shortlist.h"
#include "sim/in_threads.h"

namespace simrun {

namespace {

constexpr std::size_t most_seeds = 12;
constexpr double near_the_best = 1.25;  // x the best goal: a balance by simulated times gains less
constexpr std::size_t most_climbs = 4;

// Splits that differ in nothing else lead to the same plans.
using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::string>;
Shape shape_of(const Candidate& of) {
  return {of.tensor, of.context, of.pipeline, of.virtual_stages, of.expert, of.schedule};
}

double goal_of(const PlanBase& base, const RankedCandidate& of) {
  return goal_of(base.job.plan.minimise, of.evaluation.step_s, static_cast<double>(of.evaluation.peak_bytes));
}

// Adds the first of every shape, as long as there are fewer than so many seeds.
class Seeds {
 public:
  void add(const std::vector<RankedCandidate>& sorted, std::size_t most) {
    for (const RankedCandidate& of : sorted)
      if (seeds_.size() < most && shapes_.insert(shape_of(of.candidate)).second) seeds_.push_back(of);
  }
  void add_written() { seeds_.emplace_back().candidate.is_as_written = true; }
  std::vector<RankedCandidate> without_balances() && {
    for (RankedCandidate& of : seeds_) of.candidate.balance = {};
    return std::move(seeds_);
  }

 private:
  std::vector<RankedCandidate> seeds_;
  std::set<Shape> shapes_;
};

// The job as it is written, and of every shape the best plan that was found. Where those are balanced, by
// their estimates, what does not fit counts only if nothing does; where they are not, it may once it is.
std::vector<RankedCandidate> seeds_of(const PlanBase& base, const PlanSearchResult& result) {
  std::vector<RankedCandidate> all = result.best;
  all.insert(all.end(), result.rest.begin(), result.rest.end());
  std::erase_if(all, [](const RankedCandidate& of) { return !of.evaluation.refusal.empty(); });
  const auto goal = [&](const RankedCandidate& of) { return goal_of(base, of); };
  std::ranges::stable_sort(all, {}, goal);
  Seeds seeds;
  if (fixes_nothing(base.job.plan)) seeds.add_written();
  if (!has_layer_kinds(base.job.job)) seeds.add(all, most_seeds / 2);
  const auto unfit = std::stable_partition(all.begin(), all.end(),
                                           [](const RankedCandidate& of) { return of.evaluation.fits; });
  if (unfit != all.begin()) {
    const double most = near_the_best * goal(all.front());
    all.erase(unfit, all.end());
    std::erase_if(all, [&](const RankedCandidate& of) { return goal(of) > most; });
  }
  seeds.add(all, most_seeds);
  return std::move(seeds).without_balances();
}

// What to climb from: the best of each shape.
std::vector<RankedCandidate> starts_of(const std::vector<RankedCandidate>& sorted) {
  std::vector<RankedCandidate> starts;
  std::set<Shape> shapes;
  for (const RankedCandidate& of : sorted)
    if (starts.size() < most_climbs && shapes.insert(shape_of(of.candidate)).second) starts.push_back(of);
  return starts;
}

std::vector<BalancedPlan> balanced(const PlanBase& base, const Candidate& seed) {
  try {
    return balanced_plans(
        [&](const std::vector<Override>& overrides) {
          ConfigNode root = with_candidate(base.root, base.job.job, seed);
          LoadOptions options = base.load;
          options.overrides = overrides;
          return load_job_tree(root, {}, base.file, options).job;
        },
        base.job.plan.max_memory);
  } catch (const ConfigError&) {
    return {};  // the job as written may be one that is refused: what is searched for is another
  } catch (const std::invalid_argument&) {
    return {};
  } catch (const std::range_error&) {
    return {};
  }
}

bool contains(const std::vector<RankedCandidate>& all, const Candidate& candidate) {
  return std::ranges::any_of(all, [&](const RankedCandidate& of) { return of.candidate == candidate; });
}

// The seed's balances that fit and are not known yet, simulated with contention.
std::vector<RankedCandidate> balances_of(const PlanBase& base, const RankedCandidate& seed,
                                         const std::vector<RankedCandidate>& known) {
  const bool keeps_batch = base.job.plan.fixed_numbers.contains("micro_batch_size");
  std::vector<RankedCandidate> balances;
  for (const BalancedPlan& plan : balanced(base, seed.candidate)) {
    RankedCandidate found = seed;
    found.candidate.balance = plan.balance;
    if (keeps_batch && plan.balance.micro_batch > 0 && plan.balance.micro_batch != seed.candidate.micro_batch)
      continue;
    if (!plan.simulated.refusal.empty() || !plan.simulated.fits || contains(known, found.candidate)) continue;
    found.evaluation = evaluate_candidate(base, found.candidate, EngineChoice::automatic);
    balances.push_back(std::move(found));
  }
  return balances;
}

}  // namespace

void add_balanced(const PlanBase& base, const PlanSearchOptions& options, PlanSearchResult& result) {
  if (GpuKinds(base.job.job.cluster).count() == 1 || result.was_stopped) return;
  // Several processes search on alike, each for itself, and none of them alone may stop.
  const bool is_alone = options.among.processes == 1;
  const unsigned threads = is_alone ? options.threads : 1;
  std::vector<RankedCandidate> fitting = result.best;
  const auto add = [&](RankedCandidate found) {
    const bool fits = found.evaluation.refusal.empty() && found.evaluation.fits;
    if (fits && !contains(fitting, found.candidate)) fitting.push_back(std::move(found));
  };
  const std::vector<RankedCandidate> seeds = seeds_of(base, result);
  std::vector<std::vector<RankedCandidate>> balances(seeds.size());
  std::atomic<bool> is_over = false;
  in_threads(threads, seeds.size(), [&](unsigned thread, std::size_t i) {
    const bool asks = thread == 0 && is_alone && options.progress;
    if (asks && !options.progress({PlanSearchPhase::simulating, result.evaluated, 0})) is_over = true;
    if (!is_over) balances[i] = balances_of(base, seeds[i], result.best);
  });
  result.was_stopped = is_over;
  for (std::vector<RankedCandidate>& of_seed : balances) {
    result.evaluated += std::ssize(of_seed);
    for (RankedCandidate& found : of_seed) add(std::move(found));
  }
  std::ranges::stable_sort(fitting, {}, [&](const RankedCandidate& of) { return goal_of(base, of); });
  Climb climb{threads, {}, result.evaluated};
  climb.goes_on = [&] {
    if (is_alone && options.progress && !options.progress({PlanSearchPhase::simulating, climb.evaluated, 0}))
      result.was_stopped = true;
    return !result.was_stopped;
  };
  for (const RankedCandidate& start : starts_of(fitting)) add(climbed(base, start, climb));
  result.evaluated = climb.evaluated;
  keep_best(base, std::move(fitting), result);
}

}  // namespace simrun
