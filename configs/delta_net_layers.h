#pragma once

#include "configs/load_model_keys.h"

// Gated DeltaNet layers among those of a model.
namespace simrun {

// The sizes, under Hugging Face's keys, which are Megatron-LM's too: linear_num_key_heads, ..
void read_delta_net(const ModelKeys& keys);
// Which layers: layer_types (linear_attention, full_attention) or, where it is not written, all but every
// full_attention_interval-th.
void read_linear_attention_layers(const ModelKeys& keys);
// The same of Megatron-LM's keys: experimental_attention_variant and linear_attention_freq, n for all but
// every n-th or a list of zeros and ones. Nothing where no variant is written.
void read_gpt_delta_net(const ModelKeys& keys);

}  // namespace simrun
