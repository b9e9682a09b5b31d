#include "schedules/repeating_pattern.h"

#include <algorithm>

namespace simrun {

namespace {

// When one rank is busy, modulo the period.
struct BusyTable {
  struct Slot {
    std::int64_t start = 0;  // in [0, period)
    std::int64_t length = 0;
  };
  std::vector<Slot> slots;

  // The first start >= `ready` at which `length` fits, or -1.
  std::int64_t place(std::int64_t ready, std::int64_t length, std::int64_t period) {
    std::int64_t start = ready;
    for (std::size_t tries = 0; tries <= 2 * slots.size(); ++tries) {
      const std::int64_t moved = behind_overlap(start, length, period);
      if (moved == start) {
        slots.push_back({start % period, length});
        return start;
      }
      start = moved;
      if (start >= ready + period) return -1;
    }
    return -1;
  }

  std::int64_t behind_overlap(std::int64_t start, std::int64_t length, std::int64_t period) const {
    for (const Slot& slot : slots) {
      const std::int64_t into = (start % period - slot.start + period) % period;
      if (into < slot.length) return start + slot.length - into;
      if (into + length > period) return start + (period - into) + slot.length;
    }
    return start;
  }
};

struct Layer {
  const SearchModel& model;
  const PatternRule& rule;
  RepeatingPattern& pattern;
  std::vector<BusyTable> busy;

  bool forwards(std::size_t first, std::size_t last) {
    std::int64_t ready = 0;
    for (std::size_t l = first; l <= last; ++l) {
      const ScheduleLane& lane = model.lanes[l];
      const auto chunk = static_cast<std::size_t>(lane.stage / model.ranks);
      ready += lane.forward_delay + rule.forward_wait[chunk];
      pattern.forward[l] =
          busy[static_cast<std::size_t>(lane.rank)].place(ready, lane.times.forward, rule.period);
      if (pattern.forward[l] < 0) return false;
      ready = pattern.forward[l] + lane.times.forward;
    }
    return true;
  }

  bool backwards(std::size_t first, std::size_t last) {
    std::int64_t ready = pattern.forward[last] + model.lanes[last].times.forward;
    for (std::size_t l = last + 1; l-- > first;) {
      const ScheduleLane& lane = model.lanes[l];
      const auto chunk = static_cast<std::size_t>(lane.stage / model.ranks);
      ready += lane.backward_delay + rule.backward_wait[chunk];
      pattern.backward[l] =
          busy[static_cast<std::size_t>(lane.rank)].place(ready, lane.times.backward_input, rule.period);
      if (pattern.backward[l] < 0) return false;
      ready = pattern.backward[l] + lane.times.backward_input;
    }
    return true;
  }
};

}  // namespace

bool lay_pattern(const SearchModel& model, const PatternRule& rule, RepeatingPattern& pattern) {
  pattern.period = rule.period;
  pattern.forward.assign(model.lanes.size(), 0);
  pattern.backward.assign(model.lanes.size(), 0);
  Layer layer{model, rule, pattern, std::vector<BusyTable>(model.lanes_of.size())};
  const std::size_t directions = model.placement == Placement::bidirectional ? 2 : 1;
  const std::size_t stages = model.lanes.size() / directions;
  for (std::size_t d = 0; d < directions; ++d)
    if (!layer.forwards(d * stages, (d + 1) * stages - 1) ||
        !layer.backwards(d * stages, (d + 1) * stages - 1))
      return false;
  return true;
}

namespace {

struct PassStream {
  std::int64_t time = 0;
  Pass pass;
  int left = 0;
};

// The streams of one rank, each a pass every `period`, merged by time.
PassList merge(std::vector<PassStream> streams, std::int64_t period) {
  PassList passes;
  for (;;) {
    PassStream* next = nullptr;
    for (PassStream& stream : streams)
      if (stream.left > 0 && (next == nullptr || stream.time < next->time)) next = &stream;
    if (next == nullptr) return passes;
    passes.push_back(next->pass);
    next->time += period;
    --next->left;
  }
}

}  // namespace

PassOrder unroll(const SearchModel& model, const RepeatingPattern& pattern) {
  PassOrder order;
  for (const std::vector<int>& lanes : model.lanes_of) {
    std::vector<PassStream> streams;
    for (const int index : lanes) {
      const auto l = static_cast<std::size_t>(index);
      const auto lane = static_cast<std::uint16_t>(index);
      const int microbatches = model.lanes[l].microbatches;
      streams.push_back({pattern.forward[l], {OpKind::forward, lane}, microbatches});
      streams.push_back({pattern.backward[l], {OpKind::backward_input, lane}, microbatches});
    }
    order.push_back(merge(std::move(streams), pattern.period));
  }
  return order;
}

double mean_in_flight(const SearchModel& model, const RepeatingPattern& pattern) {
  double fullest = 0;
  for (const std::vector<int>& lanes : model.lanes_of) {
    std::int64_t alive = 0;
    for (const int index : lanes) {
      const auto l = static_cast<std::size_t>(index);
      const PassTimes& times = model.lanes[l].times;
      alive += pattern.backward[l] + times.backward_input + times.backward_weight - pattern.forward[l];
    }
    fullest = std::max(fullest, static_cast<double>(alive) / static_cast<double>(pattern.period));
  }
  return fullest;
}

}  // namespace simrun
