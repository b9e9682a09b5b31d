#include "planner/nearest_that_fits.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "configs/diagnostics.h"

namespace simrun {
namespace {

constexpr std::int64_t most_times = 64;
constexpr std::int64_t few_evaluations = 8;

class Relaxation {
 public:
  explicit Relaxation(PlanSearchOptions options) : options_(std::move(options)) { options_.known.clear(); }

  bool was_stopped() const { return was_stopped_; }

  // The job, if it fits.
  std::optional<NearestThatFits> tried(std::string change, PlanBase base) {
    base.job.plan.evaluations = few_evaluations;
    base.job.plan.best = 1;
    try {
      PlanSearchResult result = search_jobs(base, options_);
      was_stopped_ = result.was_stopped;
      if (was_stopped_ || result.best.empty()) return std::nullopt;
      return NearestThatFits{std::move(change), std::move(base), std::move(result.best.front())};
    } catch (const ConfigError&) {
      return std::nullopt;
    } catch (const std::invalid_argument&) {
      return std::nullopt;  // too many candidates to simulate them all
    }
  }

 private:
  PlanSearchOptions options_;
  bool was_stopped_ = false;
};

struct Change {
  std::string words;
  PlanConfig plan;
};

// The job's limits without some of them.
std::vector<Change> fewer_limits(const PlanConfig& plan) {
  std::vector<Change> changes;
  const bool limits_memory = plan.max_memory > 0;
  if (limits_memory) {
    changes.push_back({"without plan.max_memory", plan});
    changes.back().plan.max_memory = 0;
  }
  const auto without = [&](const std::string& key) -> PlanConfig& {
    changes.push_back({"without plan.fix." + key, plan});
    return changes.back().plan;
  };
  for (const auto& [key, values] : plan.fixed_numbers) without(key).fixed_numbers.erase(key);
  if (!plan.schedules.empty()) without("pipeline_schedule").schedules.clear();
  if (!plan.recomputes.empty()) without("recompute").recomputes.clear();
  const std::size_t fixed = changes.size() - (limits_memory ? 1 : 0);
  PlanConfig free = plan;
  free.fixed_numbers.clear();
  free.schedules.clear();
  free.recomputes.clear();
  if (fixed > 1) changes.push_back({"without plan.fix", free});
  free.max_memory = 0;
  if (fixed > 0 && limits_memory) changes.push_back({"without plan.fix and plan.max_memory", free});
  return changes;
}

}  // namespace

std::optional<NearestThatFits> nearest_that_fits(const PlanBase& base, const BaseOnNodes& on_nodes,
                                                 const PlanSearchOptions& options) {
  Relaxation relaxation(options);
  for (const Change& change : fewer_limits(base.job.plan)) {
    PlanBase free = base;
    free.job.plan = change.plan;
    if (auto found = relaxation.tried(change.words, std::move(free))) return found;
    if (relaxation.was_stopped()) return std::nullopt;
  }
  const Cluster& cluster = base.job.job.cluster;
  if (!on_nodes || !cluster.node_groups.empty()) return std::nullopt;
  const auto fitting_on = [&](std::int64_t nodes) -> std::optional<NearestThatFits> {
    std::optional<PlanBase> larger = on_nodes(nodes);
    if (!larger) return std::nullopt;
    return relaxation.tried(fmt::format("with {} nodes ({} GPUs)", nodes, nodes * cluster.gpus_per_node),
                            std::move(*larger));
  };
  for (std::int64_t times = 2; times <= most_times; times *= 2)
    for (const std::int64_t halves : {2, 3}) {  // 2, 3, 4, 6, 8, 12 ...
      if (times * halves / 2 > most_times) continue;
      if (auto found = fitting_on(cluster.nodes * times * halves / 2)) return found;
      if (relaxation.was_stopped()) return std::nullopt;
    }
  return std::nullopt;
}

}  // namespace simrun
