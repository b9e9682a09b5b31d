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

  std::size_t run_and_skip() {
    const PassLevelPeriod& period = order_.period;
    std::size_t at = period.begin;
    std::size_t events = run(0, at);
    std::vector<Picoseconds> compute;
    std::optional<Boundary> before;
    for (std::size_t k = 0; k < period.times; ++k) {
      compute = times_.compute;
      events += run(at, at + period.length);
      at += period.length;
      if (!ranks_moved_alike(compute)) {
        before.reset();
        continue;
      }
      Boundary after = boundary(k + 1);
      if (const Picoseconds moved = before ? moved_by(*before, after) : not_known; moved != not_known) {
        skip(moved, k + 1);
        at = period.begin + period.times * period.length;
        break;
      }
      before = std::move(after);
    }
    return events + run(at, order_.events.size());
  }

 private:
  // What a period reads of those before it, in the order of PassLevelPeriod's lists.
  struct Boundary {
    std::vector<Picoseconds> compute, others;
  };

  Boundary boundary(std::size_t periods) const {
    const PassLevelPeriod& period = order_.period;
    Boundary at;
    const auto append = [](const std::vector<std::int32_t>& which, const std::vector<Picoseconds>& times,
                           std::size_t shifted, std::vector<Picoseconds>& to) {
      for (const std::int32_t number : which) to.push_back(times[static_cast<std::size_t>(number) + shifted]);
    };
    const std::size_t shifted = periods * static_cast<std::size_t>(period.shift);
    append(period.ranks, times_.compute, 0, at.compute);
    append(period.streams, times_.streams, 0, at.others);
    append(period.reducing, times_.reduced, 0, at.others);
    append(period.posted, times_.posted, shifted, at.others);
    append(period.over, times_.over, shifted, at.others);
    return at;
  }

  std::size_t run(std::size_t begin, std::size_t end) {
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
    const Picoseconds arrival =
        event.transfer < 0 ? 0 : times_.over[static_cast<std::size_t>(event.transfer)];
    done = std::max(std::max(done + segment.before, arrival) + segment.behind, segment.earliest_end);
    Picoseconds& reduced = times_.reduced[static_cast<std::size_t>(event.rank)];
    for (const PassReduction& reduction : segment.reductions)
      reduced = std::max(reduced, done - reduction.before_end) + reduction.duration;
  }

  void transfer(const PassLevelEvent& event, Picoseconds ready) {
    Picoseconds &from = stream(event.from), &to = stream(event.to);
    const Picoseconds duration =
        std::max(plan_.segments[event.segment].behind, plan_.segments[event.other].behind);
    from = to = times_.over[static_cast<std::size_t>(event.transfer)] =
        std::max({ready, from, to}) + duration;
  }

  Picoseconds& compute(const PassLevelEvent& event) const {
    return times_.compute[static_cast<std::size_t>(event.rank)];
  }
  Picoseconds& posted(const PassLevelEvent& event) const {
    return times_.posted[static_cast<std::size_t>(event.transfer)];
  }
  Picoseconds& stream(std::int32_t number) const { return times_.streams[static_cast<std::size_t>(number)]; }

  // Seldom enough to look at the rest only then.
  bool ranks_moved_alike(const std::vector<Picoseconds>& before) const {
    const std::vector<std::int32_t>& ranks = order_.period.ranks;
    const auto moved = [&](std::int32_t rank) {
      return times_.compute[static_cast<std::size_t>(rank)] - before[static_cast<std::size_t>(rank)];
    };
    return std::ranges::all_of(ranks, [&](std::int32_t rank) { return moved(rank) == moved(ranks.front()); });
  }

  // By how much everything that the next period reads lies behind what the last one began with; not_known if
  // not all of it by as much, or where a pass may have ended at its earliest, which does not move.
  Picoseconds moved_by(const Boundary& before, const Boundary& after) const {
    const std::vector<Picoseconds>& earliest = order_.period.earliest_ends;
    const Picoseconds moved = after.compute.front() - before.compute.front();
    const auto by_as_much = [moved](Picoseconds from, Picoseconds to) { return to - from == moved; };
    const bool all = std::ranges::equal(before.compute, after.compute, by_as_much) &&
                     std::ranges::equal(before.others, after.others, by_as_much) &&
                     std::ranges::equal(earliest, before.compute, std::ranges::less_equal{});
    return all ? moved : not_known;
  }

  // To the end of the last period: every period is the one before it, later by `moved`.
  void skip(Picoseconds moved, std::size_t periods) {
    const PassLevelPeriod& period = order_.period;
    const std::size_t left = period.times - periods;
    const Picoseconds by = moved * static_cast<Picoseconds>(left);
    const auto move = [by](const std::vector<std::int32_t>& which, std::vector<Picoseconds>& times) {
      for (const std::int32_t number : which) times[static_cast<std::size_t>(number)] += by;
    };
    move(period.ranks, times_.compute);
    move(period.streams, times_.streams);
    move(period.reducing, times_.reduced);
    const auto shift = static_cast<std::size_t>(period.shift);
    const auto move_on = [&](const std::vector<std::int32_t>& which, std::vector<Picoseconds>& times) {
      for (const std::int32_t number : which) {
        const std::size_t at = static_cast<std::size_t>(number) + periods * shift;
        times[at + left * shift] = times[at] + by;
      }
    };
    move_on(period.posted, times_.posted);
    move_on(period.over, times_.over);
  }

  const PassLevelPlan& plan_;
  const PassLevelOrder& order_;
  PassLevelTimes& times_;
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
