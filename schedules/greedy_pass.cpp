#include "schedules/greedy_pass.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <queue>

namespace simrun {

namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max() / 4;

struct LaneState {
  int forwards = 0;   // started
  int backwards = 0;  // started
  int skipped = 0;    // backwards that ran before their turn in the sequence
  // Of started passes, whose ends are known: when this lane has the k-th input.
  std::vector<std::int64_t> forward_ready, backward_ready;
};

struct RankState {
  std::int64_t free_at = 0;
  int alive = 0;
  std::vector<std::uint16_t> split;  // lanes of I's without W, from `weights` on
  std::size_t weights = 0;
  std::size_t next = 0;  // in the sequence
  std::size_t waiting() const { return split.size() - weights; }
};

struct Event {
  std::int64_t time = 0;
  int rank = 0;
  // clang-tidy 14 takes the defaulted comparison for a null pointer.
  auto operator<=>(const Event&) const = default;  // NOLINT(modernize-use-nullptr)
};

struct Candidate {
  Pass pass;
  std::int64_t ready = never;
  std::int64_t priority = never;
};

class GreedyRun {
 public:
  GreedyRun(const SearchModel& model, const GreedyRule& rule, const PassOrder* sequence);
  PassOrder run();

 private:
  void decide(int rank, std::int64_t now);
  void consider(const Candidate& candidate, std::int64_t now);
  void consider_lane(int index, int reserved, std::int64_t now);
  void consider_next(int rank, std::int64_t now);
  void take_from_sequence(int rank);
  bool sequence_done(int rank) const;
  void start(int rank, Pass pass, std::int64_t now);
  void start_weight(int rank, std::int64_t now);
  void tell(int lane, std::int64_t ready);

  const SearchModel& model_;
  const GreedyRule& rule_;
  const PassOrder* sequence_;  // or nullptr
  std::vector<LaneState> lanes_;
  std::vector<RankState> ranks_;
  PassOrder order_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  // Of the decision at hand: the best pass, when the first of all can start, a forward lacks memory alone.
  Candidate best_;
  std::int64_t soonest_ = never;
  bool memory_blocks_ = false;
};

GreedyRun::GreedyRun(const SearchModel& model, const GreedyRule& rule, const PassOrder* sequence)
    : model_(model),
      rule_(rule),
      sequence_(sequence),
      lanes_(model.lanes.size()),
      ranks_(model.lanes_of.size()) {
  order_.resize(ranks_.size());
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const auto microbatches = static_cast<std::size_t>(model.lanes[l].microbatches);
    lanes_[l].forward_ready.reserve(microbatches);
    lanes_[l].backward_ready.reserve(microbatches);
    if (model.lanes[l].previous < 0) lanes_[l].forward_ready.assign(microbatches, 0);
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    std::size_t passes = 0;
    for (const int l : model.lanes_of[r])
      passes += static_cast<std::size_t>(model.lanes[static_cast<std::size_t>(l)].microbatches);
    order_[r].reserve(passes * 3);
    ranks_[r].split.reserve(passes);
    events_.push({0, static_cast<int>(r)});
  }
}

void GreedyRun::tell(int lane, std::int64_t ready) {
  const int rank = model_.lanes[static_cast<std::size_t>(lane)].rank;
  if (ranks_[static_cast<std::size_t>(rank)].free_at <= ready)
    events_.push({ready, rank});  // else it decides later
}

void GreedyRun::start(int rank, Pass pass, std::int64_t now) {
  const ScheduleLane& lane = model_.lanes[pass.lane];
  LaneState& state = lanes_[pass.lane];
  RankState& own = ranks_[static_cast<std::size_t>(rank)];
  const std::int64_t end = now + lane.times.of(pass.kind);
  if (pass.kind == OpKind::forward) {
    ++state.forwards;
    ++own.alive;
    const int next = lane.next;
    if (next >= 0) {
      const auto n = static_cast<std::size_t>(next);
      lanes_[n].forward_ready.push_back(end + model_.lanes[n].forward_delay);
      tell(next, lanes_[n].forward_ready.back());
    } else {
      state.backward_ready.push_back(end);
    }
  } else {
    ++state.backwards;
    if (pass.kind == OpKind::backward) --own.alive;
    if (pass.kind == OpKind::backward_input) own.split.push_back(pass.lane);
    if (const int previous = lane.previous; previous >= 0) {
      const auto p = static_cast<std::size_t>(previous);
      lanes_[p].backward_ready.push_back(end + model_.lanes[p].backward_delay);
      tell(previous, lanes_[p].backward_ready.back());
    }
  }
  order_[static_cast<std::size_t>(rank)].push_back(pass);
  own.free_at = end;
  events_.push({end, rank});
}

void GreedyRun::start_weight(int rank, std::int64_t now) {
  RankState& own = ranks_[static_cast<std::size_t>(rank)];
  const std::uint16_t lane = own.split[own.weights++];
  --own.alive;
  order_[static_cast<std::size_t>(rank)].push_back({OpKind::backward_weight, lane});
  own.free_at = now + model_.lanes[lane].times.backward_weight;
  events_.push({own.free_at, rank});
}

void GreedyRun::consider(const Candidate& candidate, std::int64_t now) {
  soonest_ = std::min(soonest_, candidate.ready);
  if (candidate.ready <= now + rule_.patience && candidate.priority < best_.priority) best_ = candidate;
}

