#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>

#include "sim/pass_level.h"

namespace simrun {
namespace {

constexpr Picoseconds not_known = -1;

// Runs the events of the passes. No time needs a start value of its own but those of ranks and streams: an
// end is posted, and a transfer over, before it is read.
class EventRunner {
 public:
  EventRunner(const PassLevelPlan& plan, const PassLevelOrder& order, PassLevelTimes& times)
      : plan_(plan), order_(order), times_(times) {
    std::ranges::fill(times.compute, 0);
    std::ranges::fill(times.streams, 0);
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank)
      times.reduced[rank] = plan.ranks[rank].gathered;
  }

  // Both return how many events they ran.
  std::size_t run_whole() { return run(0, order_.events.size()); }

  // What passes take may make the times repeat only every so many periods (a bubble goes round among the
  // ranks), and only after a while; so each boundary is compared with some of all before it.
  std::size_t run_and_skip() {
    const PassLevelPeriod& period = order_.period;
    std::size_t events = run(0, period.begin);
    std::vector<Boundary> earlier;
    std::uint64_t last_signature = 0;
    std::size_t k = 0;
    while (k < period.times) {
      events += run_period(k++);
      const std::uint64_t signature = signature_of_ranks();
      if (const std::optional<Repetition> found = repetition(earlier, signature, k)) {
        k = skip(*found, earlier);
        break;
      }
      keep_boundary(earlier, signature == last_signature, signature, k);
      last_signature = signature;
    }
    while (k < period.times) events += run_period(k++);
    return events + run(period.begin + period.times * period.length, order_.events.size());
  }

 private:
  // All that what follows reads of the periods before, in the order of PassLevelPeriod's lists.
  struct Boundary {
    std::size_t periods = 0;  // that lie before it
    std::uint64_t signature = 0;
    std::vector<Picoseconds> times;
  };
  // From the boundary `first` on, all times are those of so many periods before, later by `moved`.
  struct Repetition {
    const Boundary& first;
    std::size_t periods = 0;
    Picoseconds moved = 0;
  };

  std::optional<Repetition> repetition(const std::vector<Boundary>& earlier, std::uint64_t signature,
                                       std::size_t periods) const {
    std::optional<Boundary> now;
    for (const Boundary& before : earlier) {
      if (before.signature != signature) continue;
      if (!now) now = boundary(periods, signature);
      const Picoseconds moved = moved_by(before, *now);
      if (moved != not_known) return Repetition{before, periods - before.periods, moved};
    }
    return {};
  }

  // Of every so many periods and of any that moved all ranks alike; the last of those that look the same.
  void keep_boundary(std::vector<Boundary>& earlier, bool moved_alike, std::uint64_t signature,
                     std::size_t periods) const {
    constexpr std::size_t most_in_turn = 64, most = 2 * most_in_turn;
    if (const auto same = std::ranges::find(earlier, signature, &Boundary::signature);
        same != earlier.end()) {
      *same = boundary(periods, signature);
    } else if (earlier.size() < most &&
               (moved_alike ||
                (order_.period.times - periods) % (order_.period.times / most_in_turn + 1) == 0)) {
      earlier.push_back(boundary(periods, signature));
    }
  }

  // The same wherever the ranks' times from one another are the same; seldom elsewhere.
  std::uint64_t signature_of_ranks() const {
    const std::vector<std::int32_t>& ranks = order_.period.ranks;
    const Picoseconds first = times_.compute[static_cast<std::size_t>(ranks.front())];
    std::uint64_t sum = 0, weight = 1;
    for (const std::int32_t rank : ranks) {
      sum += weight * static_cast<std::uint64_t>(times_.compute[static_cast<std::size_t>(rank)] - first);
      weight += 0x9e3779b97f4a7c15U;  // 2^64 over the golden ratio
    }
    return sum;
  }

  template <class Visit>
  void visit_boundary(std::size_t periods, Visit visit) const {
    const PassLevelPeriod& period = order_.period;
    const auto visit_all = [&](const std::vector<std::int32_t>& which, std::vector<Picoseconds>& times,
                               std::size_t shifted) {
      for (const std::int32_t number : which) visit(times[static_cast<std::size_t>(number) + shifted]);
    };
    const std::size_t shifted = periods * static_cast<std::size_t>(period.shift);
    visit_all(period.ranks, times_.compute, 0);
    visit_all(period.streams, times_.streams, 0);
    visit_all(period.reducing, times_.reduced, 0);
    visit_all(period.posted, times_.posted, shifted);
    visit_all(period.over, times_.over, shifted);
  }

  Boundary boundary(std::size_t periods, std::uint64_t signature) const {
    const PassLevelPeriod& period = order_.period;
    Boundary at{periods, signature, {}};
    at.times.reserve(period.ranks.size() + period.streams.size() + period.reducing.size() +
                     period.posted.size() + period.over.size());
    visit_boundary(periods, [&](Picoseconds time) { at.times.push_back(time); });
    return at;
  }

