#include <fmt/format.h>

#include <algorithm>

#include "schedules/lint_checks.h"

// Kernels work on the memory of their stream's device; only COPY goes from one memory to another, and only
// where the host has numbers.
namespace simrun {
namespace {

MemorySpace space_of(StreamDevice device) {
  if (device == StreamDevice::host) return MemorySpace::host;
  return device == StreamDevice::nvme ? MemorySpace::nvme : MemorySpace::device;
}

std::string space_error(const Plan& plan, const Instruction& what) {
  if (what.opcode == Opcode::free || what.opcode == Opcode::init) return "";
  const auto all_in = [&](const std::vector<Index>& buffers, MemorySpace space) {
    return std::all_of(buffers.begin(), buffers.end(),
                       [&](Index buffer) { return plan.buffers[buffer].space == space; });
  };
  if (what.opcode == Opcode::copy && !what.inputs.empty() && !what.outputs.empty()) {
    const MemorySpace from = plan.buffers[what.inputs[0]].space, to = plan.buffers[what.outputs[0]].space;
    if (!all_in(what.inputs, from) || !all_in(what.outputs, to)) return "copies from or to two memories";
    if (from != to && what.stream == compute_stream) return "leaves the GPU on the compute stream";
    if (from != to && from != MemorySpace::host && to != MemorySpace::host)
      return "copies between the GPU and a drive, past the host's memory";
    if (from != to) return "";
  }
  const MemorySpace space = space_of(plan.streams[what.stream].device);
  if (all_in(what.inputs, space) && all_in(what.outputs, space)) return "";
  return "works on memory that is not that of its stream's device";
}

}  // namespace

void check_memory_spaces(const Plan& plan, Findings& findings) {
  for (const Buffer& buffer : plan.buffers)
    if (buffer.parent != no_index && buffer.space != plan.buffers[buffer.parent].space)
      findings.add(fmt::format("buffer '{}' is a view into another memory", buffer.name));
  for (const Segment& segment : plan.segments)
    for (std::size_t i = 0; i < segment.instructions.size() && !findings.full(); ++i) {
      const std::string error = space_error(plan, segment.instructions[i]);
      if (!error.empty()) findings.add(place(segment, i) + " " + error);
    }
}

}  // namespace simrun
