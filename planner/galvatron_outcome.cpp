#include "planner/galvatron_outcome.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "configs/layer_list.h"
#include "planner/galvatron_points.h"
#include "planner/layerwise_search.h"
#include "planner/unsearched.h"

namespace simrun {
namespace {

constexpr int most_rounds = 3;
constexpr std::size_t most_listed = 12;
constexpr double margin = 0.001;   // of the limit, below which memory is well used
constexpr double promising = 1.1;  // x the best: plans that are searched again
constexpr std::size_t most_starts = 6, most_neighbours = 100;  // of plans that are climbed from, simulated
constexpr double frugal[] = {0.8, 0.62, 0.45};                 // x the bytes of a point's fastest plan

class OutcomeSearch {
 public:
  OutcomeSearch(const JobLoader& load, const GalvatronOptions& options, const PlanProgress& progress)
      : load_(load), options_(options), progress_(progress), job_(load({})), prices_(job_) {
    require_searched(unsearched_by_galvatron(job_));
  }

  GalvatronOutcome run() {
    const PlanProgress progress = [this](const char* phase, std::int64_t done, std::int64_t all) {
      return goes_on(phase, done, all);
    };
    simulate(galvatron_plans(job_, prices_, options_, progress));
    if (!outcome_.was_stopped) search_again();
    if (!outcome_.was_stopped) climb();
    return std::move(outcome_);
  }

 private:
  bool goes_on(const char* phase, std::int64_t done, std::int64_t all) {
    if (progress_ && !progress_(phase, done, all)) outcome_.was_stopped = true;
    return !outcome_.was_stopped;
  }

  void simulate(GalvatronProposals proposals) {
    outcome_.points = proposals.points;
    outcome_.feasible = proposals.feasible;
    const auto all = static_cast<std::int64_t>(proposals.uniform.size() + proposals.mixed.size());
    for (std::vector<GalvatronPlan>* of : {&proposals.uniform, &proposals.mixed})
      for (GalvatronPlan& plan : *of) {
        if (!goes_on("simulating", static_cast<std::int64_t>(outcome_.plans.size()), all)) return;
        add(std::move(plan), of == &proposals.mixed);
      }
  }

  // Where memory decided: once more with what the simulator says of it.
  void search_again() {
    const std::size_t proposed = outcome_.plans.size();
    for (std::size_t i = 0; i < proposed; ++i) {
      if (!goes_on("searching again", static_cast<std::int64_t>(i), static_cast<std::int64_t>(proposed)))
        return;
      if (outcome_.plans[i].is_mixed && outcome_.plans[i].plan.is_bound) fit(i);
    }
  }

  void fit(std::size_t at) {
    for (int round = 0; round < most_rounds; ++round) {
      const SimulatedLayers& last = outcome_.plans[at];
      if (!last.simulated.refusal.empty() || !is_promising(last)) return;
      const auto limit = static_cast<double>(last.simulated.limit_bytes);
      const double slack = limit - static_cast<double>(last.simulated.peak_bytes);
      if (slack >= 0 && slack < margin * limit) return;
      // Where the estimate would be if the simulator said just the limit.
      const double room = last.plan.bytes + slack - margin * limit / 2;
      std::optional<GalvatronPlan> plan =
          LayerwiseSearch(job_, prices_, options_, last.plan.point).best_plan_within(room);
      if (!plan || is_known(*plan)) return;
      add(std::move(*plan), true);
      at = outcome_.plans.size() - 1;
    }
  }

  // Estimates may err by more than plans differ: from the best of each split to what differs in one choice or
  // takes less memory, as long as that is faster.
  void climb() {
    std::vector<GalvatronPoint> looked_at;
    for (const std::size_t start : climb_starts())
      for (std::optional<std::size_t> at = start; at;) at = best_neighbour(*at, looked_at);
  }

  static bool are_split_alike(const GalvatronPoint& a, const GalvatronPoint& b) {
    return a.pipeline == b.pipeline && a.ends == b.ends && a.only.has_value() == b.only.has_value();
  }

  std::vector<std::size_t> climb_starts() const {
    std::vector<std::size_t> fitting, starts;
    for (std::size_t i = 0; i < outcome_.plans.size(); ++i)
      if (fits(outcome_.plans[i].simulated)) fitting.push_back(i);
    std::ranges::stable_sort(fitting, {}, [&](std::size_t i) { return outcome_.plans[i].simulated.step_s; });
    for (const std::size_t i : fitting)
      if (starts.size() < most_starts && is_promising(outcome_.plans[i]) &&
          std::ranges::none_of(starts, [&](std::size_t other) {
            return are_split_alike(outcome_.plans[other].plan.point, outcome_.plans[i].plan.point);
          }))
        starts.push_back(i);
    return starts;
  }

