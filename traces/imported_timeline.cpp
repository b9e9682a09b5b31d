#include "traces/imported_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "schedules/measured_comparison.h"
#include "traces/imported_totals.h"
#include "traces/refuse_trace.h"

namespace simrun {
namespace {

constexpr Picoseconds per_ns = 1000;
constexpr std::size_t most_streams = 250;
constexpr std::size_t longest_label = 80;

bool communicates(const ImportedKernel& kernel) { return kernel.phase == ImportedPhase::communication; }

// The stream that computes longest; the first of equals.
Index busiest_stream(const ImportedRank& rank) {
  std::map<Index, std::int64_t> work;
  for (const ImportedKernel& kernel : rank.kernels)
    work[kernel.stream] += communicates(kernel) ? 0 : kernel.duration_ns;
  return std::max_element(work.begin(), work.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

Traffic traffic_of(const ImportedKernel& kernel) {
  if (!communicates(kernel)) return kernel.kind.opcode == Opcode::copy ? Traffic::offload : Traffic::compute;
  const bool is_p2p = kernel.kind.opcode == Opcode::send || kernel.kind.opcode == Opcode::recv;
  return is_p2p ? Traffic::pipeline : Traffic::data;
}

// Kernels on a rank's busiest stream are its passes: those of one kind, one behind the other, are one pass.
enum class SegmentOf : std::uint8_t { forward, backward, optimizer, communication, unassigned };

SegmentOf segment_of(ImportedPhase phase) {
  switch (phase) {
    case ImportedPhase::forward: return SegmentOf::forward;
    case ImportedPhase::recompute:
    case ImportedPhase::backward: return SegmentOf::backward;
    case ImportedPhase::optimizer: return SegmentOf::optimizer;
    case ImportedPhase::communication: return SegmentOf::communication;
    case ImportedPhase::unassigned: break;
  }
  return SegmentOf::unassigned;
}

PassKind pass_kind(SegmentOf of) {
  switch (of) {
    case SegmentOf::forward: return PassKind::forward;
    case SegmentOf::backward: return PassKind::backward;
    case SegmentOf::communication: return PassKind::communication;
    default: return PassKind::step;
  }
}

Phase plan_phase(ImportedPhase phase) {
  switch (phase) {
    case ImportedPhase::recompute: return Phase::recompute;
    case ImportedPhase::backward: return Phase::backward_input;
    case ImportedPhase::optimizer: return Phase::optimizer;
    case ImportedPhase::communication: return Phase::reduction;
    default: return Phase::forward;
  }
}

const char* segment_name(SegmentOf of) {
  static constexpr std::array<const char*, 5> names{"forward", "backward", "optimizer", "communication",
                                                    unassigned_segment};
  return names.at(static_cast<std::size_t>(of));
}

// Adds one imported rank to a plan.
class RankBuilder {
 public:
  RankBuilder(Plan& plan, const ImportedRank& rank, std::int32_t pipeline_rank)
      : plan_(plan),
        rank_(rank),
        program_(plan.programs[static_cast<std::size_t>(pipeline_rank)]),
        lanes_of_streams_(lanes()) {
    timeline_.pipeline_rank = pipeline_rank;
    timeline_.device = rank.rank;
  }

  RankTimeline build() {
    std::map<std::uint8_t, std::vector<Interval>> lanes;
    for (const ImportedKernel& kernel : rank_.kernels) {
      const std::uint8_t stream = lanes_of_streams_.at(kernel.stream);
      const SegmentOf segment = segment_of(kernel.phase);
      Interval interval;
      interval.wait = kernel.wait_ns * per_ns;
      interval.start = (rank_.late_ns + kernel.start_ns + kernel.wait_ns) * per_ns;
      interval.duration = (kernel.duration_ns - kernel.wait_ns) * per_ns;
      interval.entry = entry_of(segment, interval, stream == compute_stream);
      interval.instruction = instruction_of(kernel, segment, stream);
      lanes[stream].push_back(interval);
    }
    for (auto& [stream, intervals] : lanes) timeline_.lanes.push_back({stream, std::move(intervals)});
    return std::move(timeline_);
  }

 private:
  // The busiest stream is the plan's compute stream; others are those of the same name, or new ones.
  std::map<Index, std::uint8_t> lanes() {
    const Index busiest = busiest_stream(rank_);
    std::map<Index, std::uint8_t> lanes;
    std::set<std::size_t> taken{compute_stream};
    for (const ImportedKernel& kernel : rank_.kernels) {
      if (lanes.contains(kernel.stream)) continue;
      if (kernel.stream == busiest) {
        lanes[kernel.stream] = compute_stream;
        continue;
      }
      const std::string& name = rank_.streams[kernel.stream];
      std::size_t place = 0;
      while (place < plan_.streams.size() && (plan_.streams[place].name != name || taken.contains(place)))
        ++place;
      if (place == most_streams)
        refuse_trace(rank_.path,
                     fmt::format("kernels of this trace lie on more than {} streams", most_streams),
                     "a trace of a GPU has some tens of them.");
      if (place == plan_.streams.size())
        plan_.streams.push_back({name, StreamDevice::gpu, traffic_of(kernel)});
      taken.insert(place);
      lanes[kernel.stream] = static_cast<std::uint8_t>(place);
    }
    return lanes;
  }

  Index plan_segment(SegmentOf of) {
    const auto [place, is_new] = segments_.try_emplace(of, static_cast<Index>(plan_.segments.size()));
    if (is_new) plan_.segments.push_back({segment_name(of), pass_kind(of), no_index, {}});
    return place->second;
  }

  Index new_entry(SegmentOf of) {
    Entry entry;
    entry.segment = plan_segment(of);
    entry.first_binding = static_cast<Index>(program_.bindings.size());
    entry.binding_count = 0;
    entry.sequence = program_.entries.empty() ? 0 : program_.entries.back().sequence + 1;
    if (of == SegmentOf::forward || of == SegmentOf::backward) {
      entry.binding_count = 1;
      program_.bindings.push_back({.microbatch = microbatches_[of]++});
    }
    program_.entries.push_back(entry);
    return static_cast<Index>(program_.entries.size() - 1);
  }

  Index entry_of(SegmentOf of, const Interval& interval, bool computes) {
    if (!computes || of == SegmentOf::communication) {
      const auto [place, is_new] = entries_.try_emplace(of, 0);
      if (is_new) place->second = new_entry(of);
      return place->second;
    }
    if (pass_ != of) {
      pass_ = of;
      timeline_.passes.push_back({interval.start, 0, new_entry(of)});
    }
    PassInterval& pass = timeline_.passes.back();
    pass.duration = interval.start + interval.duration - pass.start;
    return pass.entry;
  }

  Index instruction_of(const ImportedKernel& kernel, SegmentOf segment, std::uint8_t stream) {
    const auto [place, is_new] =
        instructions_.try_emplace({segment, kernel.phase, kernel.name, stream, kernel.kind.opcode}, 0);
    if (!is_new) return place->second;
    std::vector<Instruction>& instructions = plan_.segments[plan_segment(segment)].instructions;
    place->second = static_cast<Index>(instructions.size());
    Instruction instruction;
    instruction.opcode = kernel.kind.opcode.value_or(Opcode::map);
    instruction.function = kernel.kind.function;
    instruction.phase = plan_phase(kernel.phase);
    instruction.stream = stream;
    instruction.label =
        (kernel.kind.opcode ? "" : "unknown: ") + rank_.names[kernel.name].substr(0, longest_label);
    instructions.push_back(instruction);
    return place->second;
  }

  Plan& plan_;
  const ImportedRank& rank_;
  Program& program_;
  const std::map<Index, std::uint8_t> lanes_of_streams_;
  RankTimeline timeline_;
  std::map<SegmentOf, Index> segments_, entries_;
  std::map<SegmentOf, std::int32_t> microbatches_;
  std::map<std::tuple<SegmentOf, ImportedPhase, Index, std::uint8_t, std::optional<Opcode>>, Index>
      instructions_;
  std::optional<SegmentOf> pass_;  // of the last kernel on the compute stream
};

bool has_device(const StageDevices& stage, std::int64_t device) {
  return std::ranges::any_of(stage.devices, [&](const DeviceRange& range) {
    return device >= range.first && device < range.first + range.count;
  });
}

}  // namespace

std::vector<std::int32_t> pipeline_ranks_of(const Plan& plan, const ImportedRun& run) {
  std::vector<std::int32_t> ranks;
  for (const ImportedRank& rank : run.ranks) {
    const auto stage =
        std::ranges::find_if(plan.stages, [&](const StageDevices& of) { return has_device(of, rank.rank); });
    if (stage == plan.stages.end())
      refuse_trace(rank.path,
                   fmt::format("the trace is of rank {}, the job has {} ranks", rank.rank, plan.ranks()),
                   "--against takes the job that was profiled.");
    ranks.push_back(static_cast<std::int32_t>(stage - plan.stages.begin()));
  }
  return ranks;
}

Plan plan_of_ranks(const ImportedRun& run) {
  Plan plan;
  plan.job.name = "imported";
  plan.streams = {{"compute", StreamDevice::gpu, Traffic::compute}};
  for (const ImportedRank& rank : run.ranks) {
    plan.stages.push_back({{{rank.rank, 1}}, {}});
    plan.programs.push_back({static_cast<std::int32_t>(plan.programs.size()), {}, {}});
  }
  return plan;
}

ImportedTimeline imported_timeline(const Plan& plan, const ImportedRun& run) {
  const std::vector<std::int32_t> pipeline_ranks = pipeline_ranks_of(plan, run);
  ImportedTimeline imported{plan, {}};
  Timeline& timeline = imported.timeline;
  timeline.step = run.length_ns * per_ns;
  std::set<std::int32_t> is_drawn;
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    const ImportedRank& rank = run.ranks[r];
    RankTimeline unrecorded;
    unrecorded.pipeline_rank = pipeline_ranks[r];
    unrecorded.device = rank.rank;
    timeline.ranks.push_back(is_drawn.insert(pipeline_ranks[r]).second
                                 ? RankBuilder(imported.plan, rank, pipeline_ranks[r]).build()
                                 : unrecorded);
    timeline.ranks.back().totals = imported_totals(rank, run.length_ns);
    timeline.instructions += static_cast<std::int64_t>(rank.kernels.size());
    timeline.communication_instructions += std::ranges::count_if(rank.kernels, communicates);
  }
  timeline.first_step = timeline.step;
  timeline.engine = imported_engine;
  timeline.engine_reason = "measured";
  timeline.provenance = run.device.empty() ? to_string(run.origin) : run.device;
  return imported;
}

}  // namespace simrun
