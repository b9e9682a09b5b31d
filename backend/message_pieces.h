#pragma once

#include "backend/tensor_part.h"

namespace simrun {

// Elements of a message of a collective, at most but for the rows of one index: what a rank has under way is
// then small beside its buffers, however large they are.
constexpr std::int64_t message_elements = 16'384;

// A part cut along its first dimension of more than one index, in order.
std::vector<TensorPart> message_pieces(const TensorPart& part);

}  // namespace simrun
