#include "planner/alpa_trials.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "sim/in_threads.h"

namespace simrun {
namespace {

// Of these at least are simulated with shared links, and what was faster without than the best of them with.
constexpr std::size_t contended_plans = 3, most_contended_plans = 12;

std::vector<std::size_t> by_time(const std::vector<SimulatedPlan>& plans) {
  std::vector<std::size_t> order(plans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return is_better(plans[a], plans[b]); });
  return order;
}

bool have_equal_overrides(const SimulatedPlan& plan, const std::vector<Override>& overrides) {
  return std::ranges::equal(plan.overrides, overrides, [](const Override& a, const Override& b) {
    return a.key == b.key && a.value == b.value;
  });
}

}  // namespace

AlpaTrials::AlpaTrials(const JobLoader& load, const AlpaPlanning& planning, unsigned threads,
                       const PlanProgress& progress)
    : load_(load), planning_(planning), threads_(threads), progress_(progress) {}

bool AlpaTrials::goes_on(const char* phase, std::int64_t done, std::int64_t all) {
  outcome_.was_stopped = outcome_.was_stopped || (progress_ && !progress_(phase, done, all));
  return !outcome_.was_stopped;
}

bool AlpaTrials::is_allowed(const AlpaPlan& plan) const {
  const std::string schedule = plan.pipeline == 1 ? AlpaPlan{}.schedule : plan.schedule;
  const bool has_schedule =
      planning_.schedules.empty() || std::ranges::count(planning_.schedules, schedule) > 0;
  const bool has_stages = plan.pipeline == 1 || planning_.virtual_stages.empty() ||
                          std::ranges::count(planning_.virtual_stages, plan.virtual_stages) > 0;
  return has_schedule && has_stages;
}

void AlpaTrials::simulate(std::vector<AlpaPlan> plans, const char* phase) {
  const std::size_t begin = outcome_.plans.size();
  for (AlpaPlan& plan : plans) {
    if (index_of(plan)) continue;
    SimulatedPlan& added = outcome_.simulated.emplace_back();
    added.name = alpa_name(plan);
    added.overrides = alpa_overrides(plan);
    outcome_.plans.push_back(std::move(plan));
  }
  const std::size_t all = outcome_.plans.size() - begin;
  std::size_t done = 0;
  while (done < all && (goes_on(phase, static_cast<std::int64_t>(done), static_cast<std::int64_t>(all)) ||
                        begin + done == 0)) {
    const std::size_t next = std::min<std::size_t>(all - done, 2 * std::size_t{threads_});
    in_threads(threads_, next, [&](unsigned, std::size_t i) { simulate_fast(begin + done + i); });
    for (std::size_t i = 0; i < next; ++i) offer(begin + done + i);
    done += next;
  }
  outcome_.plans.resize(begin + done);
  outcome_.simulated.resize(begin + done);
}

void AlpaTrials::simulate_fast(std::size_t at) {
  SimulatedPlan& plan = outcome_.simulated[at];
  plan = simulate_plan(plan.name, plan.overrides, load_, {.max_memory = planning_.search.max_memory});
}

void AlpaTrials::offer(std::size_t at) {
  const SimulatedPlan& plan = outcome_.simulated[at];
  if (!plan.fits || !plan.refusal.empty() || !is_allowed(outcome_.plans[at])) return;
  if (!outcome_.best || is_better(plan, outcome_.simulated[*outcome_.best])) outcome_.best = at;
}

std::optional<std::size_t> AlpaTrials::index_of(const AlpaPlan& plan) const {
  const std::vector<Override> overrides = alpa_overrides(plan);
  for (std::size_t i = 0; i < outcome_.simulated.size(); ++i)
    if (have_equal_overrides(outcome_.simulated[i], overrides)) return i;
  return std::nullopt;
}

double AlpaTrials::best_s() const {
  return outcome_.best ? outcome_.simulated[*outcome_.best].step_s : std::numeric_limits<double>::infinity();
}

const AlpaPlan* AlpaTrials::fitting() const {
  const auto best = std::ranges::min_element(outcome_.simulated, is_better);
  if (best == outcome_.simulated.end() || !best->fits || !best->refusal.empty()) return nullptr;
  return &outcome_.plans[static_cast<std::size_t>(best - outcome_.simulated.begin())];
}

bool AlpaTrials::is_worth_tightening(std::size_t at) const {
  const SimulatedPlan& plan = outcome_.simulated[at];
  return !plan.fits && plan.refusal.empty() && plan.step_s < best_s();
}

void AlpaTrials::settle_with_contention() {
  settle(outcome_.simulated, outcome_.best);
  settle(outcome_.references, outcome_.reference);
  if (outcome_.best && outcome_.reference &&
      !is_better(outcome_.references[*outcome_.reference], outcome_.simulated[*outcome_.best]))
    outcome_.reference = std::nullopt;
}

void AlpaTrials::settle(std::vector<SimulatedPlan>& plans, std::optional<std::size_t>& best) {
  std::vector<std::size_t> order = by_time(plans);
  std::erase_if(order, [&](std::size_t i) {
    return !plans[i].fits || !plans[i].refusal.empty() ||
           (&plans == &outcome_.simulated && !is_allowed(outcome_.plans[i]));
  });
  order.resize(std::min(order.size(), most_contended_plans));
  if (order.empty()) return;
  const std::size_t first = std::min(order.size(), contended_plans);
  if (goes_on("simulating with shared links"))
    in_threads(threads_, first, [&](unsigned, std::size_t k) { share_links(plans[order[k]]); });
  best =
      *std::ranges::min_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(first),
                                [&](std::size_t a, std::size_t b) { return is_better(plans[a], plans[b]); });
  for (std::size_t k = first; k < order.size() && is_better(plans[order[k]], plans[*best]); ++k) {
    if (goes_on("simulating with shared links")) share_links(plans[order[k]]);
    if (is_better(plans[order[k]], plans[*best])) best = order[k];
  }
}

// What a worker that was ended did not find stays as it is known without.
void AlpaTrials::share_links(SimulatedPlan& plan) const {
  SimulatedPlan shared =
      simulate_plan(plan.name, plan.overrides, load_,
                    {.engine = EngineChoice::automatic, .max_memory = planning_.search.max_memory});
  if (shared.refusal.empty()) plan = std::move(shared);
}

}  // namespace simrun
