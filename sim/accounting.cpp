#include "sim/accounting.h"

#include <algorithm>

namespace simrun {

namespace {

// Rank of a kind of traffic when several are in flight at once.
int preference(Traffic traffic) {
  switch (traffic) {
    case Traffic::tensor: return 0;
    case Traffic::context: return 1;
    case Traffic::expert: return 2;
    case Traffic::data: return 3;
    case Traffic::offload: return 4;
    default: return 5;
  }
}

}  // namespace

Accounting::Accounting(const std::vector<Stream>& streams)
    : streams_(streams.size()), landed_(streams.size(), 0) {
  for (std::size_t s = 0; s < streams.size(); ++s) {
    streams_[s].traffic = streams[s].traffic;
    if (s == compute_stream) continue;
    (streams[s].traffic == Traffic::pipeline ? pipeline_ : by_preference_)
        .push_back(static_cast<std::uint8_t>(s));
  }
  std::stable_sort(by_preference_.begin(), by_preference_.end(), [&](std::uint8_t a, std::uint8_t b) {
    return preference(streams[a].traffic) < preference(streams[b].traffic);
  });
}

// Takes `span` out of the open pieces of the gap; how much of them it covered.
Picoseconds Accounting::cover(Span span) {
  Picoseconds covered = 0;
  next_.clear();
  for (const Span& piece : open_) {
    const Picoseconds start = std::max(piece.start, span.start), end = std::min(piece.end, span.end);
    if (start >= end) {
      next_.push_back(piece);
      continue;
    }
    covered += end - start;
    if (piece.start < start) next_.push_back({piece.start, start});
    if (end < piece.end) next_.push_back({end, piece.end});
  }
  open_.swap(next_);
  return covered;
}

void Accounting::divide(Span gap, const std::vector<Span>& needed, BubbleCause cause) {
  open_.assign(1, gap);
  const auto visit = [&](std::uint8_t stream, bool exposes) {
    if (landed_[stream] <= gap.start) return;
    StreamFlights& flights = streams_[stream];
    while (flights.head < flights.spans.size() && flights.spans[flights.head].end <= gap.start)
      ++flights.head;
    for (std::size_t i = flights.head; i < flights.spans.size() && flights.spans[i].start < gap.end; ++i) {
      const Span span{std::max(flights.spans[i].start, gap.start), std::min(flights.spans[i].end, gap.end)};
      totals_.hidden[static_cast<std::size_t>(flights.traffic)] -= span.end - span.start;
      if (exposes) totals_.exposed[static_cast<std::size_t>(flights.traffic)] += cover(span);
    }
  };
  for (const std::uint8_t stream : by_preference_) visit(stream, true);
  for (const std::uint8_t stream : pipeline_) visit(stream, false);
  for (const Span& span : needed) totals_.bubble[static_cast<std::size_t>(BubbleCause::p2p)] += cover(span);
  for (StreamFlights& waits : waits_) {
    while (waits.head < waits.spans.size() && waits.spans[waits.head].end <= gap.start) ++waits.head;
    for (std::size_t i = waits.head; i < waits.spans.size() && waits.spans[i].start < gap.end; ++i)
      totals_.bubble[static_cast<std::size_t>(BubbleCause::imbalance)] += cover(waits.spans[i]);
  }
  for (const Span& piece : open_) totals_.bubble[static_cast<std::size_t>(cause)] += piece.end - piece.start;
}

}  // namespace simrun
