#pragma once

#include "validation/row_job.h"

namespace simrun {

// Megatron-LM's padded GPT-2 vocabulary.
constexpr std::int64_t usual_vocabulary = 51200;

// Cells that no rule filled, by Megatron-LM's habits: sizes of parallelism 1, micro batch 1, bf16, the
// distributed optimizer, nothing recomputed, flash attention; heads of 128 elements (64 below a width of
// 2,048); data parallelism from the GPUs, of which there are as many as the stated sizes need, else `guess`,
// else one; a batch of one microbatch per data-parallel rank, four per pipeline rank where there are several;
// 2,048 tokens, or as many positions as the preset has, if fewer. Of sources without a rule a microbatch has
// `guess` sequences, else 2,048 tokens or one longer sequence, and a step without pipeline four of them. Each
// is noted in `assumed`.
void fill_in_defaults(RowJob& made, const SizeGuess& guess);

// Sets one empty cell, and notes it.
void assume(RowJob& made, Column column, const std::string& value);

}  // namespace simrun
