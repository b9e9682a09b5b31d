#include <fmt/format.h>

#include <algorithm>

#include "schedules/lint_checks.h"

// Extents agree: only what every plan must obey is checked, and nothing about buffers whose extents vary over
// ranks.
namespace simrun {
namespace {

bool varies(const Buffer& buffer) {
  return std::any_of(buffer.dims.begin(), buffer.dims.end(),
                     [](const BufferDim& dim) { return dim.table >= 0; });
}

const BufferDim* find_dim(const Buffer& buffer, std::uint16_t name) {
  for (const BufferDim& dim : buffer.dims)
    if (dim.name == name) return &dim;
  return nullptr;
}

// A name that occurs twice in one buffer says nothing about which is meant.
bool has_repeated_name(const Buffer& buffer) {
  for (std::size_t i = 0; i < buffer.dims.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (buffer.dims[i].name == buffer.dims[k].name) return true;
  return false;
}

// D = A B with the contraction given by the names, as in einsum.
std::string gemm_error(const Plan& plan, const Buffer& a, const Buffer& b, const Buffer& d) {
  if (has_repeated_name(a) || has_repeated_name(b) || has_repeated_name(d)) return "";
  for (const BufferDim& dim : d.dims)
    if (!find_dim(a, dim.name) && !find_dim(b, dim.name))
      return fmt::format("has dimension '{}' in its output and in neither input",
                         plan.dimension_names[dim.name]);
  bool contracts = false;
  for (const BufferDim& dim : a.dims) {
    const BufferDim* other = find_dim(b, dim.name);
    if (!other) continue;
    if (!varies(a) && !varies(b) && other->extent != dim.extent)
      return fmt::format("has '{}' = {} in one input and {} in the other", plan.dimension_names[dim.name],
                         dim.extent, other->extent);
    contracts |= !find_dim(d, dim.name);
  }
  if (!contracts) return "sums over no dimension";
  for (const BufferDim& dim : d.dims) {
    const Buffer& source = find_dim(a, dim.name) ? a : b;
    const std::int64_t extent = find_dim(source, dim.name)->extent;
    if (!varies(source) && !varies(d) && extent != dim.extent)
      return fmt::format("has '{}' = {} in an input and {} in its output", plan.dimension_names[dim.name],
                         extent, dim.extent);
  }
  return "";
}

// The functions that make exactly one output element of one input element.
bool keeps_elements(const Instruction& what) {
  switch (what.function) {
    case Function::gelu:
    case Function::gelu_backward:
    case Function::relu:
    case Function::relu_backward:
    case Function::squared_relu:
    case Function::squared_relu_backward:
    case Function::soft_cap:
    case Function::soft_cap_backward:
    case Function::scale:
    case Function::clip:
    case Function::clip_backward:
    case Function::scale_queries:
    case Function::sum_gradients: return true;
    default: return false;
  }
}

std::string map_error(const Plan& plan, const Instruction& what) {
  if (!keeps_elements(what) || what.outputs.size() != 1) return "";
  const Buffer& out = plan.buffers[what.outputs[0]];
  const std::size_t inputs = what.function == Function::sum_gradients ? what.inputs.size() : 1;
  for (std::size_t i = 0; i < std::min(inputs, what.inputs.size()); ++i) {
    const Buffer& in = plan.buffers[what.inputs[i]];
    if (!varies(in) && !varies(out) && in.elements() != out.elements())
      return fmt::format("makes {} elements ('{}') of {} ('{}')", out.elements(), out.name, in.elements(),
                         in.name);
  }
  return "";
}

// GPUs of a group on one pipeline rank, or 0 if it names a mesh or an axis that is not there.
std::int64_t group_size(const StageDevices& stage, const Group& group) {
  if (group.mesh >= stage.meshes.size()) return 0;
  const Mesh& mesh = stage.meshes[group.mesh];
  std::int64_t size =
      group.pipeline_ranks.empty() ? 1 : static_cast<std::int64_t>(group.pipeline_ranks.size());
  std::vector<bool> used(mesh.axes.size(), false);
  for (const std::uint8_t axis : group.axes) {
    if (axis >= mesh.axes.size() || used[axis]) return 0;
    used[axis] = true;
    size *= mesh.axes[axis].size;
  }
  return size;
}

// whole == part x count, without the product's overflow.
bool is_times(std::int64_t whole, std::int64_t part, std::int64_t count) {
  return whole % count == 0 && whole / count == part;
}

std::string collective_error(const Plan& plan, const StageDevices& stage, const Instruction& what) {
  const std::int64_t size = group_size(stage, plan.communications[what.communication].group);
  if (size == 0) return "names a mesh or an axis that its pipeline rank does not have, or an axis twice";
  if (what.inputs.size() != what.outputs.size()) return "";
  for (std::size_t i = 0; i < what.inputs.size(); ++i) {
    const Buffer& in = plan.buffers[what.inputs[i]];
    const Buffer& out = plan.buffers[what.outputs[i]];
    if (varies(in) || varies(out)) continue;
    const bool gathers = what.opcode == Opcode::all_gather;
    const bool scatters = what.opcode == Opcode::reduce_scatter;
    const auto servers =
        static_cast<std::int64_t>(plan.communications[what.communication].servers.members.size());
    const bool keeps = what.opcode == Opcode::all_reduce || what.opcode == Opcode::broadcast;
    if ((what.opcode == Opcode::push && !is_times(in.elements(), out.elements(), servers)) ||
        (what.opcode == Opcode::pull && !is_times(out.elements(), in.elements(), servers)))
      return fmt::format("over {} servers makes {} elements ('{}') of {} ('{}')", servers, out.elements(),
                         out.name, in.elements(), in.name);
    if ((gathers && !is_times(out.elements(), in.elements(), size)) ||
        (scatters && !is_times(in.elements(), out.elements(), size)) ||
        (keeps && in.elements() != out.elements()))
      return fmt::format("over {} GPUs makes {} elements ('{}') of {} ('{}')", size, out.elements(), out.name,
                         in.elements(), in.name);
  }
  return "";
}

}  // namespace

void check_shapes(const Plan& plan, Findings& findings) {
  for (const Segment& segment : plan.segments)
    for (std::size_t i = 0; i < segment.instructions.size() && !findings.full(); ++i) {
      const Instruction& what = segment.instructions[i];
      std::string error;
      if (what.opcode == Opcode::gemm && what.inputs.size() >= 2 && !what.outputs.empty())
        error = gemm_error(plan, plan.buffers[what.inputs[0]], plan.buffers[what.inputs[1]],
                           plan.buffers[what.outputs[0]]);
      if (what.opcode == Opcode::gemm && (what.inputs.size() < 2 || what.outputs.empty()))
        error = "needs two inputs and an output";
      if (what.opcode == Opcode::map) error = map_error(plan, what);
      if (!error.empty()) findings.add(place(segment, i) + " " + error);
    }
  for (std::size_t rank = 0; rank < plan.programs.size(); ++rank)
    for (const Index index : segments_of(plan.programs[rank])) {
      const Segment& segment = plan.segments[index];
      for (std::size_t i = 0; i < segment.instructions.size() && !findings.full(); ++i) {
        const Opcode opcode = segment.instructions[i].opcode;
        if (!is_communication(opcode) || opcode < Opcode::all_reduce) continue;
        const std::string error = collective_error(plan, plan.stages[rank], segment.instructions[i]);
        if (!error.empty()) findings.add(place(segment, i) + " " + error);
      }
    }
}

}  // namespace simrun
