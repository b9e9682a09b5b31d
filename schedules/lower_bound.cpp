#include <algorithm>
#include <limits>

#include "schedules/schedule_search.h"
#include "schedules/search_model.h"

// Proof of the bound. Take any order, split or not, and write T for its makespan. Everything below holds for
// each rank by itself; the bound is the largest over ranks. n passes of each kind run on the rank; M is the
// memory limit, or n if that is less.
//
//   chain      One microbatch. head(s): time before F of stage s can start. round(s): time from its end to
//              when the backward of stage s can start, through the last stage and back. rest(s): time from
//              the start of that backward to the end of the microbatch's last pass on stages <= s. A backward
//              sends after min(I, B) at the earliest and is worth work(s) = min(B, I + W) of its rank.
//   start      Before the first backward starts, at no less than b = min (head + F + round), the rank runs
//              forwards alone, and no more than M of them. It idles there at least
//              idle = max(min head, b - M F).
//   last I     Let the last I or B on the rank start at t, in stage s: T >= t + rest(s). Of the other
//              microbatches at most M - 1 are alive then, each short of its W alone; all else is done. So
//              t >= idle + (F + work of all) - work(s) - (M - 1)(work - I).
//   last F     Let the last F start at t, in stage s: T >= t + F + round(s) + rest(s). At most M - 1 others
//              are alive, each with its F done: t >= idle + (F + work of all) - F(s) - work(s) - (M - 1)
//              work. (If n <= M the first backward may come later than t: then only min head counts as idle.)
//   area       An activation is alive for F + round + work or longer, and no more than M at once, so that
//              they fit k <= M rows that hold one at a time. The first forwards of the rows start F apart,
//              their last releases end min(W, B) apart: k (T - min head) >= sum of lifetimes
//              + k (k - 1) / 2 (F + min(W, B)).
//
// An overlapped pair that takes FB < F + B may be cut into an F and, at its end, a B of FB - F: their inputs
// are there, and no result comes later. So B counts as no more than FB - F everywhere.
//
// Where the stages of a rank differ, the largest F, work and work - I are taken for what is subtracted, the
// least for what is added.

