#pragma once

#include <algorithm>
#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

struct Span {
  Picoseconds start = 0, end = 0;
};

// Splits one rank's time into compute, exposed communication and bubble while the rank advances, and counts
// what compute hid.
//
// A gap in the compute stream counts, in this order of preference, as exposed tensor, context, expert, data,
// offload or (kernels of other devices) compute traffic in flight; then as p2p while a pipeline transfer that
// the next compute needs is in flight; then as imbalance while a collective waits for members that have more
// to do; what is left is the cause that the caller names. Time in flight that compute covers is hidden; it is
// summed over streams.
class Accounting {
 public:
  explicit Accounting(const std::vector<Stream>& streams);

  // A transfer or other work of a stream that is not compute. Per stream in order of time. No gap that is
  // yet to be added will begin before `now`.
  void add_flight(std::uint8_t stream, Span span, Picoseconds now) {
    if (span.end == span.start) return;
    if (defers()) now = std::min(now, deferred_[first_deferred_].span.start);
    StreamFlights& flights = streams_[stream];
    totals_.hidden[static_cast<std::size_t>(flights.traffic)] += span.end - span.start;
    flights.add(span, now);
    landed_[stream] = std::max(landed_[stream], span.end);
  }

  // A collective of the stream waited for members that had more to do. As add_flight().
  void add_wait(std::uint8_t stream, Span span, Picoseconds now) {
    if (span.end == span.start) return;
    if (defers()) now = std::min(now, deferred_[first_deferred_].span.start);
    waits_.resize(streams_.size());
    waits_[stream].add(span, now);
  }

  // What a gap waits for before it can be divided: `issued` operations had been issued when it ended; the
  // oldest that has not ended is `outstanding` (no_index: none).
  struct Progress {
    Index issued = 0, outstanding = no_index;
  };

  // The compute stream was idle from gap.start to gap.end. Gaps come in order of time. `needed`: pipeline
  // transfers to this rank that its next compute instruction needs. A gap is put off while an operation is
  // in flight whose end is not known.
  void add_gap(Span gap, const std::vector<Span>& needed, BubbleCause cause, Progress progress) {
    if (!defers() && progress.issued <= progress.outstanding) return divide(gap, needed, cause);
    if (last_deferred_ == deferred_.size()) deferred_.emplace_back();
    deferred_[last_deferred_++].assign(gap, needed, cause, progress.issued);
    settle(progress.outstanding);
  }
  bool defers() const { return first_deferred_ < last_deferred_; }

  // Divides the gaps that were put off and before which nothing is in flight any more.
  void settle(Index outstanding) {
    for (; defers() && deferred_[first_deferred_].issued <= outstanding; ++first_deferred_) {
      const Gap& gap = deferred_[first_deferred_];
      divide(gap.span, gap.needed, gap.cause);
    }
    if (!defers()) first_deferred_ = last_deferred_ = 0;
  }

  void add_compute(Picoseconds duration) { totals_.compute += duration; }
  const RankTotals& totals() const { return totals_; }

 private:
  struct StreamFlights {
    Traffic traffic = Traffic::compute;
    std::vector<Span> spans;
    std::size_t head = 0;  // first that a later gap may touch

    void add(Span span, Picoseconds now) {
      while (head < spans.size() && spans[head].end <= now) ++head;
      if (head * 2 >= spans.size()) {
        spans.erase(spans.begin(), spans.begin() + static_cast<std::ptrdiff_t>(head));
        head = 0;
      }
      spans.push_back(span);
    }
  };
  struct Gap {
    Span span;
    std::vector<Span> needed;
    BubbleCause cause = BubbleCause::warm_up;
    Index issued = 0;
    void assign(Span gap, const std::vector<Span>& of, BubbleCause why, Index before) {
      span = gap;
      needed.assign(of.begin(), of.end());
      cause = why;
      issued = before;
    }
  };
  void divide(Span gap, const std::vector<Span>& needed, BubbleCause cause);
  Picoseconds cover(Span span);

  RankTotals totals_;
  std::vector<StreamFlights> streams_;
  std::vector<Picoseconds> landed_;          // by stream: the end of its last flight
  std::vector<StreamFlights> waits_;         // by stream; empty: nothing has waited so
  std::vector<std::uint8_t> by_preference_;  // streams whose flights are exposed in a gap
  std::vector<std::uint8_t> pipeline_;       // the others
  // Put off: [first_deferred_, last_deferred_). The others are kept for their memory.
  std::vector<Gap> deferred_;
  std::size_t first_deferred_ = 0, last_deferred_ = 0;
  std::vector<Span> open_, next_;  // pieces of the present gap that nothing covers yet
};

}  // namespace simrun
