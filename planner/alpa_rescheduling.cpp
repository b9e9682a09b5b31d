#include "planner/alpa_rescheduling.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "sim/in_threads.h"

namespace simrun {
namespace {

constexpr std::size_t at_once = 4;         // between two looks at the best
constexpr double worth_a_try = 1.02;       // x the best: forecasts err by as much
constexpr double surely_too_large = 1.15;  // x the limit, likewise
constexpr std::size_t narrowings = 2;      // of their memory, at most

// Of the fullest rank, by its microbatches in flight under the schedule and under 1F1B. Where a rank's stages
// are dealt anew they are taken for those of the plan.
double memory_ratio(const AlpaPlan& plan, const RankSchedule& schedule) {
  const ScheduleEntry* other = find_schedule(schedule.name);
  const ScheduleEntry* own = find_schedule(plan.schedule);
  if (other == nullptr || own == nullptr || plan.unlike) return 1;
  PipelineShape shape{static_cast<int>(plan.pipeline), 1, static_cast<int>(plan.microbatches)};
  PipelineShape dealt = shape;
  dealt.virtual_stages = static_cast<int>(schedule.virtual_stages);
  double before = 0, behind = 0;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const AlpaStage& stage = plan.stages[static_cast<std::size_t>(rank)];
    const double in_flight = static_cast<double>(other->peak_in_flight(dealt, rank)) /
                             static_cast<double>(schedule.virtual_stages);
    const double more = in_flight - static_cast<double>(own->peak_in_flight(shape, rank));
    before = std::max(before, stage.bytes);
    behind = std::max(behind, stage.bytes + more * stage.microbatch_bytes);
  }
  return before > 0 ? behind / before : 1;
}

}  // namespace

AlpaRescheduling::AlpaRescheduling(const ScheduleLimits& limits, const AlpaOptions& options,
                                   AlpaTightening& tightening, AlpaTrials& trials)
    : limits_(limits), options_(options), tightening_(tightening), trials_(trials) {}

void AlpaRescheduling::try_others(std::size_t most) {
  std::vector<Try> left = forecasts();
  for (std::size_t done = 0; done < most && trials_.goes_on("simulating other schedules"); done += at_once) {
    std::erase_if(left, [&](const Try& of) { return of.step_s > worth_a_try * trials_.best_s(); });
    if (left.empty()) return;
    const std::size_t next = std::min({left.size(), at_once, most - done});
    run({left.begin(), left.begin() + static_cast<std::ptrdiff_t>(next)});
    left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(next));
  }
}

// Of what was not seen yet, the fastest first.
std::vector<AlpaRescheduling::Try> AlpaRescheduling::forecasts() {
  std::vector<Try> tries;
  const AlpaOutcome& outcome = trials_.outcome();
  for (; seen_ < outcome.plans.size(); ++seen_) {
    const AlpaPlan& plan = outcome.plans[seen_];
    if (plan.schedule != AlpaPlan{}.schedule || !outcome.simulated[seen_].refusal.empty()) continue;
    for (const RankSchedule& schedule : other_schedules(tightening_.variant_of(plan).job, plan, limits_))
      tries.push_back({seen_, schedule});
  }
  in_threads(tightening_.threads(), tries.size(),
             [&](unsigned, std::size_t i) { tries[i] = forecast(tries[i].at, tries[i].schedule); });
  std::ranges::stable_sort(tries, {}, &Try::step_s);
  return tries;
}

AlpaRescheduling::Try AlpaRescheduling::forecast(std::size_t at, const RankSchedule& schedule) {
  const AlpaPlan& plan = trials_.outcome().plans[at];
  const SimulatedPlan& simulated = trials_.outcome().simulated[at];
  const double peak = static_cast<double>(simulated.peak_bytes) * memory_ratio(plan, schedule);
  return {at, schedule, simulated.step_s * tightening_.schedule_ratio(plan, schedule),
          peak > surely_too_large * static_cast<double>(simulated.limit_bytes)};
}

// What would not fit as it stands is searched for the microbatches that the schedule has in flight.
void AlpaRescheduling::run(const std::vector<Try>& tries) {
  std::vector<std::optional<AlpaPlan>> plans(tries.size());
  in_threads(tightening_.threads(), tries.size(), [&](unsigned, std::size_t i) {
    AlpaPlan plan = trials_.outcome().plans[tries[i].at];
    if (!tries[i].is_crowded) {
      plans[i] = tightening_.with_schedule(plan, tries[i].schedule);
      return;
    }
    plan.schedule = tries[i].schedule.name;
    plan.virtual_stages = tries[i].schedule.virtual_stages;
    plans[i] = tightening_.searched_again(plan, options_);
  });
  std::vector<SearchedPlan> tried;
  const auto add = [&](const AlpaPlan& plan) {
    trials_.simulate({plan}, "simulating other schedules");
    const std::optional<std::size_t> at = trials_.index_of(plan);
    if (at) tried.push_back({*at, options_.memory_share});
    return at && trials_.is_worth_tightening(*at);
  };
  for (std::size_t i = 0; i < tries.size(); ++i) {
    if (!plans[i] || !add(*plans[i]) || plans[i]->virtual_stages == 1) continue;
    // What ranks are done with at the same time takes unequally much memory.
    const AlpaPlan& base = trials_.outcome().plans[tries[i].at];
    if (const std::optional<AlpaPlan> even = tightening_.dealt_evenly(base, tries[i].schedule)) add(*even);
  }
  tightening_.tighten(std::move(tried), narrowings);
}

}  // namespace simrun
