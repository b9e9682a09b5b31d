#include "sim/fast_engine.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "sim/deadlock.h"
#include "sim/rank_state.h"

namespace simrun {

namespace {

template <Detail detail>
class Engine {
 public:
  Engine(const Plan& plan, const CompiledPlan& compiled)
      : plan_(plan),
        compiled_(compiled),
        rendezvous_(compiled.rendezvous),
        ranks_(compiled.ranks.size(), RankState(plan.streams)) {
    run_.ranks.resize(ranks_.size());
    run_.issue_times.resize(ranks_.size());
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].slots.resize(compiled.ranks[r].slots);
      run_.ranks[r].pipeline_rank = plan.programs[r].pipeline_rank;
      prepare_records(r);
    }
    rank_by_pipeline_rank_.assign(plan.stages.size(), no_index);
    for (Index r = 0; r < ranks_.size(); ++r)
      rank_by_pipeline_rank_.at(static_cast<std::size_t>(plan.programs[r].pipeline_rank)) = r;
  }

  EngineRun run() {
    for (std::size_t r = ranks_.size(); r-- > 0;) runnable_.push_back(static_cast<Index>(r));
    while (!runnable_.empty()) {
      const Index rank = runnable_.back();
      runnable_.pop_back();
      advance(rank);
    }
    if (std::any_of(ranks_.begin(), ranks_.end(), [](const RankState& rank) { return !rank.finished; }))
      throw_deadlock(plan_, compiled_, ranks_);
    finish();
    return std::move(run_);
  }

 private:
  void prepare_records(std::size_t r) {
    const CompiledRank& code = compiled_.ranks[r];
    std::vector<std::size_t> by_stream(plan_.streams.size(), 0);
    std::vector<std::vector<std::size_t>> by_segment(code.segments.size(), by_stream);
    for (std::size_t s = 0; s < code.segments.size(); ++s)
      for (Index i = 0; i < code.segments[s].steps; ++i)
        ++by_segment[s][code.steps[code.segments[s].first_step + i].stream];
    for (const CompiledEntry& entry : code.entries) {
      run_.instructions += code.segments[entry.segment].steps;
      run_.communications += code.segments[entry.segment].communications;
      if constexpr (detail == Detail::instructions)
        for (std::size_t s = 0; s < by_stream.size(); ++s) by_stream[s] += by_segment[entry.segment][s];
    }
    if constexpr (detail != Detail::totals) run_.issue_times[r].resize(plan_.programs[r].entries.size());
    if constexpr (detail == Detail::instructions) {
      for (std::size_t s = 0; s < by_stream.size(); ++s) {
        run_.ranks[r].lanes.push_back({static_cast<std::uint8_t>(s), {}});
        run_.ranks[r].lanes.back().intervals.reserve(by_stream[s]);
      }
    }
  }

  // Runs a rank until it finishes or is parked.
  void advance(Index r) {
    const CompiledRank& code = compiled_.ranks[r];
    RankState& rank = ranks_[r];
    rank.parked_on = no_index;
    for (; rank.entry < code.entries.size(); ++rank.entry, rank.step = 0) {
      const CompiledEntry& entry = code.entries[rank.entry];
      const CompiledSegment& segment = code.segments[entry.segment];
      if (rank.step == 0) begin_entry(r, entry);
      if (!advance_entry(r, segment)) return;
      rank.accounting.add_compute(segment.compute);
      end_entry(r, entry, segment);
    }
    for (std::size_t s = 1; s < rank.streams.size(); ++s)
      if (!settle(r, static_cast<std::uint8_t>(s))) return;
    rank.finished = true;
  }

  void begin_entry(Index r, const CompiledEntry& entry) {
    RankState& rank = ranks_[r];
    rank.selectors[1] = 0;
    for (Index b = 0; b < entry.bindings; ++b)
      rank.selectors[1 + 2 * b] = compiled_.ranks[r].instances[entry.first_binding + b];
    if constexpr (detail != Detail::totals) run_.issue_times[r][entry.entry].begin = rank.compute_tail;
  }

  void end_entry(Index r, const CompiledEntry& entry, const CompiledSegment& segment) {
    if constexpr (detail != Detail::totals) {
      RankState& rank = ranks_[r];
      run_.issue_times[r][entry.entry].end = rank.compute_tail;
      if (segment.first_compute != no_index)
        run_.ranks[r].passes.push_back({rank.pass_start, rank.compute_tail - rank.pass_start, entry.entry});
    }
  }

