#include "schedules/search_model.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace simrun {

static void add_lanes(SearchModel& model, const PipelineShape& shape, Direction direction) {
  const int stages = stage_count(model.placement, shape.ranks, shape.virtual_stages);
  const int first = static_cast<int>(model.lanes.size());
  const int directions = model.placement == Placement::bidirectional ? 2 : 1;
  for (int stage = 0; stage < stages; ++stage) {
    ScheduleLane lane;
    lane.rank = rank_of(model.placement, shape.ranks, stage, direction);
    lane.stage = stage;
    lane.direction = direction;
    lane.previous = stage > 0 ? first + stage - 1 : -1;
    lane.next = stage + 1 < stages ? first + stage + 1 : -1;
    lane.microbatches = shape.microbatches / directions;
    lane.times = shape.times_of(stage);
    model.lanes.push_back(lane);
  }
}

SearchModel make_search_model(const PipelineShape& shape, Placement placement) {
  assert(shape.slices == 1 && "the search runs whole sequences");
  SearchModel model;
  model.placement = placement;
  model.ranks = shape.ranks;
  add_lanes(model, shape, Direction::down);
  if (placement == Placement::bidirectional) add_lanes(model, shape, Direction::up);
  model.lanes_of.resize(static_cast<std::size_t>(shape.ranks));
  for (std::size_t l = 0; l < model.lanes.size(); ++l) {
    ScheduleLane& lane = model.lanes[l];
    model.lanes_of[static_cast<std::size_t>(lane.rank)].push_back(static_cast<int>(l));
    const auto delay_from = [&](int other) {
      if (other < 0) return std::int64_t{0};
      const ScheduleLane& sender = model.lanes[static_cast<std::size_t>(other)];
      return sender.rank == lane.rank ? std::int64_t{0} : sender.times.communication;
    };
    lane.forward_delay = delay_from(lane.previous);
    lane.backward_delay = delay_from(lane.next);
  }
  for (std::vector<int>& lanes : model.lanes_of)
    std::stable_sort(lanes.begin(), lanes.end(), [&](int a, int b) {
      return model.lanes[static_cast<std::size_t>(a)].stage < model.lanes[static_cast<std::size_t>(b)].stage;
    });
  model.memory_limit = shape.memory_limit > 0 ? shape.memory_limit : std::numeric_limits<int>::max() / 2;
  return model;
}

int least_memory(const SearchModel& model) {
  std::size_t least = 1;
  for (const std::vector<int>& lanes : model.lanes_of) least = std::max(least, lanes.size());
  return static_cast<int>(least);
}

namespace {

// Which microbatch the next pass of each kind has, by lane.
struct LaneProgress {
  int forwards = 0;
  int backwards = 0;
  std::vector<int> split;  // I done and W not, from `weights` on
  std::size_t weights = 0;

  int next(OpKind kind) {
    switch (kind) {
      case OpKind::forward: return forwards++;
      case OpKind::backward: return backwards++;
      case OpKind::backward_input: split.push_back(backwards); return backwards++;
      case OpKind::backward_weight: return weights < split.size() ? split[weights++] : -1;
    }
    return -1;
  }
};

}  // namespace

Schedule to_schedule(const SearchModel& model, const PassOrder& order) {
  std::vector<LaneProgress> progress(model.lanes.size());
  Schedule schedule;
  for (const PassList& passes : order) {
    RankOps ops;
    ops.reserve(passes.size());
    for (const Pass& pass : passes) {
      const ScheduleLane& lane = model.lanes[pass.lane];
      ops.push_back({.kind = pass.kind,
                     .stage = lane.stage,
                     .microbatch = progress[pass.lane].next(pass.kind),
                     .direction = lane.direction});
    }
    schedule.push_back(std::move(ops));
  }
  return schedule;
}

