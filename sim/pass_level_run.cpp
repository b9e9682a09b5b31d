#include <algorithm>
#include <stdexcept>

#include "sim/pass_level.h"

namespace simrun {
namespace {

constexpr Picoseconds not_known = -1;

// Both ends of a transfer.
struct PassTransfer {
  std::int32_t sender = -1, receiver = -1;  // ends that are posted, as numbers of streams over all ranks
  Picoseconds ready = 0, duration = 0, end = not_known;
};

// Ends of transfers that were posted and are not over, first in first out.
struct PassTransferStream {
  std::vector<std::int32_t> posted;
  std::size_t head = 0;
  Picoseconds tail = 0;
  bool empty() const { return head == posted.size(); }
};

struct PassRankState {
  std::size_t entry = 0;
  Picoseconds compute = 0, reduced = 0;  // when the compute stream and the reducing one are done
  std::int32_t awaits = -1;
  std::int64_t live = 0, peak = 0;
  // Of the step's end.
  std::size_t end_step = 0;
  std::vector<Picoseconds> tails, results;
};

class PassLevelRunner {
 public:
  explicit PassLevelRunner(const PassLevelPlan& plan)
      : plan_(plan),
        ranks_(plan.ranks.size()),
        streams_(plan.ranks.size() * plan.streams),
        transfers_(static_cast<std::size_t>(plan.transfers)) {}

  PassLevelRun run() {
    for (std::size_t rank = ranks_.size(); rank-- > 0;) {
      ranks_[rank].reduced = plan_.ranks[rank].gathered;
      runnable_.push_back(rank);
    }
    while (!runnable_.empty()) {
      const std::size_t rank = runnable_.back();
      runnable_.pop_back();
      advance(rank);
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].entry < plan_.ranks[rank].entries.size())
        throw std::runtime_error("the ranks of a pipeline wait for each other");
    end_step();
    return result();
  }

 private:
  void advance(std::size_t rank) {
    const PassLevelRank& code = plan_.ranks[rank];
    PassRankState& state = ranks_[rank];
    for (; state.entry < code.entries.size(); ++state.entry) {
      const PassLevelEntry& entry = code.entries[state.entry];
      const PassLevelSegment& segment = plan_.segments[entry.segment];
      if (segment.kind != PassLevelKind::pass) {
        post(rank, entry.transfer, segment);
      } else if (!run_pass(state, entry, segment)) {
        return;
      }
      state.peak = std::max(state.peak, state.live + segment.peak_bytes);
      state.live += segment.net_bytes;
    }
  }

  // False: it waits for a transfer of which the end is not known.
  bool run_pass(PassRankState& state, const PassLevelEntry& entry, const PassLevelSegment& segment) {
    Picoseconds arrival = 0;
    if (entry.transfer >= 0) {
      arrival = transfers_[static_cast<std::size_t>(entry.transfer)].end;
      if (arrival == not_known) {
        state.awaits = entry.transfer;
        return false;
      }
    }
    state.compute =
        std::max(std::max(state.compute + segment.before, arrival) + segment.behind, segment.earliest_end);
    for (const PassReduction& reduction : segment.reductions)
      state.reduced = std::max(state.reduced, state.compute - reduction.before_end) + reduction.duration;
    return true;
  }

  void post(std::size_t rank, std::int32_t number, const PassLevelSegment& segment) {
    PassTransfer& transfer = transfers_[static_cast<std::size_t>(number)];
    const std::size_t stream = rank * plan_.streams + segment.stream;
    (segment.kind == PassLevelKind::send ? transfer.sender : transfer.receiver) =
        static_cast<std::int32_t>(stream);
    transfer.ready = std::max(transfer.ready, ranks_[rank].compute);
    transfer.duration = std::max(transfer.duration, segment.behind);
    streams_[stream].posted.push_back(number);
    changed_.push_back(stream);
    while (!changed_.empty()) {
      const std::size_t next = changed_.back();
      changed_.pop_back();
      begin_first(streams_[next]);
    }
  }

