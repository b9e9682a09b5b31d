#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "column_reader.h"
#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// The reading side of rank_columns.h: lanes, passes and memory of one rank, whose times it adds up again.
class RankReader {
 public:
  RankReader(ColumnReader& reader, const Program& program) : reader_(reader), program_(program) {}

  RankTimeline read() {
    for (int entry_column = 0; entry_column < 3; ++entry_column)
      entries_ = std::max(entries_, reader_.column().size());
    read_lanes();
    read_passes();
    read_memory();
    return rank_;
  }
  std::size_t entries() const { return entries_; }

 private:
  using Values = std::vector<std::int64_t>;
  struct Box {
    Index entry, instruction;
    std::size_t lane, place;
    auto order() const { return std::tuple(entry, instruction, lane, place); }
  };

  void read_lanes() {
    for (const std::int64_t stream : reader_.column())
      rank_.lanes.push_back({static_cast<std::uint8_t>(stream), {}});
    std::vector<Box> boxes;
    for (std::size_t l = 0; l < rank_.lanes.size(); ++l) {
      const Values entry = reader_.differences(), instruction = reader_.differences();
      for (std::size_t i = 0; i < entry.size(); ++i)
        boxes.push_back({static_cast<Index>(entry[i]), static_cast<Index>(instruction[i]), l, i});
      rank_.lanes[l].intervals.resize(entry.size());
    }
    for (std::size_t l = 0; l < rank_.lanes.size(); ++l) {
      after_.push_back(reader_.column());
      arrival_.push_back(reader_.planes());
      wait_.push_back(reader_.planes());
      duration_.push_back(reader_.planes());
    }
    std::sort(boxes.begin(), boxes.end(), [](const Box& a, const Box& b) { return a.order() < b.order(); });
    ends_.assign(rank_.lanes.size(), 0);
    for (const Box& box : boxes) place(box);
  }

  void place(const Box& box) {
    const auto [entry, instruction, l, i] = box;
    const std::int64_t after = after_[l].at(i);
    const Picoseconds behind = ends_.at(after == 0 ? l : static_cast<std::size_t>(after - 1));
    const std::pair key{program_.entries.at(entry).segment, instruction};
    const auto [usual, fresh] = usual_.try_emplace(key, duration_[l].at(i));
    const Picoseconds duration = duration_[l][i] + (fresh ? 0 : usual->second);
    const Picoseconds start = behind + arrival_[l].at(i) + wait_[l].at(i);
    rank_.lanes[l].intervals[i] = {start, duration, wait_[l][i], entry, instruction};
    ends_[l] = start + duration;
  }

  void read_passes() {
    std::map<Index, std::pair<Picoseconds, Picoseconds>> stretch;
    for (const Lane& lane : rank_.lanes)
      for (const Interval& box : lane.intervals) {
        if (lane.stream != compute_stream) continue;
        const Picoseconds end = box.start + box.duration;
        auto& [from, to] = stretch.try_emplace(box.entry, box.start, end).first->second;
        from = std::min(from, box.start);
        to = std::max(to, end);
      }
    const Values entry = reader_.differences(), start = reader_.planes(), duration = reader_.planes();
    Picoseconds end = 0;
    for (std::size_t i = 0; i < entry.size(); ++i) {
      const auto found = stretch.find(static_cast<Index>(entry[i]));
      const auto [from, to] = found == stretch.end() ? std::pair(end, end) : found->second;
      rank_.passes.push_back({from + start[i], to - from + duration[i], static_cast<Index>(entry[i])});
      end = rank_.passes.back().start + rank_.passes.back().duration;
    }
  }

  void read_memory() {
    const Values time = reader_.planes();
    rank_.memory.resize(time.size());
    Picoseconds now = 0;
    for (std::size_t i = 0; i < time.size(); ++i) rank_.memory[i].time = now += time[i];
    for (std::size_t c = 0; c < category_count; ++c) {
      const Values live = reader_.differences();
      for (std::size_t i = 0; i < live.size(); ++i) rank_.memory[i].live[c] = live[i];
    }
  }

  ColumnReader& reader_;
  const Program& program_;
  RankTimeline rank_;
  std::size_t entries_ = 0;
  std::vector<Values> after_, arrival_, wait_, duration_;  // by lane
  std::vector<Picoseconds> ends_;
  std::map<std::pair<Index, Index>, Picoseconds> usual_;
};

}  // namespace simrun