void GreedyRun::consider_lane(int index, int reserved, std::int64_t now) {
  const auto l = static_cast<std::size_t>(index);
  const auto lane = static_cast<std::uint16_t>(index);
  const LaneState& state = lanes_[l];
  const auto b = static_cast<std::size_t>(state.backwards);
  if (b < state.backward_ready.size())
    consider({{rule_.split ? OpKind::backward_input : OpKind::backward, lane},
              std::max(now, state.backward_ready[b]),
              rule_.backward_target[l] + state.backwards * rule_.period},
             now);
  const auto f = static_cast<std::size_t>(state.forwards);
  if (f >= state.forward_ready.size() || state.forwards - state.backwards >= rule_.ahead[l]) return;
  const std::int64_t ready = std::max(now, state.forward_ready[f]);
  const RankState& own = ranks_[static_cast<std::size_t>(model_.lanes[l].rank)];
  if (own.alive + reserved >= model_.memory_limit) {
    memory_blocks_ = memory_blocks_ || ready == now;
    return;
  }
  consider({{OpKind::forward, lane}, ready, rule_.forward_target[l] + state.forwards * rule_.period}, now);
}

// The next pass of the sequence, or else a later backward that could start: it holds nothing up.
void GreedyRun::consider_next(int rank, std::int64_t now) {
  const auto r = static_cast<std::size_t>(rank);
  RankState& own = ranks_[r];
  const PassList& passes = (*sequence_)[r];
  while (own.next < passes.size() && lanes_[passes[own.next].lane].skipped > 0 &&
         passes[own.next].kind != OpKind::forward) {
    --lanes_[passes[own.next].lane].skipped;
    ++own.next;
  }
  if (own.next == passes.size()) return;
  const Pass pass = passes[own.next];
  const LaneState& state = lanes_[pass.lane];
  const bool forward = pass.kind == OpKind::forward;
  const std::vector<std::int64_t>& ready = forward ? state.forward_ready : state.backward_ready;
  const auto k = static_cast<std::size_t>(forward ? state.forwards : state.backwards);
  if (k < ready.size()) {
    if (forward && own.alive >= model_.memory_limit) {
      memory_blocks_ = true;
    } else {
      best_ = {pass, std::max(now, ready[k]), 0};
      if (best_.ready <= now) return;
    }
  }
  const auto entry = static_cast<std::size_t>(model_.lanes_of[r].front());
  if (!rule_.eager_drain || lanes_[entry].forwards < model_.lanes[entry].microbatches) return;
  for (const int l : model_.lanes_of[r]) {
    const LaneState& other = lanes_[static_cast<std::size_t>(l)];
    const auto b = static_cast<std::size_t>(other.backwards);
    if (b < other.backward_ready.size() && other.backward_ready[b] <= now)
      best_ = {{OpKind::backward_input, static_cast<std::uint16_t>(l)}, now, 0};
  }
}

bool GreedyRun::sequence_done(int rank) const {
  const auto r = static_cast<std::size_t>(rank);
  return sequence_ == nullptr || ranks_[r].next == (*sequence_)[r].size();
}

void GreedyRun::take_from_sequence(int rank) {
  RankState& own = ranks_[static_cast<std::size_t>(rank)];
  if ((*sequence_)[static_cast<std::size_t>(rank)][own.next] == best_.pass)
    ++own.next;
  else
    ++lanes_[best_.pass.lane].skipped;
}

void GreedyRun::decide(int rank, std::int64_t now) {
  RankState& own = ranks_[static_cast<std::size_t>(rank)];
  if (own.free_at > now) return;
  best_ = {};
  soonest_ = never;
  memory_blocks_ = false;
  const std::vector<int>& lanes = model_.lanes_of[static_cast<std::size_t>(rank)];
  if (sequence_ != nullptr) consider_next(rank, now);
  for (std::size_t c = 0; c < lanes.size() && sequence_ == nullptr; ++c)
    consider_lane(lanes[c], static_cast<int>(lanes.size() - 1 - c), now);
  const bool startable = best_.ready <= now;
  if (own.waiting() > 0) {
    const std::int64_t weight = model_.lanes[own.split[own.weights]].times.backward_weight;
    const std::int64_t gap = (best_.ready < never ? best_.ready : soonest_) - now;
    const bool fills = rule_.weight_fill < 0 ? soonest_ == never && sequence_done(rank)
                                             : !startable && gap >= weight * rule_.weight_fill / 100;
    const std::vector<int>& backlog = rule_.weight_backlog;
    const bool overdue =
        !backlog.empty() && static_cast<int>(own.waiting()) > backlog[static_cast<std::size_t>(rank)];
    const bool forced =
        overdue || (memory_blocks_ &&
                    (!startable || (rule_.weight_before_backward && best_.pass.kind != OpKind::forward)));
    if (fills || forced) return start_weight(rank, now);
  }
  if (startable && sequence_ != nullptr) take_from_sequence(rank);
  if (startable) return start(rank, best_.pass, now);
  const std::int64_t wake = best_.ready < never ? best_.ready : soonest_;
  if (wake < never) events_.push({wake, rank});
}

PassOrder GreedyRun::run() {
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    decide(event.rank, event.time);
  }
  return std::move(order_);
}

}  // namespace

PassOrder greedy_pass(const SearchModel& model, const GreedyRule& rule) {
  assert(model.memory_limit >= least_memory(model) && "no order fits in less memory");
  return GreedyRun(model, rule, nullptr).run();
}

PassOrder fill_weights(const SearchModel& model, const GreedyRule& rule, const PassOrder& sequence) {
  PassOrder order = GreedyRun(model, rule, &sequence).run();
  for (std::size_t r = 0; r < order.size(); ++r)
    if (2 * order[r].size() != 3 * sequence[r].size()) return {};
  return order;
}

}  // namespace simrun
