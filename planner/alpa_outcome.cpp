#include "planner/alpa_outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "configs/diagnostics.h"
#include "planner/microbatch_sizes.h"
#include "planner/reference_plans.h"
#include "planner/stage_search.h"
#include "sim/in_threads.h"

namespace simrun {
namespace {

constexpr std::size_t fine_buckets = 512;
constexpr std::size_t tightenings = 3;  // of a proposal's memory, at most
constexpr std::size_t proposals_with_less = 4;
constexpr double less_memory = 0.93;
// Proposals that are tried under other schedules too.
constexpr std::size_t rescheduled_plans = 3;
// Of these at least are simulated with shared links, and what was faster without than the best of them with.
constexpr std::size_t contended_plans = 3, most_contended_plans = 12;
constexpr std::size_t most_virtual_stages = 3;  // numbers of them that are tried, the smallest

bool has_virtual_stages(const std::string& schedule) {
  return schedule.starts_with("interleaved") || schedule == "looped_bfs" || schedule == "zb_v";
}

// The best first; of equals the earlier.
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
        progress_(progress),
        job_(load({})),
        collectives_(job_.cluster) {
    AlpaPlan plain;
    if (!is_allowed(plain)) search_.least_stages = std::max<std::int64_t>(search_.least_stages, 2);
    // Where 1F1B only leads to what is asked for, more leads there than what is fast with it.
    plain.pipeline = 2;
    if (!is_allowed(plain)) search_.within = std::numeric_limits<double>::infinity();
    make_variants();
  }

  AlpaOutcome run() {
    const PlanProgress progress = [this](const char* phase, std::int64_t done, std::int64_t all) {
      return goes_on(phase, done, all);
    };
    propose(progress);
    // Where all that was proposed needs more than the sums over operators say, less is asked of them.
    for (std::size_t i = 0; i < proposals_with_less && !outcome_.best && nearly_fits(); ++i) {
      if (outcome_.was_stopped) break;
      search_.memory_share *= less_memory;
      propose(progress);
    }
    if (goes_on("simulating other schedules", 0)) simulate(rescheduled(), "simulating other schedules");
    if (goes_on("searching with finer memory", 0)) simulate_finer();
    if (goes_on("simulating what stands beside", 0)) simulate_references(progress);
    settle_with_contention();
    return std::move(outcome_);
  }

 private:
  // A proposal that is searched again, and with which share of the memory.
  struct Tightened {
    std::size_t at = 0;
    double memory_share = 0;
  };

  void propose(const PlanProgress& progress) {
    simulate(alpa_plans(variants_, search_, collectives_, progress), "simulating proposals");
    if (goes_on("searching with less memory", 0)) simulate_tightened();
  }

  // Whether anything that was proposed lacks so little that proposals with less memory may fit.
  bool nearly_fits() const {
    return std::ranges::any_of(outcome_.simulated, [](const SimulatedPlan& of) {
      return of.refusal.empty() && of.peak_bytes <= 2 * of.limit_bytes;
    });
  }

