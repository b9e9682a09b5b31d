#pragma once

#include "configs/job.h"
#include "models/graph.h"

namespace simrun {

// The forward graph of a decoder-only transformer: GPT-2/3 (layer norm, learned positions, GELU, biases),
// Llama, Mistral and Qwen2 (RMS norm, rotary positions, SwiGLU, grouped-query attention), tied or untied
// head.
//
// Dimensions: batch (the sequences of one microbatch over all data-parallel ranks), sequence, hidden,
// kv_heads, group (query heads per key head), qkv (= group + 2: a key head's queries, key and value,
// Megatron-LM's packing), head_dim, ffn, gate (2, SwiGLU), vocab, positions. The vocabulary is padded to a
// multiple of 128 x tensor parallel, as Megatron-LM's make-vocab-size-divisible-by does.
Graph decoder_graph(const Job& job);

}  // namespace simrun