  bool advance_entry(Index r, const CompiledSegment& segment) {
    RankState& rank = ranks_[r];
    const CompiledStep* const steps = compiled_.ranks[r].steps.data() + segment.first_step;
    Picoseconds tail = rank.compute_tail;
    for (Index i = rank.step; i < segment.steps; ++i) {
      const CompiledStep& step = steps[i];
      if (step.stream != compute_stream || step.reads > 0) {
        rank.compute_tail = tail;
        rank.step = i;
        if (!(step.stream == compute_stream ? wait_for_inputs(r, segment, step) : issue(r, step)))
          return false;
        tail = rank.compute_tail;
        if (step.stream != compute_stream) continue;
      }
      if constexpr (detail != Detail::totals)
        if (i == segment.first_compute) rank.pass_start = tail;
      if constexpr (detail == Detail::instructions)
        record(r, compute_stream, {tail, step.duration, 0, 0, step.instruction});
      tail += step.duration;
    }
    rank.compute_tail = tail;
    rank.step = segment.steps;
    return true;
  }

  void record(Index r, std::uint8_t stream, Interval interval) {
    if (stream == compute_stream) interval.entry = compiled_.ranks[r].entries[ranks_[r].entry].entry;
    run_.ranks[r].lanes[stream].intervals.push_back(interval);
  }

  bool park(Index r, Index rendezvous) {
    ranks_[r].parked_on = rendezvous;
    return false;
  }

  // If the last instruction of a stream is an exchange, its times; parks the rank if they are not known yet.
  bool settle(Index r, std::uint8_t stream) {
    StreamState& state = ranks_[r].streams[stream];
    if (state.pending == no_index) return true;
    const Rendezvous& exchange = rendezvous_[state.pending];
    if (!exchange.complete) return park(r, state.pending);
    state.pending = no_index;
    state.tail = exchange.end();
    ranks_[r].accounting.add_flight(stream, {exchange.start(), exchange.end()}, ranks_[r].compute_tail);
    if constexpr (detail == Detail::instructions)
      record(r, stream,
             {exchange.start(), exchange.duration, exchange.start() - state.ready, state.entry,
              state.instruction});
    return true;
  }

  // When everything that the step reads is written; -1 if the rank is parked. Fills `needed`.
  Picoseconds inputs_ready(Index r, const CompiledStep& step) {
    RankState& rank = ranks_[r];
    const SlotReference* reference = compiled_.ranks[r].references.data() + step.first_read;
    Picoseconds ready = rank.compute_tail;
    rank.needed.clear();
    for (Index i = 0; i < step.reads; ++i, ++reference) {
      Slot& slot = rank.slots[reference->base + rank.selectors[reference->selector]];
      if (slot.pending != no_index) {
        const Rendezvous& exchange = rendezvous_[slot.pending];
        if (!exchange.complete) {
          park(r, slot.pending);
          return -1;
        }
        slot.end = exchange.end();
        if (slot.pipeline_arrival) slot.p2p = {exchange.start(), exchange.end()};
        slot.pending = no_index;
      }
      ready = std::max(ready, slot.end);
      if (slot.p2p.end > 0) rank.needed.push_back(slot.p2p);
    }
    return ready;
  }

  BubbleCause cause(Index r, const CompiledSegment& segment) const {
    const CompiledRank& code = compiled_.ranks[r];
    const RankState& rank = ranks_[r];
    const bool first_compute = rank.entry == code.first_backward && rank.step <= segment.first_compute;
    if (rank.entry < code.first_backward || first_compute) {
      const bool forwards_left = code.last_forward != no_index && rank.entry <= code.last_forward;
      if (code.first_backward != no_index || forwards_left) return BubbleCause::warm_up;
    }
    return code.last_forward == no_index || rank.entry > code.last_forward ? BubbleCause::drain
                                                                           : BubbleCause::imbalance;
  }

  // A compute instruction with inputs from other streams: moves the compute tail to when they are written and
  // accounts for the gap.
  bool wait_for_inputs(Index r, const CompiledSegment& segment, const CompiledStep& step) {
    RankState& rank = ranks_[r];
    const Picoseconds ready = inputs_ready(r, step);
    if (ready < 0) return false;
    if (ready == rank.compute_tail) return true;
    // What was in flight must be known before the gap can be divided.
    for (std::size_t s = 1; s < rank.streams.size(); ++s)
      if (!settle(r, static_cast<std::uint8_t>(s))) return false;
    rank.accounting.add_gap({rank.compute_tail, ready}, rank.needed, cause(r, segment));
    rank.compute_tail = ready;
    return true;
  }

