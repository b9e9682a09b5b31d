#include "visualizer/trace_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>
#include <utility>

#include "schedules/instruction_flops.h"
#include "schedules/measured_comparison.h"
#include "visualizer/bound_chunks.h"

namespace simrun {

namespace {

std::int64_t touched_bytes(const Plan& plan, const std::vector<Index>& buffers) {
  std::int64_t bytes = 0;
  for (const Index index : buffers) bytes += plan.buffers[index].stored_bytes();
  return bytes;
}

// Communication: what this rank hands over, or takes if it only receives. Compute: all that is read and
// written.
std::int64_t bytes_of(const Plan& plan, const Instruction& instruction) {
  const std::int64_t in = touched_bytes(plan, instruction.inputs);
  const std::int64_t out = touched_bytes(plan, instruction.outputs);
  return is_communication(instruction.opcode) ? std::max(in, out) : in + out;
}

// Plans made by hand may name no operands.
std::int64_t flops_of(const Plan& plan, const Instruction& instruction) {
  const bool forward = instruction.opcode == Opcode::attention;
  if (instruction.inputs.size() < (forward ? 1 : 2) || instruction.outputs.empty()) return 0;
  constexpr double largest = 9e18;
  return static_cast<std::int64_t>(std::min(instruction_flops(plan, instruction), largest));
}

// What labels need of the plan as a whole.
struct LabelContext {
  const Plan& plan;
  BoundChunks chunks;
  bool bidirectional = false;
};

void add_chunk(const LabelContext& context, Index chunk, const std::string& prefix,
               std::vector<TraceArgument>& arguments) {
  if (chunk == no_index) return;
  const Chunk& of = context.plan.chunks[chunk];
  arguments.push_back({prefix + "stage", std::int64_t{of.stage}});
  arguments.push_back({prefix + "chunk", std::int64_t{of.index}});
  if (context.bidirectional) arguments.push_back({prefix + "direction", of.index == 0 ? "down" : "up"});
}

SliceLabel instruction_label(const LabelContext& context, Index segment, const Instruction& instruction) {
  const Plan& plan = context.plan;
  SliceLabel label;
  label.name = to_string(instruction.opcode);
  if (!instruction.label.empty()) label.name += " " + instruction.label;
  label.category = to_string(plan.streams[instruction.stream].traffic);
  std::vector<TraceArgument>& arguments = label.arguments;
  add_chunk(context, context.chunks.of(segment, instruction.binding), "", arguments);
  if (instruction.layer >= 0) arguments.push_back({"layer", std::int64_t{instruction.layer}});
  if (plan.segments[segment].name != unassigned_segment)
    arguments.push_back({"phase", to_string(instruction.phase)});
  if (instruction.function != Function::none)
    arguments.push_back({"function", to_string(instruction.function)});
  arguments.push_back({"bytes", bytes_of(plan, instruction)});
  const std::int64_t flops = flops_of(plan, instruction);
  if (flops > 0) arguments.push_back({"flops", flops});
  const Index communication = instruction.communication;
  if (communication < plan.communications.size() && !plan.communications[communication].cause.empty())
    arguments.push_back({"cause", plan.communications[communication].cause});
  return label;
}

// Passes are named as an Op is spelled.
void name_pass(const LabelContext& context, Index segment, SliceLabel& label) {
  constexpr std::array<char, 4> letters = {'F', 'B', 'I', 'W'};
  const Segment& of = context.plan.segments[segment];
  const auto kind = static_cast<std::size_t>(of.kind);
  const Index first = context.chunks.of(segment), second = context.chunks.of(segment, 1);
  const auto stage = [&](Index chunk) { return context.plan.chunks[chunk].stage; };
  label.name = of.name;
  if (of.kind == PassKind::overlapped && first != no_index && second != no_index) {
    label.numbered = true;
    label.name = fmt::format("({}F", stage(first));
    label.second = fmt::format(";{}B", stage(second));
  } else if (kind < letters.size() && first != no_index) {
    label.numbered = true;
    label.name = fmt::format("{}{}", stage(first), letters[kind]);
  }
}

SliceLabel pass_label(const LabelContext& context, Index segment) {
  const Segment& of = context.plan.segments[segment];
  SliceLabel label;
  name_pass(context, segment, label);
  label.category = to_string(of.kind);
  add_chunk(context, context.chunks.of(segment), "", label.arguments);
  add_chunk(context, context.chunks.of(segment, 1), "backward_", label.arguments);
  std::int64_t flops = 0;
  for (const Instruction& instruction : of.instructions) flops += flops_of(context.plan, instruction);
  if (flops > 0) label.arguments.push_back({"flops", flops});
  return label;
}

// One end of a transfer. Both ends have the same key: channel, microbatch, slice of the sequence, sending and
// receiving pipeline rank.
struct TransferEnd {
  std::tuple<Index, std::int32_t, std::int32_t, std::int32_t, std::int32_t> key;
  SlicePlace place;
};

class Collector {
 public:
  Collector(const Plan& plan, const Timeline& timeline)
      : plan_(plan),
        timeline_(timeline),
        context_{plan, BoundChunks(plan), is_bidirectional(plan)},
        pass_labels_(plan.segments.size(), no_index),
        first_labels_(plan.segments.size(), no_index) {}

