#include "schedules/evaluate_schedule.h"

#include <algorithm>
#include <stdexcept>

#include "schedules/run_lists.h"

namespace simrun {

static std::string stuck_ops(const Schedule& schedule, const ListRun& run) {
  std::string text;
  for (std::size_t rank = 0; rank < schedule.size(); ++rank)
    if (run.stuck_at[rank] < schedule[rank].size())
      text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank) + " at " +
              to_string(schedule[rank][run.stuck_at[rank]]);
  return text;
}

// The most (stage, microbatch, slice) results between F and its release, which is B or `released_by`.
static int peak_in_flight(const RankOps& ops, OpKind released_by) {
  int alive = 0;
  int peak = 0;
  for (const Op& op : ops) {
    if (op.kind == OpKind::forward) peak = std::max(peak, ++alive);
    if (op.kind == OpKind::backward || op.kind == released_by) --alive;
  }
  return peak;
}

static std::int64_t busy_time(const RankOps& ops, const ListRun& run, std::size_t rank) {
  std::int64_t busy = 0;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (i == 0 || !ops[i - 1].overlaps_next) busy += run.end[rank][i] - run.start[rank][i];
  return busy;
}

ScheduleTimes evaluate(const Schedule& schedule, const PipelineShape& shape) {
  ListRun run = run_lists(schedule, shape);
  if (!run.finished)
    throw std::logic_error("the ranks of a schedule wait for each other: " + stuck_ops(schedule, run));
  ScheduleTimes times;
  for (const std::vector<std::int64_t>& ends : run.end)
    if (!ends.empty()) times.makespan = std::max(times.makespan, ends.back());
  std::int64_t all_idle = 0;
  for (std::size_t rank = 0; rank < schedule.size(); ++rank) {
    const RankOps& ops = schedule[rank];
    const std::int64_t busy = busy_time(ops, run, rank);
    times.idle.push_back(times.makespan - busy);
    times.span_idle.push_back(ops.empty() ? 0 : run.end[rank].back() - run.start[rank].front() - busy);
    times.peak_in_flight_at_w.push_back(peak_in_flight(ops, OpKind::backward_weight));
    times.peak_in_flight_at_i.push_back(peak_in_flight(ops, OpKind::backward_input));
    all_idle += times.idle.back();
  }
  if (times.makespan > 0)
    times.bubble_ratio = static_cast<double>(all_idle) /
                         (static_cast<double>(schedule.size()) * static_cast<double>(times.makespan));
  times.start = std::move(run.start);
  times.end = std::move(run.end);
  return times;
}

}  // namespace simrun