PassOrder to_pass_order(const SearchModel& model, const Schedule& schedule) {
  const std::size_t stages =
      model.placement == Placement::bidirectional ? model.lanes.size() / 2 : model.lanes.size();
  std::vector<LaneProgress> progress(model.lanes.size());
  PassOrder order;
  for (const RankOps& ops : schedule) {
    PassList passes;
    passes.reserve(ops.size());
    for (const Op& op : ops) {
      const std::size_t lane =
          static_cast<std::size_t>(op.stage) + (op.direction == Direction::up ? stages : 0);
      if (op.slice != 0 || lane >= model.lanes.size()) return {};
      if (progress[lane].next(op.kind) != op.microbatch) return {};
      passes.push_back({op.kind, static_cast<std::uint16_t>(lane)});
    }
    order.push_back(std::move(passes));
  }
  return order;
}

int peak_in_flight(const PassOrder& order, OpKind released_by) {
  int peak = 0;
  for (const PassList& passes : order) {
    int alive = 0;
    for (const Pass& pass : passes) {
      if (pass.kind == OpKind::forward) peak = std::max(peak, ++alive);
      if (pass.kind == OpKind::backward || pass.kind == released_by) --alive;
    }
  }
  return peak;
}

OrderEvaluator::OrderEvaluator(const SearchModel& model) : model_(&model) {
  for (const ScheduleLane& lane : model.lanes) {
    forward_end_.emplace_back(static_cast<std::size_t>(lane.microbatches));
    backward_end_.emplace_back(static_cast<std::size_t>(lane.microbatches));
  }
  starts_.resize(static_cast<std::size_t>(model.ranks));
}

void OrderEvaluator::advance(int rank, const PassList& passes) {
  std::vector<std::int64_t>& starts = starts_[static_cast<std::size_t>(rank)];
  std::int64_t now = free_at_[static_cast<std::size_t>(rank)];
  while (starts.size() < passes.size()) {
    const Pass pass = passes[starts.size()];
    const ScheduleLane& lane = model_->lanes[pass.lane];
    if (pass.kind == OpKind::forward) {
      const auto k = static_cast<std::size_t>(forwards_[pass.lane]);
      if (lane.previous >= 0) {
        const auto previous = static_cast<std::size_t>(lane.previous);
        if (forwards_[previous] <= static_cast<int>(k)) break;
        now = std::max(now, forward_end_[previous][k] + lane.forward_delay);
      }
      forward_end_[pass.lane][k] = now + lane.times.forward;
      ++forwards_[pass.lane];
    } else if (pass.kind != OpKind::backward_weight) {
      const auto k = static_cast<std::size_t>(backwards_[pass.lane]);
      if (lane.next >= 0) {
        const auto next = static_cast<std::size_t>(lane.next);
        if (backwards_[next] <= static_cast<int>(k)) break;
        now = std::max(now, backward_end_[next][k] + lane.backward_delay);
      }
      backward_end_[pass.lane][k] = now + lane.times.of(pass.kind);
      ++backwards_[pass.lane];
    }
    reached_.push_back({rank, static_cast<int>(starts.size())});
    starts.push_back(now);
    now += lane.times.of(pass.kind);
  }
  free_at_[static_cast<std::size_t>(rank)] = now;
}

OrderTimes OrderEvaluator::run(const PassOrder& order) {
  forwards_.assign(model_->lanes.size(), 0);
  backwards_.assign(model_->lanes.size(), 0);
  free_at_.assign(order.size(), 0);
  reached_.clear();
  std::size_t total = 0;
  for (std::size_t r = 0; r < order.size(); ++r) {
    starts_[r].clear();
    total += order[r].size();
  }
  while (reached_.size() < total) {
    const std::size_t before = reached_.size();
    for (std::size_t r = 0; r < order.size(); ++r) advance(static_cast<int>(r), order[r]);
    for (std::size_t r = order.size(); r-- > 0;) advance(static_cast<int>(r), order[r]);
    if (reached_.size() == before) return {-1, -1};
  }
  OrderTimes times;
  for (std::size_t r = 0; r < order.size(); ++r) {
    if (order[r].empty()) continue;
    times.makespan = std::max(times.makespan, free_at_[r]);
    times.span = std::max(times.span, free_at_[r] - starts_[r].front());
  }
  return times;
}

}  // namespace simrun