  TraceEvents collect() {
    add_facts();
    for (const RankTimeline& rank : timeline_.ranks)
      if (!rank.passes.empty() || !rank.lanes.empty()) add_rank(rank);
    connect();
    if (!timeline_.links.empty()) add_links();
    return std::move(events_);
  }

 private:
  void add_facts() {
    events_.job = plan_.job.name;
    events_.step = timeline_.step;
    events_.facts = {{"job", plan_.job.name},
                     {"engine", timeline_.engine},
                     {"engine_reason", timeline_.engine_reason},
                     {"provenance", timeline_.provenance},
                     {"simrun_version", plan_.job.simrun_version},
                     {"config_sha256", plan_.job.config_sha256},
                     {"step_time_ps", timeline_.step}};
  }

  void add_rank(const RankTimeline& rank) {
    TraceProcess process;
    process.name = fmt::format("pp {} gpu {}", rank.pipeline_rank, rank.device);
    if (rank.multiplicity > 1) process.name += fmt::format(" (x{})", rank.multiplicity);
    const Program& program = plan_.programs[static_cast<std::size_t>(rank.pipeline_rank)];
    const std::string& compute = plan_.streams[compute_stream].name;
    if (!rank.passes.empty())
      process.threads.push_back({rank.lanes.empty() ? compute : "passes", pass_slices(rank, program)});
    std::vector<const Lane*> lanes;
    for (const Lane& lane : rank.lanes)
      if (!lane.intervals.empty()) lanes.push_back(&lane);
    std::stable_sort(lanes.begin(), lanes.end(),
                     [](const Lane* a, const Lane* b) { return a->stream < b->stream; });
    for (const Lane* lane : lanes) {
      const auto thread = static_cast<Index>(process.threads.size());
      process.threads.push_back({plan_.streams[lane->stream].name, lane_slices(*lane, program)});
      note_transfers(*lane, program, thread);
    }
    process.counters.push_back(memory_counter(rank.memory));
    events_.processes.push_back(std::move(process));
  }

  std::vector<TraceSlice> pass_slices(const RankTimeline& rank, const Program& program) {
    std::vector<TraceSlice> slices;
    slices.reserve(rank.passes.size());
    for (const PassInterval& pass : rank.passes) {
      const Entry& entry = program.entries[pass.entry];
      const Binding *first = binding_of(program, entry, 0), *second = binding_of(program, entry, 1);
      slices.push_back({.start = pass.start,
                        .duration = pass.duration,
                        .label = label_of_pass(entry.segment),
                        .microbatch = first ? first->microbatch : -1,
                        .second_microbatch = second ? second->microbatch : -1});
    }
    return slices;
  }

  std::vector<TraceSlice> lane_slices(const Lane& lane, const Program& program) {
    std::vector<TraceSlice> slices;
    slices.reserve(lane.intervals.size());
    for (const Interval& interval : lane.intervals) {
      const Entry& entry = program.entries[interval.entry];
      const Instruction& instruction = plan_.segments[entry.segment].instructions[interval.instruction];
      const Binding* bound = binding_of(program, entry, instruction.binding);
      slices.push_back({.start = interval.start,
                        .duration = interval.duration,
                        .wait = interval.wait,
                        .label = label_of_instruction(entry.segment, interval.instruction),
                        .microbatch = bound ? bound->microbatch : -1});
    }
    return slices;
  }

  Index label_of_pass(Index segment) {
    if (pass_labels_[segment] == no_index) {
      pass_labels_[segment] = static_cast<Index>(events_.labels.size());
      events_.labels.push_back(pass_label(context_, segment));
    }
    return pass_labels_[segment];
  }

  Index label_of_instruction(Index segment, Index instruction) {
    if (first_labels_[segment] == no_index) {
      first_labels_[segment] = static_cast<Index>(events_.labels.size());
      for (const Instruction& labelled : plan_.segments[segment].instructions)
        events_.labels.push_back(instruction_label(context_, segment, labelled));
    }
    return first_labels_[segment] + instruction;
  }

  static TraceCounter memory_counter(const std::vector<MemoryEvent>& memory) {
    TraceCounter counter;
    counter.name = "memory";
    for (int c = 0; c < category_count; ++c) counter.series.push_back(to_string(static_cast<Category>(c)));
    for (const MemoryEvent& event : memory) {
      counter.times.push_back(event.time);
      for (const std::int64_t live : event.live) counter.values.push_back(static_cast<double>(live));
    }
    return counter;
  }

