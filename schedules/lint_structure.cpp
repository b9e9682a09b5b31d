#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "schedules/extent_tables.h"
#include "schedules/lint_checks.h"

// Indices are in range and sizes are ones that arithmetic on them cannot overflow.
namespace simrun {
namespace {

constexpr std::int64_t most_elements = std::int64_t{1} << 50;  // x 8 bytes x 1024 buffers stay within 63 bits
constexpr std::int64_t most_devices = std::int64_t{1} << 31;
constexpr std::uint64_t most_executed = std::uint64_t{1} << 33;  // instruction instances of one program
constexpr std::int64_t most_microbatches = std::int64_t{1} << 31;

bool is_index(std::int64_t value, std::size_t size) { return value >= 0 && std::cmp_less(value, size); }

// Product of sizes >= 0, or -1 where it exceeds `most`.
template <class Range, class Size>
std::int64_t bounded_product(const Range& range, Size size, std::int64_t most) {
  std::int64_t product = 1;
  for (const auto& item : range) {
    if (size(item) < 0 || size(item) > most) return -1;
    if (size(item) != 0 && product > most / size(item)) return -1;
    product *= size(item);
  }
  return product;
}

void check_stages(const Plan& plan, Findings& findings) {
  if (plan.stages.size() != plan.programs.size())
    findings.add(fmt::format("{} stages do not match {} programs", plan.stages.size(), plan.programs.size()));
  std::int64_t devices = 0;
  for (std::size_t rank = 0; rank < plan.stages.size(); ++rank) {
    std::int64_t own = 0;
    for (const DeviceRange& range : plan.stages[rank].devices) {
      if (range.first < 0 || range.count < 1 || range.first >= most_devices || range.count >= most_devices)
        return findings.add(
            fmt::format("pipeline rank {} has {} devices from {}", rank, range.count, range.first));
      own += range.count;
      devices += range.count;
      if (devices >= most_devices) return findings.add("the plan has more than 2^31 devices");
    }
    for (const Mesh& mesh : plan.stages[rank].meshes) {
      const auto size = bounded_product(
          mesh.axes, [](const Axis& axis) { return axis.size; }, most_devices);
      if (size != own)
        findings.add(fmt::format("mesh '{}' of pipeline rank {} has {} coordinates for {} devices", mesh.name,
                                 rank, size < 0 ? "too many" : std::to_string(size), own));
    }
  }
  for (std::size_t rank = 0; rank < plan.programs.size(); ++rank)
    if (std::cmp_not_equal(plan.programs[rank].pipeline_rank, rank))
      findings.add(
          fmt::format("program {} is that of pipeline rank {}", rank, plan.programs[rank].pipeline_rank));
}

void check_chunks(const Plan& plan, Findings& findings) {
  if (plan.job.microbatches < 0 || plan.job.microbatches >= most_microbatches)
    findings.add(fmt::format("{} microbatches are out of range", plan.job.microbatches));
  if (plan.streams.empty() || plan.streams[compute_stream].traffic != Traffic::compute)
    findings.add("stream 0 is not the compute stream");
  for (std::size_t i = 0; i < plan.chunks.size(); ++i) {
    const Chunk& chunk = plan.chunks[i];
    if (!is_index(chunk.pipeline_rank, plan.programs.size()))
      findings.add(
          fmt::format("chunk {} is on pipeline rank {} of {}", i, chunk.pipeline_rank, plan.programs.size()));
    if (chunk.layers < 0 || chunk.mtp_layers < 0 || chunk.parameters < 0)
      findings.add(
          fmt::format("chunk {} has {} layers and {} parameters", i, chunk.layers, chunk.parameters));
  }
}

void check_buffer(const Plan& plan, const Buffer& buffer, Findings& findings) {
  for (const BufferDim& dim : buffer.dims) {
    if (!is_index(dim.name, plan.dimension_names.size()))
      findings.add(fmt::format("buffer '{}' names dimension {} of {}", buffer.name, dim.name,
                               plan.dimension_names.size()));
    if (dim.table != -1 && !is_index(dim.table, plan.extent_tables.size()))
      findings.add(fmt::format("buffer '{}' names extent table {} of {}", buffer.name, dim.table,
                               plan.extent_tables.size()));
  }
  if (bounded_product(
          buffer.dims, [](const BufferDim& dim) { return dim.extent; }, most_elements) < 0)
    findings.add(fmt::format("buffer '{}' has a negative extent or more than 2^50 elements", buffer.name));
  if (!buffer.split.empty() && buffer.split.size() != buffer.dims.size())
    findings.add(fmt::format("buffer '{}' splits {} of {} dimensions", buffer.name, buffer.split.size(),
                             buffer.dims.size()));
  for (const std::string& names : buffer.split)
    for (const std::int32_t rank : ranks_of_split(names))
      if (!is_index(rank, plan.stages.size()))
        findings.add(fmt::format("buffer '{}' is split over pipeline ranks that are not there: '{}'",
                                 buffer.name, names));
  if (buffer.shard_of != no_index && !is_index(buffer.shard_of, plan.buffers.size()))
    findings.add(fmt::format("buffer '{}' is a shard of buffer {} of {}", buffer.name, buffer.shard_of,
                             plan.buffers.size()));
  if (buffer.parent != no_index && !is_index(buffer.parent, plan.buffers.size()))
    findings.add(fmt::format("buffer '{}' is a view of buffer {} of {}", buffer.name, buffer.parent,
                             plan.buffers.size()));
}

// A view lies within its parent, and no buffer is a view of itself. Needs good parents and extents.
void check_views(const Plan& plan, Findings& findings) {
  std::vector<Index> seen(plan.buffers.size(), no_index);  // the walk that was here last
  for (Index start = 0; start < plan.buffers.size(); ++start)
    for (Index i = start; plan.buffers[i].parent != no_index && seen[i] == no_index;
         i = plan.buffers[i].parent) {
      seen[i] = start;
      const Buffer& view = plan.buffers[i];
      const Buffer& parent = plan.buffers[view.parent];
      if (seen[view.parent] == start)
        findings.add(fmt::format("buffer '{}' is a view of itself", parent.name));
      if (view.parent_offset < 0 || view.parent_offset > most_elements ||
          (view.dtype == parent.dtype && view.parent_offset + view.elements() > parent.elements()))
        findings.add(
            fmt::format("buffer '{}' reaches beyond '{}', of which it is a view", view.name, parent.name));
    }
}

void check_communications(const Plan& plan, Findings& findings) {
  for (std::size_t i = 0; i < plan.communications.size(); ++i) {
    const Communication& communication = plan.communications[i];
    std::vector<std::int32_t> ranks = communication.group.pipeline_ranks;
    std::sort(ranks.begin(), ranks.end());
    const bool in_range = std::all_of(
        ranks.begin(), ranks.end(), [&](std::int32_t rank) { return is_index(rank, plan.programs.size()); });
    if (!in_range || std::adjacent_find(ranks.begin(), ranks.end()) != ranks.end())
      findings.add(fmt::format("communication {} names a pipeline rank twice or one that is not there", i));
    const std::int32_t peer = communication.peer.pipeline_rank;
    if (peer != -1 && !is_index(peer, plan.programs.size()))
      findings.add(fmt::format("communication {} has pipeline rank {} of {} as its peer", i, peer,
                               plan.programs.size()));
    if (communication.channel == no_index && !ranks.empty() && !communication.servers.one_sided)
      findings.add(fmt::format("communication {} spans pipeline ranks without a channel", i));
  }
}

void check_instruction(const Plan& plan, const Segment& segment, std::size_t i, Findings& findings) {
  const Instruction& what = segment.instructions[i];
  const auto wrong = [&](const std::string& sentence) { findings.add(place(segment, i) + " " + sentence); };
  if (!is_index(what.stream, plan.streams.size()))
    wrong(fmt::format("runs on stream {} of {}", what.stream, plan.streams.size()));
  const auto is_buffer = [&](Index buffer) { return is_index(buffer, plan.buffers.size()); };
  if (!std::all_of(what.inputs.begin(), what.inputs.end(), is_buffer) ||
      !std::all_of(what.outputs.begin(), what.outputs.end(), is_buffer) ||
      !std::all_of(what.waits_for.begin(), what.waits_for.end(), is_buffer))
    wrong(fmt::format("names a buffer beyond the {} that there are", plan.buffers.size()));
  if (what.work_table != -1 && !is_index(what.work_table, plan.extent_tables.size()))
    wrong(
        fmt::format("takes its work from extent table {} of {}", what.work_table, plan.extent_tables.size()));
  if (what.layer < -1) wrong(fmt::format("is of layer {}", what.layer));
  if (!(what.dropout >= 0 && what.dropout < 1)) wrong("has a dropout probability outside [0, 1)");
  if (what.communication == no_index ? is_communication(what.opcode)
                                     : !is_index(what.communication, plan.communications.size())) {
    wrong("has no communication that there is");
  } else if (what.opcode == Opcode::send || what.opcode == Opcode::recv) {
    const Communication& communication = plan.communications[what.communication];
    if (communication.peer.pipeline_rank < 0 ? communication.peer.axes.empty()
                                             : communication.channel == no_index)
      wrong(communication.peer.pipeline_rank < 0 ? "has no peer" : "has no channel to its peer");
    if (what.opcode == Opcode::send ? what.inputs.empty() : what.outputs.empty())
      wrong("names no buffer to transfer");
  }
  if (what.opcode == Opcode::free && !what.outputs.empty()) wrong("lists what it frees as outputs");
}

void check_program(const Plan& plan, const Program& program, const std::vector<int>& bindings_needed,
                   Findings& findings) {
  const std::int64_t microbatches = std::max<std::int64_t>(plan.job.microbatches, 1);
  for (const Binding& binding : program.bindings)
    if ((binding.chunk != no_index && !is_index(binding.chunk, plan.chunks.size())) ||
        binding.microbatch < 0 || binding.microbatch >= microbatches)
      findings.add(fmt::format("pipeline rank {} binds chunk {} of {} and microbatch {} of {}",
                               program.pipeline_rank, binding.chunk, plan.chunks.size(), binding.microbatch,
                               microbatches));
  Index sequence = 0;
  std::uint64_t executed = 0;
  for (std::size_t i = 0; i < program.entries.size() && !findings.full(); ++i) {
    const Entry& entry = program.entries[i];
    if (!is_index(entry.segment, plan.segments.size())) {
      findings.add(fmt::format("pipeline rank {}, entry {} runs segment {} of {}", program.pipeline_rank, i,
                               entry.segment, plan.segments.size()));
    } else if (entry.binding_count < 1 ||
               std::uint64_t{entry.first_binding} + entry.binding_count > program.bindings.size()) {
      findings.add(fmt::format("pipeline rank {}, entry {} has {} bindings from {} of {}",
                               program.pipeline_rank, i, entry.binding_count, entry.first_binding,
                               program.bindings.size()));
    } else if (bindings_needed[entry.segment] > entry.binding_count) {
      findings.add(fmt::format("{} has {} bindings, but its segment uses {}", place(plan, program, i),
                               entry.binding_count, bindings_needed[entry.segment]));
    } else if (entry.sequence < sequence) {
      findings.add(
          fmt::format("{} has sequence {} behind {}", place(plan, program, i), entry.sequence, sequence));
    }
    sequence = entry.sequence;
    if (!is_index(entry.segment, plan.segments.size())) continue;
    executed += plan.segments[entry.segment].instructions.size();
    if (executed > most_executed)
      return findings.add(
          fmt::format("pipeline rank {} runs more than 2^33 instructions", program.pipeline_rank));
  }
}

}  // namespace

void check_structure(const Plan& plan, Findings& findings) {
  check_stages(plan, findings);
  check_chunks(plan, findings);
  for (const Buffer& buffer : plan.buffers) check_buffer(plan, buffer, findings);
  if (!findings.empty()) return;
  check_views(plan, findings);
  check_communications(plan, findings);
  std::vector<int> bindings_needed;
  for (const Segment& segment : plan.segments) {
    if (segment.chunk != no_index && !is_index(segment.chunk, plan.chunks.size()))
      findings.add(
          fmt::format("segment '{}' is of chunk {} of {}", segment.name, segment.chunk, plan.chunks.size()));
    bindings_needed.push_back(0);
    for (std::size_t i = 0; i < segment.instructions.size() && !findings.full(); ++i) {
      check_instruction(plan, segment, i, findings);
      bindings_needed.back() = std::max(bindings_needed.back(), segment.instructions[i].binding + 1);
    }
  }
  for (const Program& program : plan.programs) check_program(plan, program, bindings_needed, findings);
}

}  // namespace simrun
