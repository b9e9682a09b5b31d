#include "sim/compiled_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>
#include <unordered_map>

#include "schedules/extent_tables.h"
#include "sim/alike_communications.h"
#include "sim/compute_stretch.h"
#include "sim/dependencies.h"
#include "sim/host_step.h"
#include "sim/kernel_cost.h"

namespace simrun {

namespace {

// (slice, microbatch) of a binding as one number.
Index instance_of(const Binding& binding, std::int32_t microbatches) {
  return static_cast<Index>(std::max(binding.slice, 0) * microbatches + std::max(binding.microbatch, 0));
}

struct InstanceBounds {
  std::int32_t microbatches = 1, slices = 1;
  Index bindings = 1;
};
InstanceBounds instance_bounds(const Plan& plan) {
  InstanceBounds bounds;
  for (const Program& program : plan.programs) {
    for (const Binding& binding : program.bindings) {
      bounds.microbatches = std::max(bounds.microbatches, binding.microbatch + 1);
      bounds.slices = std::max(bounds.slices, binding.slice + 1);
    }
    for (const Entry& entry : program.entries)
      bounds.bindings = std::max<Index>(bounds.bindings, entry.binding_count);
  }
  return bounds;
}

bool is_point_to_point(Opcode opcode) { return opcode == Opcode::send || opcode == Opcode::recv; }

// Compiles one rank after another and collects the channels that they use.
class Compiler {
 public:
  Compiler(const Plan& plan, WhichStep step, Durations& durations)
      : plan_(plan),
        step_(step),
        durations_(durations),
        bounds_(instance_bounds(plan)),
        first_alike_(first_alike(plan)) {}

  CompiledPlan compile() {
    CompiledPlan compiled;
    for (const Program& program : plan_.programs) {
      classes_ = table_classes(plan_, program);
      segments_.clear();
      alone_.clear();
      compiled.ranks.push_back(compile_rank(program));
      compiled.tables.push_back(compile_classes(compiled.ranks.back(), program));
    }
    compiled.channels = std::move(channels_);
    compiled.exchanges = std::move(exchanges_);
    return compiled;
  }

 private:
  // A segment of the plan and the first entry that runs it in its microbatches, or in some that are alike.
  struct SegmentRun {
    Index segment = 0;
    Index entry = 0;
  };

  CompiledRank compile_rank(const Program& program) {
    CompiledRank rank;
    for (const Binding& binding : program.bindings)
      rank.instances.push_back(instance_of(binding, bounds_.microbatches));
    const MicrobatchRows rows(plan_, program);
    std::map<std::pair<Index, std::vector<std::int64_t>>, Index> with_rows;
    compiled_segment_.assign(plan_.segments.size(), no_index);
    for (Index e = 0; e < program.entries.size(); ++e) {
      const Entry& entry = program.entries[e];
      if (!runs_in(entry.steps, step_)) continue;
      const std::vector<std::int64_t> own_rows = rows.of(entry);
      Index& segment = own_rows.empty()
                           ? compiled_segment_.at(entry.segment)
                           : with_rows.try_emplace({entry.segment, own_rows}, no_index).first->second;
      if (segment == no_index) {
        segment = static_cast<Index>(segments_.size());
        segments_.push_back({entry.segment, e});
      }
      rank.entries.push_back({segment, e, entry.first_binding, entry.binding_count});
    }
    for (const SegmentRun& run : segments_) compile_segment(rank, program, run);
    add_dependencies(rank);
    for (CompiledSegment& segment : rank.segments) join_compute(rank, segment);
    mark_passes(rank, program);
    count_channel_instances(rank);
    return rank;
  }

  // Passes without compute mark nothing.
  void mark_passes(CompiledRank& rank, const Program& program) const {
    for (Index e = 0; e < rank.entries.size(); ++e) {
      if (rank.segments[rank.entries[e].segment].first_compute == no_index) continue;
      const PassKind kind = plan_.segments[program.entries[rank.entries[e].entry].segment].kind;
      const bool pair = kind == PassKind::overlapped;
      if (kind == PassKind::forward || pair) rank.last_forward = e;
      const bool backward = kind == PassKind::backward || kind == PassKind::backward_input || pair;
      if (backward && rank.first_backward == no_index) rank.first_backward = e;
    }
  }