  // By how much everything that the next period reads lies behind what one before began with; not_known if
  // not all of it by as much, or where a pass may have ended at its earliest, which does not move.
  Picoseconds moved_by(const Boundary& before, const Boundary& after) const {
    const std::vector<Picoseconds>& earliest = order_.period.earliest_ends;
    const Picoseconds moved = after.times.front() - before.times.front();
    const bool all = std::ranges::equal(
        before.times, after.times, [moved](Picoseconds from, Picoseconds to) { return to - from == moved; });
    const bool none_at_earliest = std::ranges::equal(
        earliest.begin(), earliest.end(), before.times.begin(),
        before.times.begin() + static_cast<std::ptrdiff_t>(earliest.size()), std::ranges::less_equal{});
    return all && none_at_earliest ? moved : not_known;
  }

  // To the boundary nearest the end that is one of those kept, later by whole repetitions. Returns how many
  // periods lie before it.
  std::size_t skip(const Repetition& repetition, const std::vector<Boundary>& kept) {
    const auto repetitions_from = [&](const Boundary& of) {
      return (order_.period.times - of.periods) / repetition.periods;
    };
    const auto end_from = [&](const Boundary& of) {
      return of.periods + repetitions_from(of) * repetition.periods;
    };
    const Boundary* nearest = &repetition.first;
    for (const Boundary& of : kept)
      if (of.periods > repetition.first.periods && end_from(of) > end_from(*nearest)) nearest = &of;
    const std::size_t repetitions = repetitions_from(*nearest), nearest_end = end_from(*nearest);
    const Picoseconds by = repetition.moved * static_cast<Picoseconds>(repetitions);
    const Picoseconds* time = nearest->times.data();
    visit_boundary(nearest_end, [&](Picoseconds& moved) { moved = *time++ + by; });
    return nearest_end;
  }

  // Periods are alike: all run the events of the first, which stay in the cache.
  std::size_t run_period(std::size_t number) {
    const PassLevelPeriod& period = order_.period;
    return run(period.begin, period.begin + period.length, number * static_cast<std::size_t>(period.shift));
  }

  // `shift`: of the numbers of transfers.
  std::size_t run(std::size_t begin, std::size_t end, std::size_t shift = 0) {
    posted_ = times_.posted.data() + shift;
    over_ = times_.over.data() + shift;
    for (std::size_t i = begin; i < end; ++i) {
      const PassLevelEvent& event = order_.events[i];
      switch (event.kind) {
        case PassLevelEventKind::pass: run_pass(event); break;
        case PassLevelEventKind::first_end: posted(event) = compute(event); break;
        case PassLevelEventKind::second_end: posted(event) = std::max(posted(event), compute(event)); break;
        case PassLevelEventKind::last_end: transfer(event, std::max(posted(event), compute(event))); break;
        case PassLevelEventKind::transfer: transfer(event, posted(event)); break;
      }
    }
    return end - begin;
  }

  void run_pass(const PassLevelEvent& event) {
    const PassLevelSegment& segment = plan_.segments[event.segment];
    Picoseconds& done = compute(event);
    const Picoseconds arrival = event.transfer < 0 ? 0 : over_[event.transfer];
    done = std::max(std::max(done + segment.before, arrival) + segment.behind, segment.earliest_end);
    Picoseconds& reduced = times_.reduced[static_cast<std::size_t>(event.rank)];
    for (const PassReduction& reduction : segment.reductions)
      reduced = std::max(reduced, done - reduction.before_end) + reduction.duration;
  }

  void transfer(const PassLevelEvent& event, Picoseconds ready) {
    Picoseconds &from = stream(event.from), &to = stream(event.to);
    const Picoseconds duration =
        std::max(plan_.segments[event.segment].behind, plan_.segments[event.other].behind);
    from = to = over_[event.transfer] = std::max({ready, from, to}) + duration;
  }

  Picoseconds& compute(const PassLevelEvent& event) const {
    return times_.compute[static_cast<std::size_t>(event.rank)];
  }
  Picoseconds& posted(const PassLevelEvent& event) const { return posted_[event.transfer]; }
  Picoseconds& stream(std::int32_t number) const { return times_.streams[static_cast<std::size_t>(number)]; }

