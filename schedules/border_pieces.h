#pragma once

#include <cstdint>
#include <vector>

#include "schedules/emit_segments.h"

// Chunked broadcast: what crosses a border of unlike stages goes over it in pieces, so that the broadcast of
// one behind the border runs beside the transfer of the next. A piece is a view of the whole's buffer, as
// many elements as the others up to one, in storage order; both ends have the same local shape.
namespace simrun {

// Declares the views of one buffer. REQUIRES: 1 <= pieces <= its elements.
void declare_pieces(Plan& plan, ChunkEmission& emission, Index buffer, std::int64_t pieces);

// The instruction on one piece of its buffers after another. REQUIRES: declare_pieces for each of them.
std::vector<Instruction> in_pieces(const ChunkEmission& emission, Instruction whole, std::int64_t pieces);

}  // namespace simrun
