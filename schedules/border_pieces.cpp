#include "schedules/border_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "schedules/flat_buffer.h"

namespace simrun {

void declare_pieces(Plan& plan, ChunkEmission& emission, Index buffer, std::int64_t pieces) {
  const auto [known, is_new] = emission.pieces.try_emplace({buffer, pieces});
  if (!is_new) return;
  const std::int64_t elements = plan.buffers[buffer].elements();
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const Buffer& whole = plan.buffers[buffer];
    const std::int64_t first = elements * piece / pieces, end = elements * (piece + 1) / pieces;
    const Index view = add_flat_buffer(plan, fmt::format("{} chunk {}/{}", whole.name, piece + 1, pieces),
                                       whole.category, whole.dtype, end - first);
    plan.buffers[view].scope = plan.buffers[buffer].scope;
    plan.buffers[view].parent = buffer;
    plan.buffers[view].parent_offset = first;
    known->second.push_back(view);
  }
}

std::vector<Instruction> in_pieces(const ChunkEmission& emission, Instruction whole, std::int64_t pieces) {
  if (pieces == 1) return {std::move(whole)};
  std::vector<Instruction> instructions(static_cast<std::size_t>(pieces), whole);
  for (std::size_t piece = 0; piece < instructions.size(); ++piece) {
    Instruction& part = instructions[piece];
    for (std::vector<Index>* const buffers : {&part.inputs, &part.outputs})
      for (Index& buffer : *buffers) buffer = emission.pieces.at({buffer, pieces})[piece];
    part.label = fmt::format("{} {}/{}", whole.label, piece + 1, pieces);
  }
  return instructions;
}

std::vector<Instruction> emit_transfer(const ChunkEmission& emission, const ChunkCode& code,
                                       const TransferEnd& end) {
  const bool sends = end.opcode == Opcode::send;
  const bool forward = code.values[end.values.front()].kind == ValueKind::activation;
  Instruction whole, release;
  whole.opcode = end.opcode;
  whole.phase = forward ? Phase::forward : Phase::backward_input;
  whole.stream = end.stream;
  whole.label = forward ? "activation" : "gradient";
  release.opcode = Opcode::free;
  release.phase = whole.phase;
  for (const ValueId value : end.values) {
    (sends ? whole.inputs : whole.outputs).push_back(emission.buffer_of[value]);
    const bool kept = code.values[value].saved || std::ranges::count(emission.kept_before, value) > 0;
    if (sends && !kept) release.inputs.push_back(emission.buffer_of[value]);
  }
  std::vector<Instruction> instructions =
      in_pieces(emission, std::move(whole), static_cast<std::int64_t>(end.communications.size()));
  for (std::size_t piece = 0; piece < instructions.size(); ++piece)
    instructions[piece].communication = end.communications[piece];
  if (!release.inputs.empty()) instructions.push_back(std::move(release));
  return instructions;
}

}  // namespace simrun
