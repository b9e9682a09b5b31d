#pragma once

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
// the next compute needs is in flight; what is left is the cause that the caller names. Time in flight that
// compute covers is hidden; it is summed over streams.
class Accounting {
 public:
  explicit Accounting(const std::vector<Stream>& streams);

  // A transfer or other work of a stream that is not compute. Per stream in order of time. No gap will begin
  // before `now`.
  void add_flight(std::uint8_t stream, Span span, Picoseconds now) {
    if (span.end == span.start) return;
    StreamFlights& flights = streams_[stream];
    totals_.hidden[static_cast<std::size_t>(flights.traffic)] += span.end - span.start;
    while (flights.head < flights.spans.size() && flights.spans[flights.head].end <= now) ++flights.head;
    if (flights.head * 2 >= flights.spans.size()) {
      flights.spans.erase(flights.spans.begin(),
                          flights.spans.begin() + static_cast<std::ptrdiff_t>(flights.head));
      flights.head = 0;
    }
    flights.spans.push_back(span);
  }

  // The compute stream was idle from gap.start to gap.end. Gaps come in order of time, after all flights that
  // touch them. `needed`: pipeline transfers to this rank that its next compute instruction needs.
  void add_gap(Span gap, const std::vector<Span>& needed, BubbleCause cause);

  void add_compute(Picoseconds duration) { totals_.compute += duration; }
  const RankTotals& totals() const { return totals_; }

 private:
  struct StreamFlights {
    Traffic traffic = Traffic::compute;
    std::vector<Span> spans;
    std::size_t head = 0;  // first that a later gap may touch
  };
  Picoseconds cover(Span span);

  RankTotals totals_;
  std::vector<StreamFlights> streams_;
  std::vector<std::uint8_t> by_preference_;  // streams whose flights are exposed in a gap
  std::vector<std::uint8_t> pipeline_;       // the others
  std::vector<Span> open_, next_;            // pieces of the present gap that nothing covers yet
};

}  // namespace simrun
