#include "planner/mixed_search.h"

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "configs/diagnostics.h"
#include "configs/node_groups.h"
#include "planner/balanced_plans.h"
#include "planner/candidate_config.h"
#include "planner/climb.h"
#include "planner/shortlist.h"

namespace simrun {

namespace {

constexpr std::size_t most_seeds = 12;
constexpr std::size_t most_climbs = 3;

std::vector<RankedCandidate> seeds_of(const PlanBase& base, const PlanSearchResult& result) {
  std::vector<RankedCandidate> all = result.best;
  all.insert(all.end(), result.rest.begin(), result.rest.end());
  std::erase_if(all, [](const RankedCandidate& of) { return !of.evaluation.refusal.empty(); });
  std::ranges::stable_sort(all, {}, [](const RankedCandidate& of) { return of.evaluation.step_s; });
  std::vector<RankedCandidate> seeds;
  if (base.job.plan.fixed_numbers.empty()) {
    RankedCandidate written;
    written.candidate.is_as_written = true;
    seeds.push_back(written);
  }
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>> shapes;
  for (RankedCandidate& of : all) {
    const Candidate& c = of.candidate;
    if (seeds.size() < most_seeds &&
        shapes.emplace(c.tensor, c.context, c.pipeline, c.virtual_stages, c.expert).second)
      seeds.push_back(std::move(of));
  }
  return seeds;
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

}  // namespace

void add_balanced(const PlanBase& base, const PlanSearchOptions& options, PlanSearchResult& result) {
  if (GpuKinds(base.job.job.cluster).count() == 1 || result.was_stopped) return;
  const bool keeps_batch = base.job.plan.fixed_numbers.contains("micro_batch_size");
  std::vector<RankedCandidate> fitting = result.best;
  for (const RankedCandidate& seed : seeds_of(base, result))
    for (const BalancedPlan& plan : balanced(base, seed.candidate)) {
      RankedCandidate found = seed;
      found.candidate.balance = plan.balance;
      if (plan.balance.empty() && !seed.candidate.is_as_written) continue;
      if (keeps_batch && plan.balance.micro_batch > 0 &&
          plan.balance.micro_batch != seed.candidate.micro_batch)
        continue;
      if (!plan.simulated.refusal.empty() || !plan.simulated.fits) continue;
      found.evaluation = evaluate_candidate(base, found.candidate, EngineChoice::automatic);
      ++result.evaluated;
      if (found.evaluation.refusal.empty() && found.evaluation.fits) fitting.push_back(std::move(found));
    }
  std::ranges::stable_sort(fitting, {}, [&](const RankedCandidate& of) {
    return goal_of(base.job.plan.minimise, of.evaluation.step_s,
                   static_cast<double>(of.evaluation.peak_bytes));
  });
  // Several processes climb alike, each for itself, and none of them alone may stop.
  const bool is_alone = options.among.processes == 1;
  Climb climb{is_alone ? options.threads : 1, {}, result.evaluated};
  climb.goes_on = [&] {
    if (is_alone && options.progress && !options.progress({PlanSearchPhase::simulating, climb.evaluated, 0}))
      result.was_stopped = true;
    return !result.was_stopped;
  };
  const std::size_t starts = std::min(most_climbs, fitting.size());
  for (std::size_t i = 0; i < starts; ++i) {
    RankedCandidate found = climbed(base, fitting[i], climb);
    const bool is_new = std::ranges::none_of(
        fitting, [&](const RankedCandidate& of) { return of.candidate == found.candidate; });
    if (is_new && found.evaluation.refusal.empty() && found.evaluation.fits)
      fitting.push_back(std::move(found));
  }
  result.evaluated = climb.evaluated;
  keep_best(base, std::move(fitting), result);
}

}  // namespace simrun
