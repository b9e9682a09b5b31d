#include "backend/measured_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "backend/tensor_part.h"

namespace simrun {
namespace {

constexpr Picoseconds per_ns = 1000;

std::size_t first_counted(const Measurement& measurement) {
  return measurement.ranks.front().size() > 1 ? 1 : 0;
}
std::size_t steps_of(const Measurement& measurement) { return measurement.ranks.front().size(); }

std::int64_t begin_of(const Measurement& measurement, std::size_t step) {
  std::int64_t begin = measurement.ranks.front()[step].begin_ns;
  for (const std::vector<MeasuredStep>& rank : measurement.ranks)
    begin = std::min(begin, rank[step].begin_ns);
  return begin;
}
std::int64_t length_of(const Measurement& measurement, std::size_t step) {
  std::int64_t end = measurement.ranks.front()[step].end_ns;
  for (const std::vector<MeasuredStep>& rank : measurement.ranks) end = std::max(end, rank[step].end_ns);
  return end - begin_of(measurement, step);
}

std::size_t median_step(const Measurement& measurement) {
  std::vector<std::pair<std::int64_t, std::size_t>> lengths;
  for (std::size_t step = first_counted(measurement); step < steps_of(measurement); ++step)
    lengths.emplace_back(length_of(measurement, step), step);
  std::sort(lengths.begin(), lengths.end());
  return lengths[(lengths.size() - 1) / 2].second;
}

// By instruction of a step, in the order of issue.
std::vector<Picoseconds> median_work(const Measurement& measurement, std::size_t rank) {
  const std::vector<MeasuredStep>& steps = measurement.ranks[rank];
  std::vector<Picoseconds> medians;
  std::vector<std::int64_t> work;
  for (std::size_t i = 0; i < steps.back().instructions.size(); ++i) {
    work.clear();
    for (std::size_t step = first_counted(measurement); step < steps.size(); ++step)
      work.push_back(steps[step].instructions.at(i).busy_ns);
    std::sort(work.begin(), work.end());
    medians.push_back(work[(work.size() - 1) / 2] * per_ns);
  }
  return medians;
}

bool is_backward(PassKind kind) {
  return kind == PassKind::backward || kind == PassKind::backward_input || kind == PassKind::overlapped;
}

// Why a rank is idle in an entry (schedules/timeline.h).
class IdleCause {
 public:
  explicit IdleCause(const Plan& plan, const Program& program) {
    for (Index e = 0; e < program.entries.size(); ++e) {
      const PassKind kind = plan.segments[program.entries[e].segment].kind;
      if (kind == PassKind::forward || kind == PassKind::overlapped) last_forward_ = e;
      if (is_backward(kind) && !first_backward_) first_backward_ = e;
    }
  }
  BubbleCause in(Index entry) const {
    if (!first_backward_ || entry <= *first_backward_) return BubbleCause::warm_up;
    return !last_forward_ || entry > *last_forward_ ? BubbleCause::drain : BubbleCause::imbalance;
  }

 private:
  std::optional<Index> last_forward_, first_backward_;
};

// One rank's step on the axis of the whole step.
class MeasuredRank {
 public:
  MeasuredRank(const Plan& plan, const Program& program)
      : plan_(plan), program_(program), idle_(plan, program), lanes_(plan.streams.size()) {}

  // `work`: by instruction.
  void add(const MeasuredStep& step, const std::vector<Picoseconds>& work, std::int64_t origin_ns) {
    for (std::size_t i = 0; i < step.instructions.size(); ++i) {
      const MeasuredInstruction& of = step.instructions[i];
      const Picoseconds begin = (of.begin_ns - origin_ns) * per_ns, end = (of.end_ns - origin_ns) * per_ns;
      const Picoseconds wait = std::min(of.waited_ns * per_ns, end - begin);
      const Picoseconds duration = std::min(work[i], end - begin - wait);
      add(of, {begin + wait, duration, wait, of.entry, of.instruction});
    }
  }

  RankTimeline take(Picoseconds step, bool is_recorded) {
    Picoseconds counted = totals_.compute + totals_.exposed_total() + totals_.bubble_total();
    totals_.bubble[static_cast<std::size_t>(BubbleCause::drain)] += step - counted;
    RankTimeline rank;
    rank.pipeline_rank = program_.pipeline_rank;
    rank.totals = totals_;
    if (!is_recorded) return rank;
    for (std::size_t stream = 0; stream < lanes_.size(); ++stream)
      if (!lanes_[stream].empty())
        rank.lanes.push_back({static_cast<std::uint8_t>(stream), std::move(lanes_[stream])});
    rank.passes = std::move(passes_);
    return rank;
  }

