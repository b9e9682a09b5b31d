#include <fmt/format.h>

#include <algorithm>

#include "schedules/lint_checks.h"

// Transfers along the axes of one mesh, which all its ranks run alike: the k-th SEND of a segment meets the
// k-th RECV. They match, and no stream has both, since around a ring each would wait for the other.
namespace simrun {
namespace {

bool is_in_mesh(const Plan& plan, const Instruction& what) {
  return (what.opcode == Opcode::send || what.opcode == Opcode::recv) &&
         plan.communications[what.communication].peer.pipeline_rank < 0;
}

std::int64_t payload(const Plan& plan, const std::vector<Index>& buffers) {
  std::int64_t bytes = 0;
  for (const Index buffer : buffers) bytes += plan.buffers[buffer].stored_bytes();
  return bytes;
}

std::string pair_error(const Plan& plan, const Instruction& send, const Instruction& recv) {
  const Communication& out = plan.communications[send.communication];
  const Communication& in = plan.communications[recv.communication];
  if (out.group.mesh != in.group.mesh || out.peer.axes != in.peer.axes || out.peer.wrap != in.peer.wrap ||
      out.peer.offset != -in.peer.offset)
    return fmt::format("does not go where RECV {} comes from", recv.label);
  const std::int64_t sent = payload(plan, send.inputs), received = payload(plan, recv.outputs);
  if (sent != received) return fmt::format("sends {} bytes, but its RECV expects {}", sent, received);
  if (send.stream == recv.stream)
    return fmt::format("and its RECV are both on stream '{}'", plan.streams[send.stream].name);
  return "";
}

void check_segment(const Plan& plan, const Segment& segment, Findings& findings) {
  std::vector<std::size_t> sends, recvs;
  for (std::size_t i = 0; i < segment.instructions.size(); ++i)
    if (is_in_mesh(plan, segment.instructions[i]))
      (segment.instructions[i].opcode == Opcode::send ? sends : recvs).push_back(i);
  if (sends.size() != recvs.size())
    return findings.add(fmt::format("segment '{}' has {} SENDs and {} RECVs along axes of its mesh",
                                    segment.name, sends.size(), recvs.size()));
  for (std::size_t k = 0; k < sends.size() && !findings.full(); ++k) {
    const std::string error =
        pair_error(plan, segment.instructions[sends[k]], segment.instructions[recvs[k]]);
    if (!error.empty()) findings.add(place(segment, sends[k]) + " " + error);
  }
}

bool has_axes(const StageDevices& stage, std::size_t mesh, const std::vector<std::uint8_t>& named) {
  if (mesh >= stage.meshes.size()) return named.empty();
  const std::size_t axes = stage.meshes[mesh].axes.size();
  return std::all_of(named.begin(), named.end(), [&](std::uint8_t axis) { return axis < axes; });
}

bool has_axes(const Plan& plan, const StageDevices& stage, const Instruction& what) {
  if (!has_axes(stage, 0, what.part.axes)) return false;
  if (!is_in_mesh(plan, what)) return true;
  const Communication& communication = plan.communications[what.communication];
  return has_axes(stage, communication.group.mesh, communication.peer.axes);
}

}  // namespace

void check_rings(const Plan& plan, Findings& findings) {
  for (const Segment& segment : plan.segments) check_segment(plan, segment, findings);
  for (std::size_t rank = 0; rank < plan.programs.size(); ++rank)
    for (const Index index : segments_of(plan.programs[rank])) {
      const Segment& segment = plan.segments[index];
      for (std::size_t i = 0; i < segment.instructions.size() && !findings.full(); ++i)
        if (!has_axes(plan, plan.stages[rank], segment.instructions[i]))
          findings.add(place(segment, i) + " names an axis that its pipeline rank does not have");
    }
}

}  // namespace simrun
