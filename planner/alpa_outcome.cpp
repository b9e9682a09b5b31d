#include "planner/alpa_outcome.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "planner/stage_search.h"

namespace simrun {

namespace {

constexpr std::size_t fine_buckets = 512;
constexpr std::size_t tightenings = 3;  // of a proposal's memory, at most
// Proposals that are tried under other schedules too, and these: with one stage a rank and layers cut
// anywhere.
constexpr std::size_t rescheduled_plans = 3;
// Of these at least are simulated with shared links, and what was faster without than the best of them with.
constexpr std::size_t contended_plans = 3, most_contended_plans = 12;
constexpr std::array other_schedules{"zb_h1", "zb_h2"};

void add_simulated(AlpaOutcome& outcome, AlpaPlan plan, const JobLoader& load) {
  std::string name =
      fmt::format("pipeline {}, {} microbatches, ZeRO-{}", plan.pipeline, plan.microbatches, plan.zero_stage);
  if (plan.unlike) name += ", unlike stages";
  if (plan.schedule != AlpaPlan{}.schedule) name += ", " + plan.schedule;
  outcome.simulated.push_back(simulate_plan(std::move(name), alpa_overrides(plan), load));
  outcome.plans.push_back(std::move(plan));
  const SimulatedPlan& added = outcome.simulated.back();
  if (!added.fits || !added.refusal.empty()) return;
  if (!outcome.best || is_better(added, outcome.simulated[*outcome.best]))
    outcome.best = outcome.plans.size() - 1;
}

// The best first; of equals the earlier.
std::vector<std::size_t> by_time(const std::vector<SimulatedPlan>& plans) {
  std::vector<std::size_t> order(plans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return is_better(plans[a], plans[b]); });
  return order;
}

// What the sums over operators do not see (an allocator's rest, buffers that come and go, a framework's own)
// the engine does. Nothing slower than the best so far is searched again.
void add_tightened(AlpaOutcome& outcome, const Job& job, const AlpaOptions& options, const JobLoader& load) {
  const std::size_t proposed = outcome.plans.size();
  for (std::size_t i = 0; i < proposed; ++i) {
    AlpaOptions tight = options;
    for (std::size_t at = i, tries = 0; tries < tightenings; ++tries) {
      const SimulatedPlan& plan = outcome.simulated[at];
      if (plan.fits || !plan.refusal.empty()) break;
      if (outcome.best && plan.step_s >= outcome.simulated[*outcome.best].step_s) break;
      tight.memory_share *=
          0.98 * static_cast<double>(plan.limit_bytes) / static_cast<double>(plan.peak_bytes);
      std::optional<AlpaPlan> next = StageSearch(job, tight, point_of(outcome.plans[at])).best_plan();
      if (!next) break;
      add_simulated(outcome, std::move(*next), load);
      at = outcome.plans.size() - 1;
    }
  }
}

// The fastest ones once more, with links shared between transfers as they will be: those decide.
void settle_with_contention(AlpaOutcome& outcome, const JobLoader& load) {
  for (std::vector<SimulatedPlan>* plans : {&outcome.simulated, &outcome.references}) {
    const std::vector<std::size_t> order = by_time(*plans);
    std::optional<std::size_t>& best = plans == &outcome.simulated ? outcome.best : outcome.reference;
    for (std::size_t k = 0; k < std::min(order.size(), most_contended_plans); ++k) {
      SimulatedPlan& plan = (*plans)[order[k]];
      if (!plan.fits || !plan.refusal.empty()) break;
      if (k >= contended_plans && !is_better(plan, (*plans)[*best])) break;
      plan = simulate_plan(plan.name, plan.overrides, load, EngineChoice::automatic);
      if (k == 0 || is_better(plan, (*plans)[*best])) best = order[k];
    }
  }
  if (outcome.best && outcome.reference &&
      !is_better(outcome.references[*outcome.reference], outcome.simulated[*outcome.best]))
    outcome.reference = std::nullopt;
}

// The dynamic program's own schedule is 1F1B. What others make of its best stages, the simulator says: split
// backward passes fill the bubble that unlike stages leave in ways no closed form has.
void add_other_schedules(AlpaOutcome& outcome, const JobLoader& load) {
  std::vector<std::size_t> order = by_time(outcome.simulated);
  std::erase_if(order, [&](std::size_t i) { return outcome.plans[i].pipeline == 1; });
  order.resize(std::min(order.size(), rescheduled_plans));
  for (const std::size_t i : order)
    for (const char* schedule : other_schedules) {
      AlpaPlan plan = outcome.plans[i];
      plan.schedule = schedule;
      add_simulated(outcome, std::move(plan), load);
    }
}

}  // namespace

