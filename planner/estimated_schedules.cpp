#include "planner/estimated_schedules.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "configs/node_groups.h"
#include "planner/climb_starts.h"
#include "planner/moved_layers.h"
#include "planner/ranking.h"
#include "planner/search_start.h"

namespace simrun {
namespace {

constexpr std::size_t most_listed = 200, most_simulated = 24;
constexpr std::int64_t most_passes = 40'000;

}  // namespace

std::vector<Candidate> near_under_other_schedules(const PlanBase& base, const PlanSearchOptions& options,
                                                  double most_goal) {
  const Job& job = base.job.job;
  if (job.world_size() > few_gpus || GpuKinds(job.cluster).count() > 1 || !base.job.plan.schedules.empty())
    return {};
  PlanBase others = base;
  others.job.plan.schedules = {"zb_h2", "v_half", "v_min", "dualpipe", "dualpipe_v"};
  if (count_candidates(job, others.job.plan) == 0) return {};
  PlanSearchOptions silent = options;
  silent.progress = {};
  EstimatedShare share = estimated_start(others, most_listed, silent);
  std::erase_if(share.heavy, [&](const EstimatedCandidate& of) {
    return goal_of(base.job.plan.minimise, of.estimate.step_s, of.estimate.peak_bytes) > most_goal;
  });
  std::vector<Candidate> near = lightened(others, std::move(share.heavy));
  if (share.feasible == 0) return near;
  std::int64_t left = most_passes;
  for (const RankedCandidate& one : pipelined_starts_by_microbatch(
           as_estimated(share.shortlist, {}), base.job.plan.minimise, most_goal, most_simulated)) {
    const Candidate& of = one.candidate;
    left -= 2 * of.microbatches(job.training.global_batch_size) * of.pipeline * of.virtual_stages;
    if (left >= 0) near.push_back(of);
  }
  return near;
}

}  // namespace simrun