  // Lets the first transfer of a stream happen, if its other end is first there too.
  void begin_first(const PassTransferStream& stream) {
    if (stream.empty()) return;
    const std::int32_t number = stream.posted[stream.head];
    PassTransfer& transfer = transfers_[static_cast<std::size_t>(number)];
    if (transfer.sender < 0 || transfer.receiver < 0) return;
    PassTransferStream& from = streams_[static_cast<std::size_t>(transfer.sender)];
    PassTransferStream& to = streams_[static_cast<std::size_t>(transfer.receiver)];
    if (from.posted[from.head] != number || to.posted[to.head] != number) return;
    transfer.end = std::max({transfer.ready, from.tail, to.tail}) + transfer.duration;
    from.tail = to.tail = transfer.end;
    ++from.head;
    ++to.head;
    changed_.push_back(static_cast<std::size_t>(transfer.sender));
    changed_.push_back(static_cast<std::size_t>(transfer.receiver));
    const std::size_t receiver = static_cast<std::size_t>(transfer.receiver) / plan_.streams;
    if (ranks_[receiver].awaits != number) return;
    ranks_[receiver].awaits = -1;
    runnable_.push_back(receiver);
  }

  // ---- behind the last pass ----

  struct PassMeeting {
    std::int32_t arrived = 0;
    Picoseconds ready = 0, duration = 0, end = not_known;
  };

  void begin_end(std::size_t rank) {
    const PassLevelRank& code = plan_.ranks[rank];
    PassRankState& state = ranks_[rank];
    state.tails.assign(plan_.streams, 0);
    for (std::size_t s = 0; s < plan_.streams; ++s) state.tails[s] = streams_[rank * plan_.streams + s].tail;
    state.tails[compute_stream] = state.compute;
    state.tails[plan_.reducing_stream] = std::max(state.tails[plan_.reducing_stream], state.reduced);
    state.results.assign(static_cast<std::size_t>(code.results), 0);
    for (std::size_t r = 0; r < code.from_reductions.size(); ++r)
      if (code.from_reductions[r]) state.results[r] = state.reduced;
  }

  // False: at a meeting where others lack.
  bool run_end_step(const PassLevelEndStep& step, PassRankState& state, bool is_new) {
    Picoseconds ready = std::max(state.tails[step.stream], state.tails[compute_stream]);
    for (const std::int32_t read : step.reads)
      ready = std::max(ready, state.results[static_cast<std::size_t>(read)]);
    Picoseconds end = ready + step.duration;
    if (step.meeting >= 0) {
      PassMeeting& meeting = meetings_[static_cast<std::size_t>(step.meeting)];
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

  void end_step() {
    meetings_.resize(plan_.meetings.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) begin_end(rank);
    std::vector<bool> at_meeting(ranks_.size(), false);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        const std::vector<PassLevelEndStep>& steps = plan_.ranks[rank].end;
        PassRankState& state = ranks_[rank];
        for (; state.end_step < steps.size(); ++state.end_step) {
          const bool is_over = run_end_step(steps[state.end_step], state, !at_meeting[rank]);
          moved = moved || is_over || !at_meeting[rank];
          at_meeting[rank] = !is_over;
          if (!is_over) break;
        }
      }
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].end_step < plan_.ranks[rank].end.size())
        throw std::runtime_error("the ranks of a pipeline wait for each other behind their passes");
  }

  PassLevelRun result() const {
    PassLevelRun run;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const PassRankState& state = ranks_[rank];
      const PassLevelRank& code = plan_.ranks[rank];
      run.step = std::max(run.step, *std::ranges::max_element(state.tails));
      run.peak_bytes =
          std::max(run.peak_bytes, code.start_bytes + std::max(state.peak, state.live + code.end_peak_bytes));
    }
    return run;
  }

  const PassLevelPlan& plan_;
  std::vector<PassRankState> ranks_;
  std::vector<PassTransferStream> streams_;  // by rank, then stream
  std::vector<PassTransfer> transfers_;
  std::vector<PassMeeting> meetings_;
  std::vector<std::size_t> runnable_;  // ranks
  std::vector<std::size_t> changed_;   // streams
};

}  // namespace

PassLevelRun run_pass_level(const PassLevelPlan& plan) { return PassLevelRunner(plan).run(); }

}  // namespace simrun
