#pragma once

#include <string>

#include "validation/row_job.h"

namespace simrun {

// The fact `keys` of a model_type: how its dimensions are spelled; "none" where rows cannot state them.
std::string keys_of(const std::string& model_type);

// Writes the row's dimensions under the keys of its model's family (fact `keys`: megatron, hf, mpt, bloom,
// opt, neox, mixtral, qwen_moe, gpt2, grok, deepseek or none), over a preset where the model's rule names
// one.
void write_model(RowJob& made);

}  // namespace simrun
