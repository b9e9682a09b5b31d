#include "cli/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "configs/job_yaml.h"
#include "planner/candidate_config.h"
#include "planner/plan_memory.h"
#include "planner/ranking.h"
#include "visualizer/json.h"
#include "visualizer/quantity.h"
#include "visualizer/text_table.h"

namespace simrun {
namespace {

constexpr std::size_t most_losers = 5;
constexpr double seconds_per_hour = 3600;

// Of the whole training, where the job says how many tokens that is.
struct TrainingCost {
  double seconds = 0, gpu_hours = 0, money = 0, kilowatt_hours = 0;
};
TrainingCost training_cost(const PlanBase& base, const Evaluation& of) {
  TrainingCost cost;
  const Job& job = base.job.job;
  if (job.training.tokens == 0 || of.tokens_per_s <= 0) return cost;
  cost.seconds = static_cast<double>(job.training.tokens) / of.tokens_per_s;
  cost.gpu_hours = cost.seconds / seconds_per_hour * static_cast<double>(job.world_size());
  cost.money = cost.gpu_hours * base.job.plan.price_per_gpu_hour;
  cost.kilowatt_hours = cost.gpu_hours * base.job.plan.watts_per_gpu / 1000;
  return cost;
}

std::string training_text(const PlanBase& base, const Evaluation& best) {
  const TrainingCost cost = training_cost(base, best);
  if (cost.seconds <= 0) return "";
  std::string text = fmt::format("{} tokens take {:.1f} days, {} GPU-hours",
                                 count_text(static_cast<double>(base.job.job.training.tokens)),
                                 cost.seconds / seconds_per_hour / 24, count_text(cost.gpu_hours));
  if (cost.money > 0)
    text += fmt::format(", {} at {} per GPU-hour", count_text(cost.money), base.job.plan.price_per_gpu_hour);
  if (cost.kilowatt_hours > 0) text += fmt::format(", {} kWh", count_text(cost.kilowatt_hours));
  return text + "\n";
}

std::vector<std::string> cells(const RankedCandidate& of, std::string place) {
  const Evaluation& found = of.evaluation;
  return {std::move(place),
          seconds_text(found.step_s),
          percent_text(found.mfu),
          memory_text(found.peak_bytes),
          percent_text(found.step_s > 0 ? found.bubble_fraction : 0),
          percent_text(found.step_s > 0 ? found.exposed_s / found.step_s : 0),
          describe(of.candidate)};
}

std::string table_of(const std::vector<RankedCandidate>& candidates) {
  std::vector<TextRow> rows{{"#", "step", "MFU", "peak", "bubble", "exposed", "candidate"}};
  for (std::size_t i = 0; i < candidates.size(); ++i)
    rows.push_back(cells(candidates[i], fmt::format("{}", i + 1)));
  return text_table(rows, {6});
}

// What hosts lack beside their GPUs.
std::string of_hosts(const Evaluation& of) {
  return of.host_excess_bytes == 0
             ? ""
             : fmt::format(", and {} more than its node's host has", memory_text(of.host_excess_bytes));
}

// In words, against the best.
std::string why_it_loses(const RankedCandidate& loser, const RankedCandidate& best) {
  const Evaluation& of = loser.evaluation;
  const Evaluation& to = best.evaluation;
  if (!of.refusal.empty()) return of.refusal;
  const std::string needed = memory_text(of.peak_bytes), limit = memory_text(of.limit_bytes);
  if (of.peak_bytes > of.limit_bytes && needed == limit)
    return fmt::format("does not fit: {} more than {}{}", memory_text(of.peak_bytes - of.limit_bytes), limit,
                       of_hosts(of));
  if (!of.fits) return fmt::format("does not fit: {} of {}{}", needed, limit, of_hosts(of));
  const double slower = of.step_s - to.step_s;
  const double in_percent = 100 * slower / std::max(to.step_s, 1e-12);
  if (slower <= 0 && of.peak_bytes > to.peak_bytes)
    return fmt::format("{:+.1f} %, but {} more memory", in_percent,
                       memory_text(of.peak_bytes - to.peak_bytes));
  const double bubble = of.bubble_fraction * of.step_s - to.bubble_fraction * to.step_s;
  const double exposed = of.exposed_s - to.exposed_s;
  const double compute = slower - bubble - exposed;
  const char* cause = bubble >= exposed && bubble >= compute ? "more waiting in the pipeline"
                      : exposed >= compute                   ? "more communication that nothing hides"
                                                             : "more compute (recompute, smaller kernels)";
  return fmt::format("{:+.1f} %: {}", in_percent, cause);
}

// In the order of the search, which is that of the estimates; without them, what runs and fits comes first.
std::vector<RankedCandidate> losers_of(const PlanSearchResult& result) {
  std::vector<RankedCandidate> losers = result.rest;
  if (!result.has_estimates)
    std::stable_partition(losers.begin(), losers.end(), [](const RankedCandidate& of) {
      return of.evaluation.refusal.empty() && of.evaluation.fits;
    });
  return losers;
}

std::string losers_text(const PlanSearchResult& result) {
  std::vector<TextRow> rows{{"candidate", "why"}};
  for (const RankedCandidate& loser : losers_of(result)) {
    if (rows.size() > most_losers) break;
    rows.push_back({describe(loser.candidate), why_it_loses(loser, result.best.front())});
  }
  return rows.size() == 1 ? "" : "\nWhy the next ones lose\n" + text_table(rows, {0, 1});
}

std::string nothing_fits(const PlanSearchResult& result) {
  if (result.was_stopped && result.evaluated == 0) return "stopped before anything was simulated\n";
  if (result.rest.empty()) return "no candidate fits by its estimate\n";
  const auto nearest = nearest_to_fit(result.rest);
  if (nearest == result.rest.end())
    return fmt::format("no candidate can be run; the first: {}\n", result.rest.front().evaluation.refusal);
  const Evaluation& found = nearest->evaluation;
  if (found.peak_bytes <= found.limit_bytes)
    return fmt::format("nothing fits; the nearest needs {} of the {} that it may have{}: {}\n",
                       memory_text(found.peak_bytes), memory_text(found.limit_bytes), of_hosts(found),
                       describe(nearest->candidate));
  return fmt::format("nothing fits; the nearest needs {}, {} more than the {} that it may have{}: {}\n",
                     memory_text(found.peak_bytes), memory_text(found.peak_bytes - found.limit_bytes),
                     memory_text(found.limit_bytes), of_hosts(found), describe(nearest->candidate));
}

std::string fitting_text(const FittingSearch& fitting) {
  if (fitting.found) {
    const NearestThatFits& of = *fitting.found;
    const Evaluation& found = of.best.evaluation;
    return fmt::format("{} it fits: {}, {} per step, {} of {}\n", of.change, describe(of.best.candidate),
                       seconds_text(found.step_s), memory_text(found.peak_bytes),
                       memory_text(found.limit_bytes));
  }
  if (fitting.was_stopped) return "stopped before it was known what would fit\n";
  if (!fitting.tried_limits && !fitting.tried_nodes) return "";
  const char* where = !fitting.tried_nodes ? "without one of its limits, or all"
                      : !fitting.tried_limits
                          ? "on up to 64 times as many nodes"
                          : "without one of its limits, or all, or on up to 64 times as many nodes";
  const std::string of = fitting.group.empty() ? "" : fmt::format(" of group {}", fitting.group);
  return fmt::format("nor does it fit {}{}\n", where, fitting.tried_nodes ? of : "");
}

// Files beside the job's, which a job written elsewhere would not find; presets it would.
bool names_own_files(const PlanBase& base) {
  return std::ranges::any_of(base.job.files, [&](const std::string& file) {
    return file != base.file &&
           std::ranges::none_of(base.load.preset_directories, [&](const std::string& of) {
             return file.starts_with(of.ends_with('/') ? of : of + '/');
           });
  });
}

std::string json_of(const PlanBase& base, const RankedCandidate& of) {
  // A plan that was climbed to from another has none.
  const bool is_estimated = of.estimate.step_s > 0;
  const std::string estimated_s = is_estimated ? fmt::format("{}", of.estimate.step_s) : "null";
  const std::string estimated_bytes = is_estimated ? fmt::format("{:.0f}", of.estimate.peak_bytes) : "null";
  const Evaluation& found = of.evaluation;
  const TrainingCost cost = training_cost(base, found);
  std::string text = fmt::format(
      "{{\"candidate\": {}, \"config\": {}, \"step_time_s\": {}, \"peak_memory_bytes\": {}, "
      "\"memory_limit_bytes\": {}, \"tokens_per_s\": {}, \"mfu\": {}, \"bubble_fraction\": {}, "
      "\"exposed_comm_s\": {}, \"engine\": {}, \"host_excess_bytes\": {}, \"estimated_step_time_s\": {}, "
      "\"estimated_peak_bytes\": {}",
      json_quoted(describe(of.candidate)), json_quoted(plan_yaml(base, of)), found.step_s, found.peak_bytes,
      found.limit_bytes, found.tokens_per_s, found.mfu, found.bubble_fraction, found.exposed_s,
      json_quoted(found.engine), found.host_excess_bytes, estimated_s, estimated_bytes);
  if (cost.seconds > 0)
    text += fmt::format(", \"training_s\": {}, \"gpu_hours\": {}, \"money\": {}, \"kilowatt_hours\": {}",
                        cost.seconds, cost.gpu_hours, cost.money, cost.kilowatt_hours);
  return text + "}";
}

std::string json_list_of(const PlanBase& base, const std::vector<RankedCandidate>& candidates) {
  std::string text = "[";
  for (const RankedCandidate& of : candidates)
    text += (text.size() > 1 ? ",\n  " : "\n  ") + json_of(base, of);
  return text + (candidates.empty() ? "]" : "\n ]");
}

const char* stopped_words(const PlanSearchResult& result) {
  if (!result.was_stopped) return "";
  if (result.best.empty()) return " (stopped)";
  return result.is_without_contention ? " (stopped: the best so far, each transfer alone on its links)"
                                      : " (stopped: the best so far)";
}

// A limit that no GPU reaches.
std::string idle_limit_text(const PlanBase& base) {
  const std::int64_t largest = largest_memory(base.job.job.cluster);
  if (base.job.plan.max_memory <= largest) return "";
  return fmt::format("plan.max_memory is {}, more than the largest GPU has ({}): it limits nothing\n",
                     memory_text(base.job.plan.max_memory), memory_text(largest));
}

}  // namespace

std::string plan_text(const PlanBase& base, const PlanSearchResult& result, const FittingSearch& fitting) {
  const std::string estimates = result.has_estimates ? fmt::format("{} cut by bounds, {} fit by estimate",
                                                                   result.pruned, result.feasible)
                                                     : "none estimated";
  const char* climbed = result.evaluated > result.candidates ? " (with what was climbed to)" : "";
  std::string text =
      fmt::format("{}: {} candidates, {}, {} simulated{}{}\n", base.job.job.name, result.candidates,
                  estimates, result.evaluated, climbed, stopped_words(result)) +
      idle_limit_text(base) + "\n";
  if (result.best.empty()) return text + nothing_fits(result) + fitting_text(fitting);
  text += table_of(result.best);
  if (result.pareto.size() > 1)
    text += "\nStep time against memory, of what was simulated\n" + table_of(result.pareto);
  text += losers_text(result);
  const std::string training = training_text(base, result.best.front().evaluation);
  return training.empty() ? text : text + "\n" + training;
}

std::string plan_json(const PlanBase& base, const PlanSearchResult& result, const FittingSearch& fitting,
                      const PlanRun& run) {
  std::string nearest;
  if (result.best.empty()) {
    const auto of = nearest_to_fit(result.rest);
    nearest = fmt::format(",\n \"nearest\": {}", of == result.rest.end() ? "null" : json_of(base, *of));
    const std::optional<NearestThatFits>& found = fitting.found;
    nearest += ",\n \"nearest_that_fits\": ";
    nearest += found ? fmt::format("{{\"change\": {}, \"best\": {}}}", json_quoted(found->change),
                                   json_of(found->base, found->best))
                     : "null";
  }
  return fmt::format(
      "{{\"schema_version\": 1,\n \"candidates\": {}, \"pruned\": {}, \"feasible\": {}, \"evaluated\": {}, "
      "\"seconds\": {:.3f}, "
      "\"stopped\": {},\n \"likely\": {},\n \"best\": {},\n \"pareto\": {}{}}}\n",
      result.candidates, result.pruned, result.feasible, result.evaluated, run.seconds,
      result.was_stopped || fitting.was_stopped, run.likely, json_list_of(base, result.best),
      json_list_of(base, result.pareto), nearest);
}

std::string plan_yaml(const PlanBase& base, const RankedCandidate& found) {
  ConfigNode root = with_candidate(base.root, base.job.job, found.candidate);
  std::erase_if(root.children, [](const ConfigNode& section) { return section.key == "plan"; });
  const std::string job =
      names_own_files(base) ? load_job_tree(root, {}, base.file, base.load).effective_yaml : job_yaml(root);
  return fmt::format("# Found by simrun --plan from {}: {}\n# {} per step, {} of {} per GPU.\n",
                     base.job.job.name, describe(found.candidate), seconds_text(found.evaluation.step_s),
                     memory_text(found.evaluation.peak_bytes), memory_text(found.evaluation.limit_bytes)) +
         job;
}

}  // namespace simrun
