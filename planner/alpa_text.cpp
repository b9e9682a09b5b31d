#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "planner/alpa_outcome.h"

namespace simrun {
namespace {

constexpr double gibibyte = 1024.0 * 1024 * 1024;

std::string layout_words(const OperatorChoice& choice) {
  std::vector<std::string> words;
  for (const auto& [dim, axes] : choice.split)
    words.push_back(fmt::format("{}: {}", dim, fmt::join(axes, " x ")));
  return words.empty() ? "whole on every rank of its stage" : fmt::format("{}", fmt::join(words, ", "));
}

// Words with commas between, in lines that fit a terminal.
std::string wrapped(const std::vector<std::string>& words) {
  constexpr std::size_t widest = 110;
  std::string text, line = "   ";
  for (const std::string& word : words) {
    const bool is_last = &word == &words.back();
    if (line.size() + word.size() + 2 > widest) {
      text += line + "\n";
      line = "   ";
    }
    line += " " + word + (is_last ? "" : ",");
  }
  return text + line + "\n";
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
  for (const std::string& words : order) text += fmt::format("  {}\n{}", words, wrapped(scopes[words]));
  return text;
}

// "4", or "3 or 4"
std::string numbers_of_layers(const AlpaPlan& plan) {
  std::set<std::int64_t> numbers;
  for (const AlpaStage& stage : plan.stages) numbers.insert(stage.last_layer - stage.first_layer);
  return fmt::format("{}", fmt::join(numbers, " or "));
}

std::string stage_lines(const AlpaPlan& plan) {
  if (plan.virtual_stages > 1)
    return fmt::format("  {} pipeline ranks with {} stages of {} layers each, mesh y x {} x {}\n",
                       plan.pipeline, plan.virtual_stages, numbers_of_layers(plan),
                       plan.stages.front().mesh.y, plan.stages.front().mesh.x);
  std::string text =
      fmt::format("  {:>5}  {:>8}  {:>9}  {:>10}  {:>8}\n", "stage", "layers", "mesh y x", "seconds", "GiB");
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const AlpaStage& stage = plan.stages[s];
    text += fmt::format("  {:>5}  {:>8}  {:>9}  {:>10.4g}  {:>8.2f}\n", s,
                        fmt::format("{}-{}", stage.first_layer, stage.last_layer - 1),
                        fmt::format("{} x {}", stage.mesh.y, stage.mesh.x), stage.seconds,
                        stage.bytes / gibibyte);
  }
  return text;
}

std::string simulated_text(const SimulatedPlan& plan, std::size_t width) {
  if (!plan.refusal.empty()) return fmt::format("  {:<{}}  refused: {}\n", plan.name, width, plan.refusal);
  const double peak = static_cast<double>(plan.peak_bytes) / gibibyte;
  const std::string gib = peak < 0.1 ? fmt::format("{:.2g}", peak) : fmt::format("{:.2f}", peak);
  return fmt::format("  {:<{}}  {:>9.4g} s  {:>7} GiB{}{}\n", plan.name, width, plan.step_s, gib,
                     plan.fits ? "" : "  does not fit", plan.shares_links ? "  with shared links" : "");
}

// The best first.
std::string simulated_lines(std::vector<SimulatedPlan> plans, std::size_t width) {
  std::ranges::stable_sort(plans, is_better);
  std::string text;
  for (const SimulatedPlan& plan : plans) text += simulated_text(plan, width);
  return text;
}

std::string nearest_words(const AlpaOutcome& outcome) {
  std::vector<const SimulatedPlan*> all;
  for (const auto* plans : {&outcome.simulated, &outcome.references})
    for (const SimulatedPlan& plan : *plans) all.push_back(&plan);
  const std::string nearest = nearest_text(all);
  return nearest.empty() ? nearest : "; " + nearest;
}

}  // namespace

std::string alpa_text(const AlpaOutcome& outcome) {
  std::string text;
  if (outcome.reference)
    text += fmt::format("{}: simulated {:.4g} s, taken: no proposal is faster\n",
                        outcome.references[*outcome.reference].name,
                        outcome.references[*outcome.reference].step_s);
  if (outcome.best) {
    const AlpaPlan& plan = outcome.plans[*outcome.best];
    text += fmt::format("{}: simulated {:.4g} s, estimated {:.4g} s{}{}\n",
                        outcome.simulated[*outcome.best].name, outcome.simulated[*outcome.best].step_s,
                        plan.estimate_s, plan.schedule == AlpaPlan{}.schedule ? "" : " under 1F1B",
                        plan.hides_data_parallel ? " with data-parallel exchanges hidden" : "");
    text += stage_lines(plan) + operators_text(plan);
  } else if (!outcome.reference) {
    text += outcome.plans.empty() && outcome.was_stopped
                ? "stopped before anything was found\n"
                : "no plan was found to fit" + nearest_words(outcome) + "; --plan alone tells what would\n";
  }
  if (outcome.was_stopped && !outcome.plans.empty()) text += "stopped: the best so far\n";
  std::size_t width = 0;
  for (const auto* plans : {&outcome.simulated, &outcome.references})
    for (const SimulatedPlan& plan : *plans) width = std::max(width, plan.name.size());
  if (!outcome.simulated.empty()) text += "proposed, simulated\n" + simulated_lines(outcome.simulated, width);
  if (!outcome.references.empty()) text += "beside\n" + simulated_lines(outcome.references, width);
  return text;
}

}  // namespace simrun