  // The fastest of the plans that looking around adds, if it is faster than the plan itself.
  std::optional<std::size_t> best_neighbour(std::size_t from, std::vector<GalvatronPoint>& looked_at) {
    const GalvatronPlan plan = outcome_.plans[from].plan;
    const double step_s = outcome_.plans[from].simulated.step_s;
    const std::size_t known = outcome_.plans.size();
    std::vector<GalvatronPoint> points = neighbours_of(job_, options_, plan.point);
    points.push_back(plan.point);
    for (const GalvatronPoint& point : points) {
      if (std::ranges::find(looked_at, point) != looked_at.end()) continue;
      looked_at.push_back(point);
      if (!look_at(point)) return std::nullopt;
    }
    std::optional<std::size_t> best;
    for (std::size_t i = known; i < outcome_.plans.size(); ++i) {
      const SimulatedPlan& of = outcome_.plans[i].simulated;
      if (fits(of) && of.step_s < (best ? outcome_.plans[*best].simulated.step_s : step_s)) best = i;
    }
    return best;
  }

  // Its plans within the limit and within less. False: that is enough.
  bool look_at(const GalvatronPoint& point) {
    const LayerwiseSearch search(job_, prices_, options_, point);
    const std::optional<GalvatronPlan> fastest = search.best_plan(0);
    if (!try_neighbour(search.best_plan(-options_.over_room)) || !try_neighbour(fastest)) return false;
    if (!fastest || point.only) return true;
    return std::ranges::all_of(
        frugal, [&](double times) { return try_neighbour(search.best_plan_within(times * fastest->bytes)); });
  }

  bool try_neighbour(std::optional<GalvatronPlan> plan) {
    const bool goes_on_so =
        goes_on("trying neighbours", static_cast<std::int64_t>(neighbours_), most_neighbours);
    if (!goes_on_so || neighbours_ >= most_neighbours) return false;
    if (!plan || is_known(*plan)) return true;
    if (outcome_.best && plan->estimate_s * least_error() > outcome_.plans[*outcome_.best].simulated.step_s)
      return true;
    ++neighbours_;
    const bool is_mixed = !plan->point.only, is_bound = plan->is_bound;
    add(std::move(*plan), is_mixed);
    if (is_bound && is_mixed) fit(outcome_.plans.size() - 1);
    return true;
  }

  // Simulated over estimated: of no plan so far was it less.
  double least_error() const {
    double least = std::numeric_limits<double>::infinity();
    for (const SimulatedLayers& of : outcome_.plans)
      if (fits(of.simulated)) least = std::min(least, of.simulated.step_s / of.plan.estimate_s);
    return least;
  }

  static bool fits(const SimulatedPlan& of) { return of.fits && of.refusal.empty(); }

  bool is_promising(const SimulatedLayers& of) const {
    return !outcome_.best ||
           of.simulated.step_s < promising * outcome_.plans[*outcome_.best].simulated.step_s;
  }

  bool is_known(const GalvatronPlan& plan) const {
    return std::ranges::any_of(outcome_.plans,
                               [&](const SimulatedLayers& of) { return are_same(of.plan, plan); });
  }

  void add(GalvatronPlan plan, bool is_mixed) {
    if (is_known(plan)) return;
    SimulatedLayers added{std::move(plan), {}, is_mixed};
    added.simulated = simulate_plan(describe(added.plan), galvatron_overrides(job_, added.plan), load_,
                                    {.engine = EngineChoice::automatic, .max_memory = options_.max_memory});
    outcome_.plans.push_back(std::move(added));
    offer(outcome_.best);
    if (outcome_.plans.back().plan.is_uniform()) offer(outcome_.best_uniform);
  }

  void offer(std::optional<std::size_t>& best) const {
    const SimulatedPlan& added = outcome_.plans.back().simulated;
    if (!fits(added)) return;
    if (!best || is_better(added, outcome_.plans[*best].simulated)) best = outcome_.plans.size() - 1;
  }

