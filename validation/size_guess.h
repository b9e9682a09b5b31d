#pragma once

#include <cstdint>
#include <optional>

#include "validation/row_job.h"

namespace simrun {

// More nodes than that nobody leaves unsaid.
constexpr std::int64_t most_guessed_nodes = 64;

// What to try behind a job that does not fit, of what the row leaves open: parameters shared by data-parallel
// ranks that each kept all of them; half the microbatch or less; experts over as many ranks as they divide;
// twice the GPUs, as far as a node has them; twice the tensor-parallel ranks, within eight GPUs of a node;
// then twice the pipeline ranks, each on as many GPUs as before if their number is open too. Nothing where
// none is left.
std::optional<SizeGuess> next_guess(const RowJob& made);

}  // namespace simrun