  bool goes_on(const char* phase, std::int64_t done, std::int64_t all = 0) {
    outcome_.was_stopped = outcome_.was_stopped || (progress_ && !progress_(phase, done, all));
    return !outcome_.was_stopped;
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

  const Job& variant_of(const AlpaPlan& plan) const {
    return std::ranges::find(variants_, plan.recompute, &AlpaVariant::recompute)->job;
  }

  // As a search over jobs understands plan.fix: without a pipeline there is no schedule but 1F1B, and nothing
  // to say of virtual stages.
  bool is_allowed(const AlpaPlan& plan) const {
    const std::string schedule = plan.pipeline == 1 ? AlpaPlan{}.schedule : plan.schedule;
    const bool has_schedule =
        planning_.schedules.empty() || std::ranges::count(planning_.schedules, schedule) > 0;
    return has_schedule && (plan.pipeline == 1 || allows_virtual_stages(plan.virtual_stages));
  }

  bool allows_virtual_stages(std::int64_t stages) const {
    return planning_.virtual_stages.empty() || std::ranges::count(planning_.virtual_stages, stages) > 0;
  }

  // Those that are new. Of a search that was stopped, the first of what it found.
  void simulate(std::vector<AlpaPlan> plans, const char* phase) {
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

  void simulate_fast(std::size_t at) {
    SimulatedPlan& plan = outcome_.simulated[at];
    plan = simulate_plan(plan.name, plan.overrides, load_, {.max_memory = search_.max_memory});
  }

  void offer(std::size_t at) {
    const SimulatedPlan& plan = outcome_.simulated[at];
    if (!plan.fits || !plan.refusal.empty() || !is_allowed(outcome_.plans[at])) return;
    if (!outcome_.best || is_better(plan, outcome_.simulated[*outcome_.best])) outcome_.best = at;
  }

  // What the sums over operators do not see (an allocator's rest, buffers that come and go, a framework's
  // own) the engine does. Nothing slower than the best so far is searched again.
  void simulate_tightened() {
    std::vector<Tightened> tried;
    for (std::size_t i = 0; i < outcome_.plans.size(); ++i) tried.push_back({i, search_.memory_share});
    for (std::size_t tries = 0; tries < tightenings && !outcome_.was_stopped; ++tries) {
      std::erase_if(tried, [&](const Tightened& of) { return !is_worth_tightening(of.at); });
      std::vector<std::optional<AlpaPlan>> found(tried.size());
      in_threads(threads_, tried.size(), [&](unsigned, std::size_t i) {
        const SimulatedPlan& plan = outcome_.simulated[tried[i].at];
        tried[i].memory_share *=
            0.98 * static_cast<double>(plan.limit_bytes) / static_cast<double>(plan.peak_bytes);
        AlpaOptions tight = search_;
        tight.memory_share = tried[i].memory_share;
        found[i] = searched_again(outcome_.plans[tried[i].at], tight);
      });
      std::vector<Tightened> next;
      for (std::size_t i = 0; i < tried.size(); ++i) {
        if (!found[i]) continue;
        simulate({*found[i]}, "searching with less memory");
        if (const std::optional<std::size_t> at = index_of(*found[i]))
          next.push_back({*at, tried[i].memory_share});
      }
      tried = std::move(next);
    }
  }

  std::optional<std::size_t> index_of(const AlpaPlan& plan) const {
    const std::vector<Override> overrides = alpa_overrides(plan);
    for (std::size_t i = 0; i < outcome_.simulated.size(); ++i)
      if (have_equal_overrides(outcome_.simulated[i], overrides)) return i;
    return std::nullopt;
  }

  bool is_worth_tightening(std::size_t at) const {
    const SimulatedPlan& plan = outcome_.simulated[at];
    if (plan.fits || !plan.refusal.empty()) return false;
    return !outcome_.best || plan.step_s < outcome_.simulated[*outcome_.best].step_s;
  }

  std::optional<AlpaPlan> searched_again(const AlpaPlan& plan, const AlpaOptions& options) {
    std::optional<AlpaPlan> found =
        StageSearch(variant_of(plan), options, point_of(plan), collectives_).best_plan();
    if (found) found->recompute = plan.recompute;
    return found;
  }

  // The dynamic program's own schedule is 1F1B. What others make of its best stages, the simulator says:
  // split backward passes fill the bubble that unlike stages leave in ways no closed form has.
  std::vector<AlpaPlan> rescheduled() const {
    std::vector<std::string> schedules = planning_.schedules;
    if (schedules.empty()) schedules = {"zb_h1", "zb_h2", "interleaved_1f1b"};
    std::erase(schedules, AlpaPlan{}.schedule);
    std::vector<std::size_t> order = by_time(outcome_.simulated);
    std::erase_if(order, [&](std::size_t i) {
      return outcome_.plans[i].pipeline == 1 ||
             std::ranges::all_of(schedules, [&](const std::string& schedule) {
               return virtual_stages_of(outcome_.plans[i], schedule).empty();
             });
    });
    order.resize(std::min(order.size(), rescheduled_plans));
    std::vector<AlpaPlan> plans;
    for (const std::size_t i : order)
      for (const std::string& schedule : schedules)
        for (const std::int64_t virtual_stages : virtual_stages_of(outcome_.plans[i], schedule))
          plans.push_back(with_schedule(outcome_.plans[i], schedule, virtual_stages));
    return plans;
  }

  // Numbers of stages per rank that are tried under the schedule: 1 where it has no more.
  std::vector<std::int64_t> virtual_stages_of(const AlpaPlan& plan, const std::string& schedule) const {
    if (!has_virtual_stages(schedule))
      return allows_virtual_stages(1) ? std::vector<std::int64_t>{1} : std::vector<std::int64_t>{};
    const std::int64_t layers = plan.stages.back().last_layer;
    const bool in_rounds = schedule.starts_with("interleaved");  // of as many microbatches as ranks
    if (plan.unlike || layers % plan.pipeline != 0 || (in_rounds && plan.microbatches % plan.pipeline != 0))
      return {};
    std::vector<std::int64_t> numbers;
    for (const std::int64_t stages : divisors_of(layers / plan.pipeline)) {
      const bool is_deep_enough = schedule == "zb_v" ? stages == 2 : stages > 1;
      if (is_deep_enough && allows_virtual_stages(stages)) numbers.push_back(stages);
    }
    numbers.resize(std::min(numbers.size(), most_virtual_stages));
    return numbers;
  }

  // Layers keep their layouts when they are dealt anew: the mesh of all ranks is the same.
  static AlpaPlan with_schedule(AlpaPlan plan, const std::string& schedule, std::int64_t virtual_stages) {
    plan.schedule = schedule;
    plan.virtual_stages = virtual_stages;
    if (virtual_stages == 1) return plan;
    const std::vector<AlpaStage> dealt = std::move(plan.stages);
    plan.stages.clear();
    const std::int64_t layers = dealt.back().last_layer, stages = plan.pipeline * virtual_stages;
    for (std::int64_t first = 0; first < layers; first += layers / stages) {
      const auto of = std::ranges::find_if(dealt, [&](const AlpaStage& s) { return first < s.last_layer; });
      plan.stages.push_back({first, first + layers / stages, of->mesh, 0, 0});
    }
    return plan;
  }

  void simulate_finer() {
    if (!outcome_.best) return;
    const AlpaPlan best = outcome_.plans[*outcome_.best];
    AlpaOptions fine = search_;
    fine.buckets = fine_buckets;
    if (const std::optional<AlpaPlan> plan = searched_again(best, fine))
      simulate({best.virtual_stages > 1 || best.schedule != plan->schedule
                    ? with_schedule(*plan, best.schedule, best.virtual_stages)
                    : *plan},
               "searching with finer memory");
  }

  // Under 1F1B or without a pipeline, as far as that is allowed, and with the first variant's recompute: the
  // job's own where that is allowed.
  void simulate_references(const PlanProgress& progress) {
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
      if (is_allowed(plan)) continue;
      if (pipeline == 1 || (!limits.pipelines.empty() && std::ranges::count(limits.pipelines, 1) == 0))
        return;
      limits.pipelines = {1};
    }
    outcome_.references = reference_plans(
        variants_.front().job,
        [&](const std::vector<Override>& overrides) { return load_(with_own(overrides)); }, limits, progress);
    for (SimulatedPlan& reference : outcome_.references) reference.overrides = with_own(reference.overrides);
  }

  // The fastest ones once more, with links shared between transfers as they will be: those decide.
  void settle_with_contention() {
    settle(outcome_.simulated, outcome_.best);
    settle(outcome_.references, outcome_.reference);
    if (outcome_.best && outcome_.reference &&
        !is_better(outcome_.references[*outcome_.reference], outcome_.simulated[*outcome_.best]))
      outcome_.reference = std::nullopt;
  }

  void settle(std::vector<SimulatedPlan>& plans, std::optional<std::size_t>& best) {
    std::vector<std::size_t> order = by_time(plans);
    std::erase_if(order, [&](std::size_t i) {
      return !plans[i].fits || !plans[i].refusal.empty() ||
             (&plans == &outcome_.simulated && !is_allowed(outcome_.plans[i]));
    });
    order.resize(std::min(order.size(), most_contended_plans));
    if (order.empty()) return;
    const std::size_t first = std::min(order.size(), contended_plans);
    if (goes_on("simulating with shared links", 0))
      in_threads(threads_, first, [&](unsigned, std::size_t k) { share_links(plans[order[k]]); });
    best = *std::ranges::min_element(
        order.begin(), order.begin() + static_cast<std::ptrdiff_t>(first),
        [&](std::size_t a, std::size_t b) { return is_better(plans[a], plans[b]); });
    for (std::size_t k = first; k < order.size() && is_better(plans[order[k]], plans[*best]); ++k) {
      if (goes_on("simulating with shared links", 0)) share_links(plans[order[k]]);
      if (is_better(plans[order[k]], plans[*best])) best = order[k];
    }
  }

  // What a worker that was ended did not find stays as it is known without.
  void share_links(SimulatedPlan& plan) const {
    SimulatedPlan shared =
        simulate_plan(plan.name, plan.overrides, load_,
                      {.engine = EngineChoice::automatic, .max_memory = search_.max_memory});
    if (shared.refusal.empty()) plan = std::move(shared);
  }

  const JobLoader& load_;
  const AlpaPlanning& planning_;
  AlpaOptions search_;
  unsigned threads_;
  const PlanProgress& progress_;
  const Job job_;
  CollectivePrices collectives_;
  std::vector<AlpaVariant> variants_;
  AlpaOutcome outcome_;
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