AlpaOutcome plan_by_alpa(const JobLoader& load, const AlpaOptions& options) {
  AlpaOutcome outcome;
  const Job job = load({});
  for (AlpaPlan& plan : alpa_plans(job, options)) add_simulated(outcome, std::move(plan), load);
  add_tightened(outcome, job, options, load);
  add_other_schedules(outcome, load);
  if (outcome.best) {
    const AlpaPlan best = outcome.plans[*outcome.best];
    AlpaOptions fine = options;
    fine.buckets = fine_buckets;
    if (std::optional<AlpaPlan> plan = StageSearch(job, fine, point_of(best)).best_plan()) {
      plan->schedule = best.schedule;
      add_simulated(outcome, std::move(*plan), load);
    }
  }
  outcome.references = reference_plans(job, load);
  settle_with_contention(outcome, load);
  return outcome;
}

std::optional<std::vector<Override>> best_overrides(const AlpaOutcome& outcome) {
  if (outcome.reference) return outcome.references[*outcome.reference].overrides;
  if (outcome.best) return alpa_overrides(outcome.plans[*outcome.best]);
  return std::nullopt;
}

namespace {

constexpr double gibibyte = 1024.0 * 1024 * 1024;

std::string layout_words(const OperatorChoice& choice) {
  std::vector<std::string> words;
  for (const auto& [dim, axes] : choice.split)
    words.push_back(fmt::format("{}: {}", dim, fmt::join(axes, " x ")));
  return words.empty() ? "repeated on every rank" : fmt::format("{}", fmt::join(words, ", "));
}

// Operators of one layout together, in the order in which the first of each comes.
std::string operators_text(const AlpaPlan& plan) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> scopes;
  for (const OperatorChoice& choice : plan.operators) {
    const std::string words = layout_words(choice);
    if (scopes[words].empty()) order.push_back(words);
    scopes[words].push_back(choice.scope);
  }
  std::string text;
  for (const std::string& words : order)
    text += fmt::format("  {}\n    {}\n", words, fmt::join(scopes[words], ", "));
  return text;
}

std::string stage_lines(const AlpaPlan& plan) {
  std::string text =
      fmt::format("  {:>5}  {:>8}  {:>9}  {:>10}  {:>8}\n", "stage", "layers", "mesh y x", "seconds", "GiB");
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const AlpaStage& stage = plan.stages[s];
    text += fmt::format("  {:>5}  {:>8}  {:>10}  {:>10.4g}  {:>8.2f}\n", s,
                        fmt::format("{}-{}", stage.first_layer, stage.last_layer - 1),
                        fmt::format("{} x {}", stage.mesh.y, stage.mesh.x), stage.seconds,
                        stage.bytes / gibibyte);
  }
  return text;
}

std::string simulated_text(const SimulatedPlan& plan) {
  if (!plan.refusal.empty()) return fmt::format("  {:<58}  refused: {}\n", plan.name, plan.refusal);
  return fmt::format("  {:<58}  {:>9.4g} s  {:>7.2f} GiB{}{}\n", plan.name, plan.step_s,
                     static_cast<double>(plan.peak_bytes) / gibibyte, plan.fits ? "" : "  does not fit",
                     plan.shares_links ? "  with shared links" : "");
}

}  // namespace

std::string alpa_text(const AlpaOutcome& outcome) {
  std::string text;
  if (outcome.best) {
    const AlpaPlan& plan = outcome.plans[*outcome.best];
    text +=
        fmt::format("{}: simulated {:.4g} s, estimated {:.4g} s{}\n", outcome.simulated[*outcome.best].name,
                    outcome.simulated[*outcome.best].step_s, plan.estimate_s,
                    plan.hides_data_parallel ? " with data-parallel exchanges hidden" : "");
    text += stage_lines(plan) + operators_text(plan);
  } else {
    text += "no plan of the search fits\n";
  }
  if (outcome.reference)
    text += fmt::format("faster and taken: {}\n", outcome.references[*outcome.reference].name);
  text += "proposed, simulated\n";
  for (const SimulatedPlan& plan : outcome.simulated) text += simulated_text(plan);
  text += "beside\n";
  for (const SimulatedPlan& plan : outcome.references) text += simulated_text(plan);
  return text;
}

}  // namespace simrun