  // The same code with the times of the first GPU of each further class.
  TableCode compile_classes(const CompiledRank& first, const Program& program) {
    TableCode code;
    if (classes_.first_gpu.size() == 1) return code;
    code.class_of_gpu = classes_.of_gpu;
    for (std::size_t c = 1; c < classes_.first_gpu.size(); ++c) {
      CompiledRank& rank = code.classes.emplace_back();
      rank.entries = first.entries;
      rank.segments = first.segments;
      rank.references = first.references;
      rank.instances = first.instances;
      rank.slots = first.slots;
      rank.first_backward = first.first_backward;
      rank.last_forward = first.last_forward;
      for (std::size_t s = 0; s < segments_.size(); ++s) {
        CompiledSegment& segment = rank.segments[s];
        segment.first_step = static_cast<Index>(rank.steps.size());
        segment.compute = 0;
        const ProgramGpu gpu{program, classes_.first_gpu[c],
                             durations_.has_gpu_kinds()
                                 ? own_stretch(s, segment, {program, classes_.first_gpu[c]})
                                 : segment.stretch};
        for (Index i = 0; i < segment.steps; ++i) {
          CompiledStep step = first.steps[first.segments[s].first_step + i];
          if (step.exchange == no_index) step.duration = time_of(first, step, segments_[s], gpu);
          if (step.stream == compute_stream) segment.compute = saturated_sum(segment.compute, step.duration);
          rank.steps.push_back(step);
        }
      }
    }
    return code;
  }

  struct ProgramGpu {
    const Program& program;
    std::int64_t local_gpu = 0;
    double stretch = 1;  // of the segment's compute, see CompiledSegment
  };
  // On a GPU of another kind than the first, which exchanges what that does.
  double own_stretch(std::size_t number, CompiledSegment compiled, const ProgramGpu& gpu) {
    const SegmentRun& run = segments_[number];
    const Segment& segment = plan_.segments[run.segment];
    std::vector<Picoseconds> alone = alone_[number];
    compiled.compute = 0;
    for (std::size_t i = 0; i < alone.size(); ++i)
      if (const Instruction& of = segment.instructions[i];
          of.stream == compute_stream && of.opcode != Opcode::free && of.opcode != Opcode::init) {
        alone[i] = durations_.kernel_at(place_of(gpu, run, of), of);
        compiled.compute = saturated_sum(compiled.compute, alone[i]);
      }
    const Plan& plan = durations_.plan_at({gpu.program.pipeline_rank, gpu.local_gpu, 0});
    return compiled.compute == 0 ? 1 : stretch_of(plan, segment, compiled, std::move(alone));
  }
  Picoseconds time_of(const CompiledRank& first, const CompiledStep& step, const SegmentRun& run,
                      const ProgramGpu& gpu) {
    const Segment& segment = plan_.segments[run.segment];
    const bool has_kinds = durations_.has_gpu_kinds();
    const double stretch = has_kinds && step.stream != compute_stream ? 1 : gpu.stretch;
    const Index with_host_step = host_step_instruction(plan_, segment);
    Picoseconds time = 0;
    for (Index p = step.first_piece; p < step.first_piece + step.pieces; ++p) {
      const Index at = first.pieces[p].instruction;
      const Instruction& instruction = segment.instructions[at];
      if (!durations_.varies(instruction) && !has_kinds) {
        time = saturated_sum(time, first.pieces[p].duration);
        continue;
      }
      const Picoseconds alone = durations_.kernel_at(place_of(gpu, run, instruction), instruction);
      time = saturated_sum(time, stretched(alone, stretch));
      if (at == with_host_step) time = saturated_sum(time, host_step_);
    }
    return time;
  }

  static TablePlace place_of(const ProgramGpu& gpu, const SegmentRun& run, const Instruction& instruction) {
    const Entry& entry = gpu.program.entries[run.entry];
    const bool bound = instruction.binding < entry.binding_count;
    return {gpu.program.pipeline_rank, gpu.local_gpu,
            bound ? gpu.program.bindings[entry.first_binding + instruction.binding].microbatch : 0};
  }

