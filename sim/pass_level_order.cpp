#include "sim/pass_level_order.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace simrun {
namespace {

// Events by level: the longest chain of events that each waits for. Within a level they are independent, so a
// schedule that repeats does so here in every detail.
class EventOrderer {
 public:
  explicit EventOrderer(const PassLevelPlan& plan)
      : plan_(plan),
        ranks_(plan.ranks.size()),
        streams_(plan.ranks.size() * plan.streams),
        transfers_(static_cast<std::size_t>(plan.transfers)) {}

  std::vector<PassLevelEvent> events() {
    for (std::size_t rank = ranks_.size(); rank-- > 0;) runnable_.push_back(rank);
    while (!runnable_.empty()) {
      const std::size_t rank = runnable_.back();
      runnable_.pop_back();
      advance(rank);
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].entry < plan_.ranks[rank].entries.size())
        throw std::runtime_error("the ranks of a pipeline wait for each other");
    return by_level();
  }

 private:
  struct LeveledEvent {
    std::int32_t level = 0;
    PassLevelEvent event;
  };
  struct RankState {
    std::size_t entry = 0;
    std::int32_t level = 0, awaits = -1;
  };
  // Ends of transfers that were posted and are not over, first in first out.
  struct StreamState {
    std::vector<std::int32_t> posted;
    std::size_t head = 0;
    std::int32_t level = 0;
  };
  struct TransferState {
    std::int32_t sender = -1, receiver = -1;  // streams
    Index sends = 0, receives = 0;            // segments
    std::int32_t ready = 0, end = -1;         // levels
  };

  void advance(std::size_t rank) {
    const std::vector<PassLevelEntry>& entries = plan_.ranks[rank].entries;
    RankState& state = ranks_[rank];
    for (; state.entry < entries.size(); ++state.entry) {
      const PassLevelEntry& entry = entries[state.entry];
      if (plan_.segments[entry.segment].kind != PassLevelKind::pass) {
        post(rank, entry);
      } else if (!run_pass(rank, entry)) {
        return;
      }
    }
  }

  // False: it waits for a transfer that has not happened.
  bool run_pass(std::size_t rank, const PassLevelEntry& entry) {
    RankState& state = ranks_[rank];
    if (entry.transfer >= 0) {
      const std::int32_t end = transfers_[static_cast<std::size_t>(entry.transfer)].end;
      if (end < 0) {
        state.awaits = entry.transfer;
        return false;
      }
      state.level = std::max(state.level, end);
    }
    ++state.level;
    add(state.level, {.kind = PassLevelEventKind::pass,
                      .segment = entry.segment,
                      .transfer = entry.transfer,
                      .rank = static_cast<std::int32_t>(rank)});
    return true;
  }

  void post(std::size_t rank, const PassLevelEntry& entry) {
    const PassLevelSegment& segment = plan_.segments[entry.segment];
    TransferState& transfer = transfers_[static_cast<std::size_t>(entry.transfer)];
    const std::size_t stream = rank * plan_.streams + segment.stream;
    const bool sends = segment.kind == PassLevelKind::send;
    (sends ? transfer.sender : transfer.receiver) = static_cast<std::int32_t>(stream);
    (sends ? transfer.sends : transfer.receives) = entry.segment;
    RankState& state = ranks_[rank];
    ++state.level;
    transfer.ready = std::max(transfer.ready, state.level);
    add(state.level, {.kind = PassLevelEventKind::first_end,
                      .transfer = entry.transfer,
                      .rank = static_cast<std::int32_t>(rank)});
    streams_[stream].posted.push_back(entry.transfer);
    changed_.push_back(stream);
    while (!changed_.empty()) {
      const std::size_t next = changed_.back();
      changed_.pop_back();
      begin_first(streams_[next]);
    }
  }

  // Lets the first transfer of a stream happen, if its other end is first there too.
  void begin_first(const StreamState& stream) {
    if (stream.head == stream.posted.size()) return;
    const std::int32_t number = stream.posted[stream.head];
    TransferState& transfer = transfers_[static_cast<std::size_t>(number)];
    if (transfer.sender < 0 || transfer.receiver < 0) return;
    StreamState& from = streams_[static_cast<std::size_t>(transfer.sender)];
    StreamState& to = streams_[static_cast<std::size_t>(transfer.receiver)];
    if (from.posted[from.head] != number || to.posted[to.head] != number) return;
    transfer.end = 1 + std::max({transfer.ready, from.level, to.level});
    from.level = to.level = transfer.end;
    add(transfer.end, {.kind = PassLevelEventKind::transfer,
                       .segment = transfer.sends,
                       .other = transfer.receives,
                       .transfer = number,
                       .from = transfer.sender,
                       .to = transfer.receiver});
    ++from.head;
    ++to.head;
    changed_.push_back(static_cast<std::size_t>(transfer.sender));
    changed_.push_back(static_cast<std::size_t>(transfer.receiver));
    const std::size_t receiver = static_cast<std::size_t>(transfer.receiver) / plan_.streams;
    if (ranks_[receiver].awaits != number) return;
    ranks_[receiver].awaits = -1;
    runnable_.push_back(receiver);
  }