  const PassLevelPlan& plan_;
  const PassLevelOrder& order_;
  PassLevelTimes& times_;
  Picoseconds *posted_ = nullptr, *over_ = nullptr;  // of the transfers that events call their first
};

// What follows behind the last pass of each rank.
class StepEndRunner {
 public:
  StepEndRunner(const PassLevelPlan& plan, const PassLevelTimes& times)
      : plan_(plan), ranks_(plan.ranks.size()), meetings_(plan.meetings.size()) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) begin(rank, times);
  }

  Picoseconds run() {
    std::vector<bool> at_meeting(ranks_.size(), false);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        const std::vector<PassLevelEndStep>& steps = plan_.ranks[rank].end;
        RankState& state = ranks_[rank];
        for (; state.step < steps.size(); ++state.step) {
          const bool is_over = run_step(steps[state.step], state, !at_meeting[rank]);
          moved = moved || is_over || !at_meeting[rank];
          at_meeting[rank] = !is_over;
          if (!is_over) break;
        }
      }
    }
    Picoseconds end = 0;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].step < plan_.ranks[rank].end.size())
        throw std::runtime_error("the ranks of a pipeline wait for each other behind their passes");
      end = std::max(end, *std::ranges::max_element(ranks_[rank].tails));
    }
    return end;
  }

 private:
  struct RankState {
    std::size_t step = 0;
    std::vector<Picoseconds> tails, results;
  };
  struct Meeting {
    std::int32_t arrived = 0;
    Picoseconds ready = 0, duration = 0, end = not_known;
  };

  void begin(std::size_t rank, const PassLevelTimes& times) {
    const PassLevelRank& code = plan_.ranks[rank];
    RankState& state = ranks_[rank];
    const auto first = times.streams.begin() + static_cast<std::ptrdiff_t>(rank * plan_.streams);
    state.tails.assign(first, first + plan_.streams);
    state.tails[compute_stream] = times.compute[rank];
    state.tails[plan_.reducing_stream] = std::max(state.tails[plan_.reducing_stream], times.reduced[rank]);
    state.results.assign(static_cast<std::size_t>(code.results), 0);
    for (std::size_t r = 0; r < code.from_reductions.size(); ++r)
      if (code.from_reductions[r]) state.results[r] = times.reduced[rank];
  }

  // False: at a meeting where others lack.
  bool run_step(const PassLevelEndStep& step, RankState& state, bool is_new) {
    Picoseconds ready = std::max(state.tails[step.stream], state.tails[compute_stream]);
    for (const std::int32_t read : step.reads)
      ready = std::max(ready, state.results[static_cast<std::size_t>(read)]);
    Picoseconds end = ready + step.duration;
    if (step.meeting >= 0) {
      Meeting& meeting = meetings_[static_cast<std::size_t>(step.meeting)];
      if (is_new) {
        meeting.ready = std::max(meeting.ready, ready);
        meeting.duration = std::max(meeting.duration, step.duration);
        if (++meeting.arrived == plan_.meetings[static_cast<std::size_t>(step.meeting)])
          meeting.end = meeting.ready + meeting.duration;
      }
      if (meeting.end == not_known) return false;
      end = meeting.end;
    }
    state.tails[step.stream] = end;
    for (const std::int32_t write : step.writes) state.results[static_cast<std::size_t>(write)] = end;
    return true;
  }

  const PassLevelPlan& plan_;
  std::vector<RankState> ranks_;
  std::vector<Meeting> meetings_;
};

// Of the fullest rank; what a rank holds hangs on the order of its entries alone.
std::int64_t peak_bytes_of(const PassLevelPlan& plan) {
  std::int64_t fullest = 0;
  for (const PassLevelRank& rank : plan.ranks) {
    std::int64_t live = 0, peak = 0;
    for (const PassLevelEntry& entry : rank.entries) {
      peak = std::max(peak, live + plan.segments[entry.segment].peak_bytes);
      live += plan.segments[entry.segment].net_bytes;
    }
    fullest = std::max(fullest, rank.start_bytes + std::max(peak, live + rank.end_peak_bytes));
  }
  return fullest;
}

}  // namespace

PassLevelEngine::PassLevelEngine(PassLevelPlan plan)
    : plan_(std::move(plan)), order_(pass_level_order(plan_)), peak_bytes_(peak_bytes_of(plan_)) {
  times_.compute.resize(plan_.ranks.size());
  times_.reduced.resize(plan_.ranks.size());
  times_.streams.resize(plan_.ranks.size() * plan_.streams);
  times_.posted.resize(static_cast<std::size_t>(plan_.transfers));
  times_.over.resize(static_cast<std::size_t>(plan_.transfers));
}

PassLevelRun PassLevelEngine::run() {
  const std::size_t events = EventRunner(plan_, order_, times_).run_and_skip();
  return {StepEndRunner(plan_, times_).run(), peak_bytes_, events};
}

PassLevelRun PassLevelEngine::run_whole() {
  const std::size_t events = EventRunner(plan_, order_, times_).run_whole();
  return {StepEndRunner(plan_, times_).run(), peak_bytes_, events};
}

}  // namespace simrun