  void compile_segment(CompiledRank& rank, const Program& program, const SegmentRun& run) {
    const Segment& segment = plan_.segments[run.segment];
    CompiledSegment compiled;
    compiled.first_step = static_cast<Index>(rank.steps.size());
    std::vector<Picoseconds>& alone = alone_.emplace_back(segment.instructions.size(), 0);
    for (Index i = 0; i < segment.instructions.size(); ++i) {
      const Instruction& instruction = segment.instructions[i];
      if (instruction.opcode == Opcode::free || instruction.opcode == Opcode::init) continue;
      CompiledStep step;
      step.first_piece = static_cast<Index>(rank.pieces.size());
      step.pieces = 1;
      step.stream = instruction.stream;
      step.binding = instruction.binding;
      if (is_communication(instruction.opcode)) {
        if (instruction.stream == compute_stream)
          throw std::runtime_error(fmt::format("segment {}: {} {} is on the compute stream", segment.name,
                                               to_string(instruction.opcode), instruction.label));
        step.exchange = exchange_of(instruction, place_of({program}, run, instruction));
        step.duration =
            durations_.exchange_time(program.pipeline_rank, instruction, exchanges_[step.exchange].bytes);
        step.pipeline_arrival = plan_.streams.at(instruction.stream).traffic == Traffic::pipeline &&
                                instruction.opcode != Opcode::send;
        if (plan_.streams.at(instruction.stream).traffic == Traffic::data)
          compiled.exchanging = saturated_sum(compiled.exchanging, step.duration);
        ++compiled.communications;
      } else {
        step.duration = durations_.kernel_at(place_of({program}, run, instruction), instruction);
      }
      const bool computes = instruction.stream == compute_stream;
      if (computes) compiled.compute = saturated_sum(compiled.compute, step.duration);
      if (computes || is_awaited(plan_, instruction)) alone[i] = step.duration;
      rank.pieces.push_back({step.duration, i});
      rank.steps.push_back(step);
    }
    compiled.instructions = compiled.steps = static_cast<Index>(rank.steps.size()) - compiled.first_step;
    stretch_compute(durations_.plan_at({program.pipeline_rank, 0, 0}), rank, segment, compiled);
    add_host_step(rank, segment, compiled);
    rank.segments.push_back(compiled);
  }

  double stretch_of(const Plan& plan, const Segment& segment, const CompiledSegment& compiled,
                    std::vector<Picoseconds> alone) const {
    StretchedPass times{.compute = compiled.compute, .times = std::move(alone)};
    if (slows_beside_exchanges(plan_, segment))
      times.beside =
          std::min(1.0, static_cast<double>(compiled.exchanging) / static_cast<double>(compiled.compute));
    return compute_stretch(plan, segment.instructions, times);
  }
  void stretch_compute(const Plan& plan, CompiledRank& rank, const Segment& segment,
                       CompiledSegment& compiled) const {
    if (compiled.compute == 0) return;
    compiled.stretch = stretch_of(plan, segment, compiled, alone_.back());
    if (compiled.stretch == 1) return;
    compiled.compute = 0;
    for (Index i = compiled.first_step; i < compiled.first_step + compiled.steps; ++i) {
      CompiledStep& step = rank.steps[i];
      if (step.stream != compute_stream) continue;
      step.duration = stretched(step.duration, compiled.stretch);
      rank.pieces[step.first_piece].duration = step.duration;
      compiled.compute = saturated_sum(compiled.compute, step.duration);
    }
  }

  void add_host_step(CompiledRank& rank, const Segment& segment, CompiledSegment& compiled) const {
    const Index at = host_step_instruction(plan_, segment);
    if (at == no_index) return;
    for (Index i = compiled.first_step; i < compiled.first_step + compiled.steps; ++i) {
      CompiledStep& step = rank.steps[i];
      if (rank.pieces[step.first_piece].instruction != at) continue;
      step.duration = saturated_sum(step.duration, host_step_);
      rank.pieces[step.first_piece].duration = step.duration;
      if (step.stream == compute_stream) compiled.compute = saturated_sum(compiled.compute, host_step_);
    }
  }

  // Makes one step of neighbours on the compute stream of which the second need not wait. Leaves a hole at
  // the segment's end: its steps stay where they are.
  static void join_compute(CompiledRank& rank, CompiledSegment& segment) {
    CompiledStep* const steps = rank.steps.data() + segment.first_step;
    Index kept = 0;
    for (Index i = 0; i < segment.steps; ++i) {
      const bool computes = steps[i].stream == compute_stream;
      if (computes && steps[i].reads == 0 && kept > 0 && steps[kept - 1].stream == compute_stream) {
        steps[kept - 1].duration = saturated_sum(steps[kept - 1].duration, steps[i].duration);
        ++steps[kept - 1].pieces;
        continue;
      }
      if (computes && segment.first_compute == no_index) segment.first_compute = kept;
      steps[kept++] = steps[i];
    }
    segment.steps = kept;
  }

  // `place`: of the first GPU.
  Index exchange_of(const Instruction& instruction, const TablePlace& place) {
    const std::vector<double> of_class = bytes_by_class(instruction, place);
    const std::tuple key{place.pipeline_rank, first_alike_.at(instruction.communication), instruction.opcode,
                         instruction.stream, of_class};
    const auto [found, fresh] = exchange_numbers_.try_emplace(key, static_cast<Index>(exchanges_.size()));
    if (!fresh) return found->second;
    CompiledExchange& exchange = exchanges_.emplace_back();
    exchange.pipeline_rank = place.pipeline_rank;
    exchange.stream = instruction.stream;
    exchange.channel = channel_of(instruction, place.pipeline_rank);
    exchange.instruction = &instruction;
    exchange.bytes = *std::max_element(of_class.begin(), of_class.end());
    if (of_class.size() > 1)
      for (const Index number : classes_.of_gpu) exchange.bytes_of_gpu.push_back(of_class[number]);
    return found->second;
  }