  const JobLoader& load_;
  const GalvatronOptions& options_;
  const PlanProgress& progress_;
  const Job job_;
  LayerPrices prices_;
  GalvatronOutcome outcome_;
  std::size_t neighbours_ = 0;  // that were simulated
};

// "tensor 2 x Ulysses 2 x data 4, ZeRO-3, recomputed"
std::string strategy_words(const LayerStrategy& of, std::int64_t ranks) {
  std::vector<std::string> sizes;
  if (of.split.tensor > 1) sizes.push_back(fmt::format("tensor {}", of.split.tensor));
  if (of.split.context > 1) sizes.push_back(fmt::format("Ulysses {}", of.split.context));
  const std::int64_t data = ranks / of.split.sharing();
  if (data > 1 || sizes.empty()) sizes.push_back(fmt::format("data {}", data));
  if (of.split.expert > 1) sizes.back() += fmt::format(", expert {}", of.split.expert);
  if (of.split.expert_tensor > 1) sizes.back() += fmt::format(", expert tensor {}", of.split.expert_tensor);
  return fmt::format("{}{}{}", fmt::join(sizes, " x "), of.sharded ? ", ZeRO-3" : "",
                     of.recomputed ? ", recomputed" : "");
}

// Layers of one stage by strategy, in the order in which the strategies come.
std::vector<std::string> strategy_lines(const GalvatronPlan& plan, const GalvatronStage& stage) {
  std::vector<std::pair<LayerStrategy, std::vector<std::int64_t>>> groups;
  for (std::int64_t layer = stage.first_layer; layer < stage.last_layer; ++layer) {
    const LayerStrategy& strategy = plan.layers[static_cast<std::size_t>(layer)];
    auto group = std::ranges::find(groups, strategy, &decltype(groups)::value_type::first);
    if (group == groups.end()) group = groups.insert(groups.end(), {strategy, {}});
    group->second.push_back(layer);
  }
  std::vector<std::string> lines;
  lines.reserve(groups.size());
  for (const auto& [strategy, layers] : groups)
    lines.push_back(
        fmt::format("layers {}: {}", layer_list_text(layers), strategy_words(strategy, plan.stage_ranks)));
  return lines;
}

std::string simulated_words(const SimulatedPlan& plan) {
  if (!plan.refusal.empty()) return "refused: " + plan.refusal;
  return fmt::format("{:.4g} s, {:.2f} GiB{}", plan.step_s, static_cast<double>(plan.peak_bytes) / 0x1p30,
                     plan.fits ? "" : ", does not fit");
}

std::vector<const SimulatedLayers*> best_first(const GalvatronOutcome& outcome) {
  std::vector<const SimulatedLayers*> plans;
  for (const SimulatedLayers& of : outcome.plans) plans.push_back(&of);
  std::ranges::stable_sort(plans, [](const SimulatedLayers* a, const SimulatedLayers* b) {
    return is_better(a->simulated, b->simulated);
  });
  if (plans.size() > most_listed) plans.resize(most_listed);
  return plans;
}

std::string best_text(const SimulatedLayers& best) {
  const GalvatronPlan& plan = best.plan;
  std::string text =
      fmt::format("pipeline {}, {} microbatches of {} sequences, ZeRO-{}: simulated {}, estimated {:.4g} s\n",
                  plan.point.pipeline, plan.microbatches, plan.point.sequences, plan.point.zero_stage,
                  simulated_words(best.simulated), plan.estimate_s);
  text += fmt::format("  embedding and loss: {}\n",
                      strategy_words({plan.point.ends, plan.point.zero_stage == 3, false}, plan.stage_ranks));
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (const std::string& line : strategy_lines(plan, plan.stages[s]))
      text +=
          plan.stages.size() == 1 ? fmt::format("  {}\n", line) : fmt::format("  stage {}, {}\n", s, line);
  return text;
}

std::string nothing_found(const GalvatronOutcome& outcome) {
  if (outcome.plans.empty())
    return outcome.was_stopped ? "stopped before anything was found\n"
                               : "no plan fits by its estimate; --plan alone tells what would\n";
  std::vector<const SimulatedPlan*> all;
  for (const SimulatedLayers& plan : outcome.plans) all.push_back(&plan.simulated);
  const std::string nearest = nearest_text(all);
  return nearest.empty() ? "no plan can be run\n" : fmt::format("no plan fits; {}\n", nearest);
}

}  // namespace

GalvatronOutcome plan_by_galvatron(const JobLoader& load, const GalvatronOptions& options,
                                   const PlanProgress& progress) {
  return OutcomeSearch(load, options, progress).run();
}

std::string describe(const GalvatronPlan& plan) {
  std::vector<std::string> stages;
  for (const GalvatronStage& stage : plan.stages)
    stages.push_back(fmt::format("{}", fmt::join(strategy_lines(plan, stage), "; ")));
  const LayerStrategy ends{plan.point.ends, plan.point.zero_stage == 3, false};
  const bool differ = plan.layers.front().split != ends.split;
  return fmt::format("pipeline {}, {} microbatches, ZeRO-{}; {}{}", plan.point.pipeline, plan.microbatches,
                     plan.point.zero_stage,
                     differ ? "ends " + strategy_words(ends, plan.stage_ranks) + "; " : "",
                     fmt::join(stages, " | "));
}

std::string galvatron_text(const GalvatronOutcome& outcome) {
  std::string text = outcome.best ? best_text(outcome.plans[*outcome.best]) : nothing_found(outcome);
  if (outcome.best_uniform && outcome.best_uniform != outcome.best)
    text += fmt::format("the best whose layers are alike\n  {}: {}\n",
                        outcome.plans[*outcome.best_uniform].simulated.name,
                        simulated_words(outcome.plans[*outcome.best_uniform].simulated));
  text += fmt::format("the best of {} that were simulated\n", outcome.plans.size());
  for (const SimulatedLayers* of : best_first(outcome))
    text += fmt::format("  {}: {}, estimated {:.4g} s\n", of->simulated.name, simulated_words(of->simulated),
                        of->plan.estimate_s);
  return text;
}

}  // namespace simrun