  // An instruction of any other stream.
  bool issue(Index r, const CompiledStep& step) {
    RankState& rank = ranks_[r];
    if (!settle(r, step.stream)) return false;
    StreamState& stream = rank.streams[step.stream];
    Picoseconds ready = inputs_ready(r, step);
    if (ready < 0) return false;
    ready = std::max(ready, stream.tail);
    if (step.channel == no_index) {
      stream.tail = ready + step.duration;
      rank.accounting.add_flight(step.stream, {ready, stream.tail}, rank.compute_tail);
      if constexpr (detail == Detail::instructions)
        record(r, step.stream, {ready, step.duration, 0, plan_entry(r), step.instruction});
    } else {
      stream.pending = arrive(step, rank, ready);
      stream.ready = ready;
      stream.entry = plan_entry(r);
      stream.instruction = step.instruction;
    }
    write_slots(r, step);
    return true;
  }

  Index plan_entry(Index r) const { return compiled_.ranks[r].entries[ranks_[r].entry].entry; }

  void write_slots(Index r, const CompiledStep& step) {
    RankState& rank = ranks_[r];
    const StreamState& stream = rank.streams[step.stream];
    Slot written{
        .end = stream.tail, .p2p = {}, .pending = stream.pending, .pipeline_arrival = step.pipeline_arrival};
    if (step.pipeline_arrival) {
      if (stream.pending == no_index) written.p2p = {stream.tail - step.duration, stream.tail};
    } else {
      // Data that came over the pipeline carries its transfer along, the latest of several.
      for (const Span& span : rank.needed)
        if (std::pair(span.end, span.start) > std::pair(written.p2p.end, written.p2p.start))
          written.p2p = span;
    }
    const SlotReference* reference = compiled_.ranks[r].references.data() + step.first_write;
    for (Index i = 0; i < step.writes; ++i, ++reference)
      rank.slots[reference->base + rank.selectors[reference->selector]] = written;
  }

  // One end of an exchange is ready. Wakes whoever waited for its completion.
  Index arrive(const CompiledStep& step, const RankState& rank, Picoseconds ready) {
    const Channel& channel = compiled_.channels[step.channel];
    const Index index = channel.first_rendezvous + rank.selectors[1 + 2 * step.binding];
    Rendezvous& exchange = rendezvous_[index];
    if (exchange.complete) throw_posted_twice(plan_, channel);
    exchange.ready = std::max(exchange.ready, ready);
    exchange.duration = std::max(exchange.duration, step.duration);
    exchange.complete = ++exchange.arrived == channel.expected;
    if (!exchange.complete) return index;
    for (const std::int32_t pipeline_rank : channel.pipeline_ranks) {
      const Index other = rank_by_pipeline_rank_[static_cast<std::size_t>(pipeline_rank)];
      if (ranks_[other].parked_on == index) runnable_.push_back(other);
    }
    return index;
  }

  // What remains of each rank's step after its last compute instruction.
  void finish() {
    for (const RankState& rank : ranks_) {
      run_.step = std::max(run_.step, rank.compute_tail);
      for (const StreamState& stream : rank.streams) run_.step = std::max(run_.step, stream.tail);
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      RankState& rank = ranks_[r];
      if (rank.compute_tail < run_.step)
        rank.accounting.add_gap({rank.compute_tail, run_.step}, {}, BubbleCause::drain);
      const RankTotals& totals = rank.accounting.totals();
      assert(totals.compute + totals.exposed_total() + totals.bubble_total() == run_.step &&
             "a rank's step is not all compute, exposed or bubble");
      run_.ranks[r].totals = totals;
    }
  }

  const Plan& plan_;
  const CompiledPlan& compiled_;
  std::vector<Rendezvous> rendezvous_;
  std::vector<RankState> ranks_;
  std::vector<Index> rank_by_pipeline_rank_;
  std::vector<Index> runnable_;
  EngineRun run_;
};

}  // namespace

EngineRun run_engine(const Plan& plan, const CompiledPlan& compiled, Detail detail) {
  switch (detail) {
    case Detail::totals: return Engine<Detail::totals>(plan, compiled).run();
    case Detail::passes: return Engine<Detail::passes>(plan, compiled).run();
    case Detail::instructions: break;
  }
  return Engine<Detail::instructions>(plan, compiled).run();
}

}  // namespace simrun