  // One number where all GPUs have equally many.
  std::vector<double> bytes_by_class(const Instruction& instruction, TablePlace place) {
    std::vector<double> bytes{durations_.bytes_at(place, instruction)};
    if (classes_.first_gpu.size() == 1 || !durations_.varies(instruction)) return bytes;
    for (std::size_t c = 1; c < classes_.first_gpu.size(); ++c) {
      place.local_gpu = classes_.first_gpu[c];
      bytes.push_back(durations_.bytes_at(place, instruction));
    }
    if (std::all_of(bytes.begin(), bytes.end(), [&](double of) { return of == bytes[0]; })) bytes.resize(1);
    return bytes;
  }

  Index channel_of(const Instruction& instruction, std::int32_t pipeline_rank) {
    const Communication& communication = plan_.communications.at(instruction.communication);
    if (communication.channel == no_index) return no_index;
    const auto [found, fresh] =
        channel_numbers_.try_emplace(communication.channel, static_cast<Index>(channels_.size()));
    if (fresh) channels_.push_back({0, is_point_to_point(instruction.opcode), {}});
    std::vector<std::int32_t>& ranks = channels_[found->second].pipeline_ranks;
    if (std::find(ranks.begin(), ranks.end(), pipeline_rank) == ranks.end()) ranks.push_back(pipeline_rank);
    return found->second;
  }

  void add_dependencies(CompiledRank& rank) const {
    std::vector<Index> segments;
    for (const SegmentRun& run : segments_) segments.push_back(run.segment);
    const Dependencies found = find_dependencies(
        plan_, segments, {bounds_.bindings, static_cast<Index>(bounds_.microbatches * bounds_.slices)});
    rank.slots = found.slots;
    auto read = found.reads.begin();
    auto write = found.writes.begin();
    const auto take = [&rank](auto& at, auto end, Index segment, Index instruction) {
      const std::size_t before = rank.references.size();
      for (; at != end && at->segment == segment && at->instruction == instruction; ++at)
        rank.references.push_back(at->reference);
      return static_cast<std::uint16_t>(rank.references.size() - before);
    };
    for (Index s = 0; s < segments.size(); ++s) {
      const CompiledSegment& segment = rank.segments[s];
      for (Index i = segment.first_step; i < segment.first_step + segment.steps; ++i) {
        CompiledStep& step = rank.steps[i];
        step.first_read = static_cast<Index>(rank.references.size());
        step.reads = take(read, found.reads.end(), s, rank.pieces[step.first_piece].instruction);
        step.first_write = static_cast<Index>(rank.references.size());
        step.writes = take(write, found.writes.end(), s, rank.pieces[step.first_piece].instruction);
      }
    }
  }

  void count_channel_instances(const CompiledRank& rank) {
    std::vector<std::vector<std::pair<Index, std::uint8_t>>> uses(
        rank.segments.size());  // (channel, binding)
    for (std::size_t s = 0; s < rank.segments.size(); ++s)
      for (Index i = 0; i < rank.segments[s].steps; ++i) {
        const CompiledStep& step = rank.steps[rank.segments[s].first_step + i];
        if (step.exchange == no_index || exchanges_[step.exchange].channel == no_index) continue;
        uses[s].emplace_back(exchanges_[step.exchange].channel, step.binding);
      }
    for (const CompiledEntry& entry : rank.entries)
      for (const auto& [channel, binding] : uses[entry.segment]) {
        Index& instances = channels_[channel].instances;
        instances = std::max(instances, rank.instance(entry, binding) + 1);
      }
  }

  const Plan& plan_;
  const WhichStep step_;
  Durations& durations_;
  const Picoseconds host_step_ = to_picoseconds(plan_.framework.kernels.host_step_s);
  const InstanceBounds bounds_;
  const std::vector<Index> first_alike_;         // by communication
  TableClasses classes_;                         // of the rank that is compiled
  std::vector<SegmentRun> segments_;             // of the rank that is compiled, by number there
  std::vector<std::vector<Picoseconds>> alone_;  // likewise: StretchedPass::times
  std::vector<Index> compiled_segment_;
  std::unordered_map<Index, Index> channel_numbers_;
  std::vector<Channel> channels_;
  std::map<std::tuple<std::int32_t, Index, Opcode, std::uint8_t, std::vector<double>>, Index>
      exchange_numbers_;
  std::vector<CompiledExchange> exchanges_;
};

}  // namespace

CompiledPlan compile_programs(const Plan& plan, WhichStep step, Durations& durations) {
  return Compiler(plan, step, durations).compile();
}

}  // namespace simrun
