#include "schedules/critical_path.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace simrun {

namespace {

struct IntervalPlace {
  Index rank = 0, lane = 0, interval = 0;
};

// An execution of an exchange between ranks: its channel, start and end, which are equal on all its ends.
using ExchangeKey = std::tuple<Index, Picoseconds, Picoseconds>;

Picoseconds end_of(const Interval& interval) { return interval.start + interval.duration; }

class PathWalker {
 public:
  PathWalker(const Plan& plan, const Timeline& timeline) : plan_(plan), timeline_(timeline) {
    for (Index r = 0; r < timeline.ranks.size(); ++r) {
      std::vector<Index>& untaken = untaken_.emplace_back();
      for (Index l = 0; l < timeline.ranks[r].lanes.size(); ++l) {
        untaken.push_back(static_cast<Index>(timeline.ranks[r].lanes[l].intervals.size()));
        find_late_ends(r, l);
      }
    }
  }

  CriticalPath walk() {
    std::optional<IntervalPlace> at;
    for (Index r = 0; r < timeline_.ranks.size(); ++r) at = later(at, last_ending(r, 0, timeline_.step));
    if (!at) return {};
    CriticalPath path;
    path.tail = timeline_.step - end_of(of(*at));
    while (at) {
      take(*at);
      const IntervalPlace held = late_end(*at);
      take(held);
      const Picoseconds since = of(held).start - of(held).wait;
      const std::optional<IntervalPlace> before = last_ending(held.rank, held.lane, since);
      const Picoseconds free = before ? end_of(of(*before)) : 0;
      path.steps.push_back({held.rank, held.lane, held.interval, of(held).start - free});
      at = before;
    }
    std::reverse(path.steps.begin(), path.steps.end());
    return path;
  }

 private:
  const Lane& lane_of(Index rank, Index lane) const { return timeline_.ranks[rank].lanes[lane]; }
  const Interval& of(const IntervalPlace& place) const {
    return lane_of(place.rank, place.lane).intervals[place.interval];
  }

  Index channel_of(const IntervalPlace& place) const {
    const Interval& interval = of(place);
    const auto pipeline_rank = static_cast<std::size_t>(timeline_.ranks[place.rank].pipeline_rank);
    const Entry& entry = plan_.programs[pipeline_rank].entries[interval.entry];
    const Index communication =
        plan_.segments[entry.segment].instructions[interval.instruction].communication;
    return communication < plan_.communications.size() ? plan_.communications[communication].channel
                                                       : no_index;
  }

  ExchangeKey key_of(const IntervalPlace& place, Index channel) const {
    return {channel, of(place).start, end_of(of(place))};
  }

  // Ends that nobody had to wait for longer: they came last.
  void find_late_ends(Index rank, Index lane) {
    if (lane_of(rank, lane).stream == 0) return;
    for (Index i = 0; i < lane_of(rank, lane).intervals.size(); ++i) {
      const IntervalPlace place{rank, lane, i};
      if (of(place).wait > 0) continue;
      const Index channel = channel_of(place);
      if (channel != no_index) late_ends_.try_emplace(key_of(place, channel), place);
    }
  }

  // The end of the exchange that arrived last; the place itself if that is the one, or is not recorded.
  IntervalPlace late_end(const IntervalPlace& place) const {
    if (of(place).wait == 0) return place;
    const Index channel = channel_of(place);
    if (channel == no_index) return place;
    const auto found = late_ends_.find(key_of(place, channel));
    if (found == late_ends_.end()) return place;
    const IntervalPlace& late = found->second;
    return late.interval < untaken_[late.rank][late.lane] ? late : place;
  }

  void take(const IntervalPlace& place) { untaken_[place.rank][place.lane] = place.interval; }

  std::optional<IntervalPlace> later(const std::optional<IntervalPlace>& a,
                                     const std::optional<IntervalPlace>& b) const {
    if (!a || !b) return a ? a : b;
    return end_of(of(*b)) > end_of(of(*a)) ? b : a;
  }

  // Of the rank's intervals that end by `time` the one that ends last; of equals that of `first_lane`, then
  // compute. Times only go down, so that what ends later is never looked at again.
  std::optional<IntervalPlace> last_ending(Index rank, Index first_lane, Picoseconds time) {
    std::optional<IntervalPlace> last;
    const auto look_at = [&](Index lane) {
      const std::vector<Interval>& intervals = lane_of(rank, lane).intervals;
      Index& untaken = untaken_[rank][lane];
      while (untaken > 0 && end_of(intervals[untaken - 1]) > time) --untaken;
      if (untaken > 0) last = later(last, IntervalPlace{rank, lane, untaken - 1});
    };
    const std::size_t lanes = untaken_[rank].size();
    if (first_lane < lanes) look_at(first_lane);
    for (Index lane = 0; lane < lanes; ++lane)
      if (lane_of(rank, lane).stream == 0) look_at(lane);
    for (Index lane = 0; lane < lanes; ++lane) look_at(lane);
    return last;
  }

  const Plan& plan_;
  const Timeline& timeline_;
  std::vector<std::vector<Index>> untaken_;  // by rank and lane: those before it are not on the path yet
  std::map<ExchangeKey, IntervalPlace> late_ends_;
};

}  // namespace

CriticalPath critical_path(const Plan& plan, const Timeline& timeline) {
  return PathWalker(plan, timeline).walk();
}

}  // namespace simrun