  void add(std::int32_t level, const PassLevelEvent& event) { events_.push_back({level, event}); }

  std::vector<PassLevelEvent> by_level() {
    std::ranges::sort(events_, {}, [](const LeveledEvent& of) {
      return std::tuple(of.level, of.event.kind, of.event.rank, of.event.from);
    });
    std::vector<PassLevelEvent> events;
    events.reserve(events_.size());
    std::vector<bool> is_posted(transfers_.size(), false);
    for (const LeveledEvent& of : events_) {
      PassLevelEvent& event = events.emplace_back(of.event);
      if (event.kind != PassLevelEventKind::first_end) continue;
      if (is_posted[static_cast<std::size_t>(event.transfer)]) event.kind = PassLevelEventKind::second_end;
      is_posted[static_cast<std::size_t>(event.transfer)] = true;
    }
    return events;
  }

  const PassLevelPlan& plan_;
  std::vector<RankState> ranks_;
  std::vector<StreamState> streams_;  // by rank, then stream
  std::vector<TransferState> transfers_;
  std::vector<std::size_t> runnable_, changed_;  // ranks, streams
  std::vector<LeveledEvent> events_;
};

// A transfer that its second end lets begin becomes one event with it, where that end is posted.
std::vector<PassLevelEvent> with_joined_ends(std::vector<PassLevelEvent> events, const PassLevelPlan& plan) {
  std::vector<std::size_t> end_at(static_cast<std::size_t>(plan.transfers), 0);
  std::vector<std::size_t> free_from(plan.ranks.size() * plan.streams, 0);  // events behind its last transfer
  std::vector<bool> is_joined(events.size(), false);
  for (std::size_t i = 0; i < events.size(); ++i) {
    const PassLevelEvent& event = events[i];
    if (event.kind == PassLevelEventKind::second_end) end_at[static_cast<std::size_t>(event.transfer)] = i;
    if (event.kind != PassLevelEventKind::transfer) continue;
    const std::size_t posted = end_at[static_cast<std::size_t>(event.transfer)];
    std::size_t &from = free_from[static_cast<std::size_t>(event.from)],
                &to = free_from[static_cast<std::size_t>(event.to)];
    is_joined[i] = from <= posted && to <= posted;
    if (is_joined[i]) {
      const std::int32_t rank = events[posted].rank;
      events[posted] = event;
      events[posted].kind = PassLevelEventKind::last_end;
      events[posted].rank = rank;
    }
    from = to = 1 + (is_joined[i] ? posted : i);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < events.size(); ++i)
    if (!is_joined[i]) events[kept++] = events[i];
  events.resize(kept);
  return events;
}

// Transfers by their first events, so that those of a time are neighbours in memory.
void number_by_first_event(std::vector<PassLevelEvent>& events, std::int32_t transfers) {
  std::vector<std::int32_t> number(static_cast<std::size_t>(transfers), -1);
  std::int32_t next = 0;
  for (PassLevelEvent& event : events) {
    if (event.transfer < 0) continue;
    std::int32_t& of = number[static_cast<std::size_t>(event.transfer)];
    if (of < 0) of = next++;
    event.transfer = of;
  }
}

// ---- what repeats ----

bool are_alike(const PassLevelEvent& a, const PassLevelEvent& b) {
  return a.kind == b.kind && a.segment == b.segment && a.other == b.other && a.rank == b.rank &&
         a.from == b.from && a.to == b.to && (a.transfer < 0) == (b.transfer < 0);
}

// The run of periods of this length around the event in the middle; of none: `times` 0.
PassLevelPeriod run_of_periods(const std::vector<PassLevelEvent>& events, std::size_t middle,
                               std::size_t length) {
  std::optional<std::int32_t> shift;
  const auto repeats = [&](std::size_t at) {
    const PassLevelEvent &a = events[at], &b = events[at + length];
    if (!are_alike(a, b)) return false;
    if (a.transfer < 0) return true;
    if (!shift) shift = b.transfer - a.transfer;
    return *shift == b.transfer - a.transfer;
  };
  std::size_t begin = middle, end = middle;
  while (end + length < events.size() && repeats(end)) ++end;
  while (begin > 0 && repeats(begin - 1)) --begin;
  PassLevelPeriod period;
  period.begin = begin;
  period.length = length;
  period.times = end == begin ? 0 : (end - begin) / length + 1;
  period.shift = shift.value_or(0);
  return period;
}

// Of each transfer the events that it takes part in.
struct TransferEvents {
  std::size_t first = SIZE_MAX, over = SIZE_MAX, last = 0;
};

