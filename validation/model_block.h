#pragma once

#include "validation/row_job.h"

namespace simrun {

// Writes the row's dimensions under the keys of its model's family (fact `keys`: megatron, hf, mpt, bloom,
// opt, neox, mixtral, qwen_moe or deepseek), over a preset where the model's rule names one.
void write_model(RowJob& made);

}  // namespace simrun