 private:
  void add(const MeasuredInstruction& of, const Interval& interval) {
    const Instruction& what = plan_.segments[program_.entries[of.entry].segment].instructions[of.instruction];
    totals_.bubble[static_cast<std::size_t>(idle_.in(of.entry))] +=
        std::max<Picoseconds>(interval.start - counted_until_, 0);
    counted_until_ = interval.start + interval.duration;
    if (what.opcode == Opcode::free || what.opcode == Opcode::init) {
      totals_.bubble[static_cast<std::size_t>(idle_.in(of.entry))] += interval.duration;
      return;
    }
    lanes_[what.stream].push_back(interval);
    count(what, interval.duration);
    if (what.stream != compute_stream) return;
    if (passes_.empty() || passes_.back().entry != of.entry) passes_.push_back({interval.start, 0, of.entry});
    passes_.back().duration = counted_until_ - passes_.back().start;
  }

  void count(const Instruction& what, Picoseconds duration) {
    const Traffic traffic = plan_.streams[what.stream].traffic;
    if (traffic == Traffic::compute)
      totals_.compute += duration;
    else if (traffic == Traffic::pipeline)
      totals_.bubble[static_cast<std::size_t>(BubbleCause::p2p)] += duration;
    else
      totals_.exposed[static_cast<std::size_t>(traffic)] += duration;
  }

  const Plan& plan_;
  const Program& program_;
  const IdleCause idle_;
  RankTotals totals_;
  std::vector<std::vector<Interval>> lanes_;  // by stream
  std::vector<PassInterval> passes_;
  Picoseconds counted_until_ = 0;
};

std::int64_t device_of(const Plan& plan, const RankPlace& place) {
  std::int64_t left = place.local;
  for (const DeviceRange& range : plan.stages[static_cast<std::size_t>(place.pipeline_rank)].devices) {
    if (left < range.count) return range.first + left;
    left -= range.count;
  }
  return left;
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  assert(!values.empty() && "a spread of nothing");
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
  };
  return {at(0.5), at(0.1), at(0.9), static_cast<int>(values.size())};
}

Spread measured_step_seconds(const Measurement& measurement) {
  std::vector<double> seconds;
  for (std::size_t step = first_counted(measurement); step < steps_of(measurement); ++step)
    seconds.push_back(static_cast<double>(length_of(measurement, step)) * 1e-9);
  return spread_of(std::move(seconds));
}

Timeline measured_timeline(const Plan& plan, const Measurement& measurement) {
  const std::size_t step = median_step(measurement);
  const std::vector<RankPlace> places = ranks_of(plan);
  Timeline timeline;
  timeline.step = length_of(measurement, step) * per_ns;
  timeline.first_step = length_of(measurement, 0) * per_ns;
  timeline.engine = "device";
  timeline.engine_reason =
      fmt::format("median of {} steps on {} {}{}", steps_of(measurement) - first_counted(measurement),
                  measurement.cores, measurement.unit, measurement.cores == 1 ? "" : "s");
  timeline.provenance = measurement.device;
  for (std::size_t r = 0; r < places.size(); ++r) {
    const MeasuredStep& of = measurement.ranks[r][step];
    MeasuredRank rank(plan, plan.programs[static_cast<std::size_t>(places[r].pipeline_rank)]);
    rank.add(of, median_work(measurement, r), begin_of(measurement, step));
    timeline.ranks.push_back(rank.take(timeline.step, places[r].local == 0));
    timeline.ranks.back().device = device_of(plan, places[r]);
    for (const MeasuredInstruction& instance : of.instructions) {
      const Program& program = plan.programs[static_cast<std::size_t>(places[r].pipeline_rank)];
      const Segment& segment = plan.segments[program.entries[instance.entry].segment];
      const Opcode opcode = segment.instructions[instance.instruction].opcode;
      if (opcode == Opcode::free) continue;
      ++timeline.instructions;
      if (is_communication(opcode)) ++timeline.communication_instructions;
    }
  }
  return timeline;
}

InstructionCosts measured_costs(const Plan& plan, const Measurement& measurement) {
  const std::vector<RankPlace> places = ranks_of(plan);
  InstructionCosts costs;
  for (std::size_t r = 0; r < places.size(); ++r) {
    const Program& program = plan.programs[static_cast<std::size_t>(places[r].pipeline_rank)];
    const std::vector<Picoseconds> work = median_work(measurement, r);
    const std::vector<MeasuredInstruction>& instances = measurement.ranks[r].back().instructions;
    for (std::size_t i = 0; i < instances.size(); ++i)
      costs.add(
          {places[r].pipeline_rank, program.entries[instances[i].entry].segment, instances[i].instruction},
          work[i]);
  }
  return costs;
}

}  // namespace simrun
