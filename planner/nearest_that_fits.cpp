#include "planner/nearest_that_fits.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "configs/diagnostics.h"
#include "planner/pass_costs.h"
#include "planner/plan_memory.h"

namespace simrun {
namespace {

constexpr std::int64_t most_times = 64;
constexpr std::int64_t few_evaluations = 8;

class Relaxation {
 public:
  explicit Relaxation(PlanSearchOptions options) : options_(std::move(options)) {
    options_.known.clear();
    options_.tunes = false;
  }

  bool is_over() const { return search_.found.has_value() || search_.was_stopped; }
  FittingSearch result() && { return std::move(search_); }

  void try_limits(std::string change, PlanBase base) {
    search_.tried_limits = true;
    try_job(std::move(change), std::move(base));
  }

  // Of the cluster or, where it has groups, of one of them.
  void try_nodes(std::int64_t nodes, const NodeGroup* group, const BaseWith& with) {
    search_.tried_nodes = true;
    if (group != nullptr) search_.group = group->name;
    if (options_.among.processes == 1 && options_.progress && !options_.progress({})) {
      search_.was_stopped = true;
      return;
    }
    const std::string key =
        group == nullptr ? "cluster.nodes" : fmt::format("cluster.node_groups.{}.nodes", group->name);
    std::optional<PlanBase> larger = with({key, std::to_string(nodes)});
    if (!larger) return;
    const std::int64_t gpus = nodes * larger->job.job.cluster.gpus_per_node;
    const std::string what = group == nullptr ? "GPUs" : group->gpu.name;
    try_job(fmt::format("with {} nodes{} ({} {})", nodes,
                        group == nullptr ? "" : fmt::format(" in group {}", group->name), gpus, what),
            std::move(*larger));
  }

 private:
  void try_job(std::string change, PlanBase base) {
    base.job.plan.evaluations = few_evaluations;
    base.job.plan.best = 1;
    try {
      PlanSearchResult result = search_jobs_once(base, options_);
      search_.was_stopped = result.was_stopped;
      if (!result.best.empty())
        search_.found = {std::move(change), std::move(base), std::move(result.best.front())};
    } catch (const ConfigError&) {
      return;  // no candidate keeps to the limits that are left
    } catch (const std::invalid_argument&) {
      return;  // too many candidates to simulate them all
    } catch (const std::range_error&) {
      return;  // steps that take longer than can be counted
    }
  }

  PlanSearchOptions options_;
  FittingSearch search_;
};

struct Change {
  std::string words;
  PlanConfig plan;
};

// The job's limits without some of them.
std::vector<Change> fewer_limits(const PlanConfig& plan, std::int64_t largest) {
  std::vector<Change> changes;
  const bool limits_memory = plan.max_memory > 0 && plan.max_memory < largest;
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

FittingSearch nearest_that_fits(const PlanBase& base, const BaseWith& with,
                                const PlanSearchOptions& options) {
  if (!has_layer_kinds(base.job.job)) return {};
  Relaxation relaxation(options);
  const Cluster& cluster = base.job.job.cluster;
  for (const Change& change : fewer_limits(base.job.plan, largest_memory(cluster))) {
    if (relaxation.is_over()) break;
    PlanBase free = base;
    free.job.plan = change.plan;
    relaxation.try_limits(change.words, std::move(free));
  }
  if (!with) return std::move(relaxation).result();
  const auto largest = std::ranges::max_element(
      cluster.node_groups, {}, [](const NodeGroup& group) { return group.gpu.memory_bytes; });
  const NodeGroup* group = largest == cluster.node_groups.end() ? nullptr : &*largest;
  const std::int64_t nodes = group == nullptr ? cluster.nodes : group->nodes;
  for (std::int64_t times = 2; times <= most_times; times *= 2)
    for (const std::int64_t halves : {2, 3}) {  // 2, 3, 4, 6, 8, 12 ...
      if (relaxation.is_over()) break;
      if (times * halves / 2 <= most_times) relaxation.try_nodes(nodes * times * halves / 2, group, with);
    }
  return std::move(relaxation).result();
}

}  // namespace simrun
