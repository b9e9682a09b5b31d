#pragma once

#include "validation/row_job.h"

namespace simrun {

// The sections training, optimizer and recompute. A global batch that micro batch x data parallelism does not
// divide becomes the next smaller one that it does (at least one), which is noted.
void write_training(RowJob& made);

// The section parallelism. Layers that pipeline x virtual stages do not divide are laid out as Megatron-LM
// and DeepSpeed do: one layer less on the first and the last stage if that divides (they hold embedding and
// loss), else full stages and what is left on the last one, or, where nothing would be left, one more on the
// first ones.
void write_parallelism(RowJob& made);

}  // namespace simrun