namespace simrun {

namespace {

using Times = std::vector<std::int64_t>;

struct Chains {
  Times head, round, rest;  // by lane
};

std::int64_t least_backward(const ScheduleLane& lane) {
  return std::min(lane.times.backward, lane.times.backward_input);
}

std::int64_t backward_work(const ScheduleLane& lane) {
  return std::min(lane.times.backward, lane.times.backward_input + lane.times.backward_weight);
}

std::int64_t late_weight(const ScheduleLane& lane) {
  return std::max<std::int64_t>(0, backward_work(lane) - lane.times.backward_input);
}

// The lanes of a direction lie in order of the stage, so that `previous` comes before and `next` behind.
Chains chains(const SearchModel& model) {
  const std::size_t lanes = model.lanes.size();
  Chains chain{Times(lanes), Times(lanes), Times(lanes)};
  for (std::size_t l = 0; l < lanes; ++l) {
    const ScheduleLane& lane = model.lanes[l];
    chain.rest[l] = backward_work(lane);
    if (lane.previous < 0) continue;
    const auto previous = static_cast<std::size_t>(lane.previous);
    const ScheduleLane& before = model.lanes[previous];
    chain.head[l] = chain.head[previous] + before.times.forward + lane.forward_delay;
    chain.rest[l] =
        std::max(chain.rest[l], least_backward(lane) + before.backward_delay + chain.rest[previous]);
  }
  for (std::size_t l = lanes; l-- > 0;) {
    const ScheduleLane& lane = model.lanes[l];
    if (lane.next < 0) continue;
    const auto next = static_cast<std::size_t>(lane.next);
    const ScheduleLane& behind = model.lanes[next];
    chain.round[l] = behind.forward_delay + behind.times.forward + chain.round[next] +
                     least_backward(behind) + lane.backward_delay;
  }
  return chain;
}

// What a rank's lanes add up to, and the extremes over them.
struct RankSums {
  std::int64_t passes = 0;
  std::int64_t work = 0;       // F and backward of every microbatch
  std::int64_t lifetimes = 0;  // of every activation
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t first_backward = first;
  std::int64_t after_last_input = first;    // rest - work
  std::int64_t after_last_forward = first;  // round + rest - work
  std::int64_t least_forward = first, least_release = first;
  std::int64_t most_forward = 0, most_work = 0, most_weight = 0;
};

RankSums rank_sums(const SearchModel& model, const Chains& chain, std::size_t rank) {
  RankSums sums;
  for (const int index : model.lanes_of[rank]) {
    const auto l = static_cast<std::size_t>(index);
    const ScheduleLane& lane = model.lanes[l];
    const std::int64_t forward = lane.times.forward;
    const std::int64_t work = backward_work(lane);
    sums.passes += lane.microbatches;
    sums.work += lane.microbatches * (forward + work);
    sums.lifetimes += lane.microbatches * (forward + chain.round[l] + work);
    sums.first = std::min(sums.first, chain.head[l]);
    sums.first_backward = std::min(sums.first_backward, chain.head[l] + forward + chain.round[l]);
    sums.after_last_input = std::min(sums.after_last_input, chain.rest[l] - work);
    sums.after_last_forward = std::min(sums.after_last_forward, chain.round[l] + chain.rest[l] - work);
    sums.least_forward = std::min(sums.least_forward, forward);
    sums.least_release = std::min({sums.least_release, lane.times.backward, lane.times.backward_weight});
    sums.most_forward = std::max(sums.most_forward, forward);
    sums.most_work = std::max(sums.most_work, work);
    sums.most_weight = std::max(sums.most_weight, late_weight(lane));
  }
  return sums;
}

// k rows of activations: the least over k of head + lifetimes / k + what the rows lose at both ends.
std::int64_t area_bound(const RankSums& sums, std::int64_t alive) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t k = 1; k <= alive; ++k) {
    const std::int64_t lost = k * (k - 1) / 2 * (sums.least_forward + sums.least_release);
    least = std::min(least, sums.first + (sums.lifetimes + lost + k - 1) / k);
  }
  return least;
}

std::int64_t rank_bound(const RankSums& sums, std::int64_t memory_limit) {
  const std::int64_t alive = std::min(memory_limit, sums.passes);
  const std::int64_t idle = std::max(sums.first, sums.first_backward - alive * sums.most_forward);
  const std::int64_t idle_before_last_forward = sums.passes > memory_limit ? idle : sums.first;
  const std::int64_t last_input = idle + sums.work - (alive - 1) * sums.most_weight + sums.after_last_input;
  const std::int64_t last_forward =
      idle_before_last_forward + sums.work - (alive - 1) * sums.most_work + sums.after_last_forward;
  return std::max({idle + sums.work, last_input, last_forward, area_bound(sums, alive)});
}

}  // namespace

std::int64_t makespan_lower_bound(const PipelineShape& shape, Placement placement) {
  SearchModel model = make_search_model(shape, placement);
  for (ScheduleLane& lane : model.lanes) {  // a pair as F and B behind it
    lane.times.forward = std::min(lane.times.forward, lane.times.overlapped);
    lane.times.backward = std::min(lane.times.backward, lane.times.overlapped - lane.times.forward);
  }
  const Chains chain = chains(model);
  std::int64_t bound = 0;
  for (std::size_t l = 0; l < model.lanes.size(); ++l)
    bound = std::max(bound, chain.head[l] + model.lanes[l].times.forward + chain.round[l] + chain.rest[l]);
  for (std::size_t rank = 0; rank < model.lanes_of.size(); ++rank)
    bound = std::max(bound, rank_bound(rank_sums(model, chain, rank), model.memory_limit));
  return bound;
}

}  // namespace simrun
