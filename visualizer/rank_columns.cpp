#include "visualizer/rank_columns.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "visualizer/bound_chunks.h"

namespace simrun {

namespace {

using ColumnValues = std::vector<std::int64_t>;

void add_entry_columns(const Program& program, ColumnWriter& columns) {
  ColumnValues segment;
  std::array<ColumnValues, 2> microbatch;  // by binding
  for (const Entry& entry : program.entries) {
    segment.push_back(entry.segment);
    for (std::uint8_t b = 0; b < 2; ++b) {
      const Binding* bound = binding_of(program, entry, b);
      microbatch[b].push_back(bound == nullptr ? -1 : bound->microbatch);
    }
  }
  for (const ColumnValues& column : {segment, microbatch[0], microbatch[1]}) columns.add(column);
}

// Lanes in the order of issue, each as often as it has boxes.
std::vector<std::size_t> issue_order(const std::vector<Lane>& lanes) {
  std::vector<std::size_t> next(lanes.size(), 0), order;
  const auto place = [&](std::size_t lane) {
    const Interval& box = lanes[lane].intervals[next[lane]];
    return std::pair(box.entry, box.instruction);
  };
  for (;;) {
    std::size_t first = lanes.size();
    for (std::size_t lane = 0; lane < lanes.size(); ++lane)
      if (next[lane] < lanes[lane].intervals.size() && (first == lanes.size() || place(lane) < place(first)))
        first = lane;
    if (first == lanes.size()) return order;
    ++next[first];
    order.push_back(first);
  }
}

struct LaneTimes {
  ColumnValues after, arrival, wait, duration;
};

// On which lane the box ended that this one came closest behind; its own in doubt.
std::size_t nearest_end(const std::vector<Picoseconds>& ends, std::size_t own, Picoseconds arrival) {
  std::size_t nearest = own;
  for (std::size_t lane = 0; lane < ends.size(); ++lane)
    if (std::abs(arrival - ends[lane]) < std::abs(arrival - ends[nearest])) nearest = lane;
  return nearest;
}

std::vector<LaneTimes> lane_times(const Program& program, const std::vector<Lane>& lanes) {
  std::vector<LaneTimes> times(lanes.size());
  std::vector<Picoseconds> ends(lanes.size(), 0);
  std::vector<std::size_t> next(lanes.size(), 0);
  std::map<std::pair<Index, Index>, Picoseconds> first_duration;  // by segment and instruction
  for (const std::size_t lane : issue_order(lanes)) {
    const Interval& box = lanes[lane].intervals[next[lane]++];
    LaneTimes& of = times[lane];
    const Picoseconds arrival = box.start - box.wait;
    const std::size_t after = nearest_end(ends, lane, arrival);
    const std::pair place{program.entries.at(box.entry).segment, box.instruction};
    const auto [usual, fresh] = first_duration.try_emplace(place, box.duration);
    of.after.push_back(after == lane ? 0 : static_cast<std::int64_t>(after) + 1);
    of.arrival.push_back(arrival - ends[after]);
    of.wait.push_back(box.wait);
    of.duration.push_back(fresh ? box.duration : box.duration - usual->second);
    ends[lane] = box.start + box.duration;
  }
  return times;
}

void add_lane_columns(const Program& program, const std::vector<Lane>& lanes, ColumnWriter& columns) {
  ColumnValues streams;
  for (const Lane& lane : lanes) streams.push_back(lane.stream);
  columns.add(streams);
  for (const Lane& lane : lanes) {
    ColumnValues entry, instruction;
    for (const Interval& box : lane.intervals) {
      entry.push_back(box.entry);
      instruction.push_back(box.instruction);
    }
    columns.add_differences(entry);
    columns.add_differences(instruction);
  }
  for (const LaneTimes& times : lane_times(program, lanes)) {
    columns.add(times.after);
    for (const ColumnValues& column : {times.arrival, times.wait, times.duration}) columns.add_planes(column);
  }
}

struct Stretch {
  Picoseconds start = 0, end = 0;
};

// By entry: from the first start to the last end of its boxes on the compute lane; absent: none was recorded.
std::map<Index, Stretch> compute_stretches(const std::vector<Lane>& lanes) {
  std::map<Index, Stretch> stretches;
  for (const Lane& lane : lanes) {
    if (lane.stream != compute_stream) continue;
    for (const Interval& box : lane.intervals) {
      const Stretch own{box.start, box.start + box.duration};
      Stretch& of = stretches.try_emplace(box.entry, own).first->second;
      of = {std::min(of.start, own.start), std::max(of.end, own.end)};
    }
  }
  return stretches;
}

void add_pass_columns(const RankTimeline& rank, ColumnWriter& columns) {
  const std::map<Index, Stretch> stretches = compute_stretches(rank.lanes);
  ColumnValues entry, start, duration;
  Picoseconds end = 0;
  for (const PassInterval& pass : rank.passes) {
    const auto found = stretches.find(pass.entry);
    const Stretch guess = found == stretches.end() ? Stretch{end, end} : found->second;
    entry.push_back(pass.entry);
    start.push_back(pass.start - guess.start);
    duration.push_back(pass.duration - (guess.end - guess.start));
    end = pass.start + pass.duration;
  }
  columns.add_differences(entry);
  columns.add_planes(start);
  columns.add_planes(duration);
}

void add_memory_columns(const std::vector<MemoryEvent>& events, ColumnWriter& columns) {
  ColumnValues time;
  std::array<ColumnValues, category_count> live;
  Picoseconds before = 0;
  for (const MemoryEvent& event : events) {
    time.push_back(event.time - before);
    before = event.time;
    for (std::size_t c = 0; c < live.size(); ++c) live[c].push_back(event.live[c]);
  }
  columns.add_planes(time);
  for (const ColumnValues& column : live) columns.add_differences(column);
}

}  // namespace

void add_rank_columns(const Plan& plan, const RankTimeline& rank, ColumnWriter& columns) {
  const Program& program = plan.programs[static_cast<std::size_t>(rank.pipeline_rank)];
  add_entry_columns(program, columns);
  add_lane_columns(program, rank.lanes, columns);
  add_pass_columns(rank, columns);
  add_memory_columns(rank.memory, columns);
}

}  // namespace simrun