  // Transfers between pipeline ranks only: those along an axis of the own mesh have no other recorded end.
  void note_transfers(const Lane& lane, const Program& program, Index thread) {
    const auto process = static_cast<Index>(events_.processes.size());
    for (Index i = 0; i < lane.intervals.size(); ++i) {
      const Entry& entry = program.entries[lane.intervals[i].entry];
      const Instruction& end = plan_.segments[entry.segment].instructions[lane.intervals[i].instruction];
      if (end.opcode != Opcode::send && end.opcode != Opcode::recv) continue;
      if (end.communication >= plan_.communications.size()) continue;
      const Communication& communication = plan_.communications[end.communication];
      const std::int32_t own = program.pipeline_rank, other = communication.peer.pipeline_rank;
      if (communication.channel == no_index || other < 0) continue;
      const Binding* bound = binding_of(program, entry, end.binding);
      const std::int32_t microbatch = bound ? bound->microbatch : -1, slice = bound ? bound->slice : 0;
      if (end.opcode == Opcode::send)
        sends_.push_back({{communication.channel, microbatch, slice, own, other}, {process, thread, i}});
      else
        receives_.push_back({{communication.channel, microbatch, slice, other, own}, {process, thread, i}});
    }
  }

  // The k-th SEND of a key goes with its k-th RECV.
  void connect() {
    const auto by_key = [](const TransferEnd& a, const TransferEnd& b) { return a.key < b.key; };
    std::stable_sort(sends_.begin(), sends_.end(), by_key);
    std::stable_sort(receives_.begin(), receives_.end(), by_key);
    auto receive = receives_.begin();
    for (const TransferEnd& send : sends_) {
      while (receive != receives_.end() && receive->key < send.key) ++receive;
      if (receive == receives_.end()) return;
      if (receive->key == send.key) add_arrow(send.place, (receive++)->place);
    }
  }

  void add_arrow(SlicePlace from, SlicePlace to) {
    TraceSlice& send = slice(from);
    TraceSlice& receive = slice(to);
    const auto inset = [](const TraceSlice& within) {
      const std::int64_t length = end_ns(within) - start_ns(within);
      return length < 2 ? 0 : std::clamp<std::int64_t>(length / 4, 1, 100);
    };
    const std::int64_t departs = start_ns(send) + inset(send);
    const std::int64_t before_end = inset(receive);
    const std::int64_t arrives = before_end > 0 ? end_ns(receive) - before_end : start_ns(receive);
    if (arrives < departs) return;
    send.arrow = receive.arrow = static_cast<Index>(events_.arrows.size());
    events_.arrows.push_back({from, to, departs, arrives});
  }

  TraceSlice& slice(SlicePlace place) {
    return events_.processes[place.process].threads[place.thread].slices[place.slice];
  }

  // A link's last value is 0 at the end of the step: viewers hold the value before for ever.
  void add_links() {
    TraceProcess links;
    links.name = "links";
    for (const LinkTimeline& link : timeline_.links) {
      if (link.utilisation.empty()) continue;
      TraceCounter counter;
      counter.name = link.name;
      counter.unit = TraceUnit::percent;
      counter.series = {"percent"};
      if (link.multiplicity > 1) counter.name += fmt::format(" (x{})", link.multiplicity);
      const auto slices = static_cast<Picoseconds>(link.utilisation.size());
      for (Picoseconds i = 0; i < slices; ++i) {
        // step x i / slices, which may exceed 64 bits on the way
        counter.times.push_back(timeline_.step / slices * i + timeline_.step % slices * i / slices);
        counter.values.push_back(100.0 * static_cast<double>(link.utilisation[static_cast<std::size_t>(i)]));
      }
      counter.times.push_back(timeline_.step);
      counter.values.push_back(0);
      links.counters.push_back(std::move(counter));
    }
    if (!links.counters.empty()) events_.processes.push_back(std::move(links));
  }

  const Plan& plan_;
  const Timeline& timeline_;
  const LabelContext context_;
  std::vector<Index> pass_labels_;   // by segment; no_index: not made yet
  std::vector<Index> first_labels_;  // likewise, of the segment's first instruction
  std::vector<TransferEnd> sends_, receives_;
  TraceEvents events_;
};

}  // namespace

std::string slice_name(const SliceLabel& label, const TraceSlice& slice) {
  if (!label.numbered || slice.microbatch < 0) return label.name;
  const std::string name = fmt::format("{}{}", label.name, slice.microbatch);
  return label.second.empty() ? name : fmt::format("{}{}{})", name, label.second, slice.second_microbatch);
}

TraceEvents trace_events(const Plan& plan, const Timeline& timeline) {
  return Collector(plan, timeline).collect();
}

}  // namespace simrun