std::vector<TransferEvents> events_of_transfers(const std::vector<PassLevelEvent>& events,
                                                std::size_t count) {
  std::vector<TransferEvents> of(count);
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].transfer < 0) continue;
    TransferEvents& transfer = of[static_cast<std::size_t>(events[i].transfer)];
    transfer.first = std::min(transfer.first, i);
    transfer.last = i;
    if (events[i].kind == PassLevelEventKind::transfer || events[i].kind == PassLevelEventKind::last_end)
      transfer.over = i;
  }
  return of;
}

// Posted and not over, and over and still to be read, at the begin of one period.
struct TransfersBetween {
  std::vector<std::int32_t> posted, over;

  bool is_shifted(const TransfersBetween& other, std::int32_t by) const {
    const auto moved = [by](std::int32_t a, std::int32_t b) { return a + by == b; };
    return std::ranges::equal(posted, other.posted, moved) && std::ranges::equal(over, other.over, moved);
  }
};

std::vector<TransfersBetween> between_periods(const PassLevelPeriod& period,
                                              const std::vector<TransferEvents>& transfers) {
  std::vector<TransfersBetween> between(period.times + 1);
  const auto periods_begun = [&](std::size_t event) {  // periods that begin at the event or before
    return event < period.begin ? 0 : std::min((event - period.begin) / period.length + 1, period.times + 1);
  };
  for (std::size_t t = 0; t < transfers.size(); ++t) {
    const TransferEvents& of = transfers[t];
    if (of.first == SIZE_MAX) continue;
    for (std::size_t k = periods_begun(of.first); k < periods_begun(of.last); ++k)
      (period.begin + k * period.length <= of.over ? between[k].posted : between[k].over)
          .push_back(static_cast<std::int32_t>(t));
  }
  return between;
}

template <class Number>
void keep_once(std::vector<Number>& numbers) {
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

// Cuts the period's run to where the transfers between periods are shifted alike too.
void cut_to_like_boundaries(PassLevelPeriod& period, const std::vector<TransferEvents>& transfers) {
  const std::vector<TransfersBetween> between = between_periods(period, transfers);
  std::size_t best = 0, best_times = 0;
  for (std::size_t first = 0; first < between.size();) {
    std::size_t last = first;
    while (last + 1 < between.size() && between[last].is_shifted(between[last + 1], period.shift)) ++last;
    if (last - first > best_times) {
      best = first;
      best_times = last - first;
    }
    first = last + 1;
  }
  period.begin += best * period.length;
  period.times = best_times;
  period.posted = between[best].posted;
  period.over = between[best].over;
}

void note_what_moves(PassLevelPeriod& period, const PassLevelPlan& plan,
                     const std::vector<PassLevelEvent>& events) {
  std::vector<Picoseconds> earliest(plan.ranks.size(), 0);
  for (std::size_t i = period.begin; i < period.begin + period.length; ++i) {
    const PassLevelEvent& event = events[i];
    if (event.rank >= 0) period.ranks.push_back(event.rank);
    if (event.from >= 0) period.streams.insert(period.streams.end(), {event.from, event.to});
    if (event.kind != PassLevelEventKind::pass) continue;
    const PassLevelSegment& segment = plan.segments[event.segment];
    if (!segment.reductions.empty()) period.reducing.push_back(event.rank);
    Picoseconds& latest = earliest[static_cast<std::size_t>(event.rank)];
    latest = std::max(latest, segment.earliest_end);
  }
  keep_once(period.ranks);
  keep_once(period.streams);
  keep_once(period.reducing);
  for (const std::int32_t rank : period.ranks)
    period.earliest_ends.push_back(earliest[static_cast<std::size_t>(rank)]);
}

constexpr std::size_t fewest_repeats = 4;  // else there is little to skip
constexpr int most_lengths = 64;           // that are tried

// The shortest period that repeats around the middle, where a schedule is furthest from its begin and end.
PassLevelPeriod period_around_middle(const PassLevelPlan& plan, const std::vector<PassLevelEvent>& events) {
  const std::size_t middle = events.size() / 2;
  const std::vector<TransferEvents> transfers =
      events_of_transfers(events, static_cast<std::size_t>(plan.transfers));
  int tried = 0;
  for (std::size_t next = middle + 1; next < events.size() && tried < most_lengths; ++next) {
    const std::size_t length = next - middle;
    if (length * fewest_repeats > events.size()) break;
    if (!are_alike(events[middle], events[next])) continue;
    ++tried;
    PassLevelPeriod period = run_of_periods(events, middle, length);
    if (period.times < fewest_repeats) continue;
    cut_to_like_boundaries(period, transfers);
    if (period.times < fewest_repeats) continue;
    note_what_moves(period, plan, events);
    if (!period.ranks.empty()) return period;
  }
  return {};
}

}  // namespace

PassLevelOrder pass_level_order(const PassLevelPlan& plan) {
  PassLevelOrder order{with_joined_ends(EventOrderer(plan).events(), plan), {}};
  number_by_first_event(order.events, plan.transfers);
  order.period = period_around_middle(plan, order.events);
  return order;
}

}  // namespace simrun
