#pragma once

#include "configs/job.h"
#include "models/decoder_layer.h"
#include "models/graph.h"

namespace simrun {

// The forward graph of a decoder-only transformer. What a family has, ModelConfig says in values: norms
// before, behind or around attention and MLP or both in parallel (GPT-NeoX), layer or RMS norm, learned,
// rotary or no positions (ALiBi adds its bias to the attention scores), grouped-query attention, norms of
// queries and keys (Qwen3), sliding windows by layer and soft caps (Gemma 2), GELU, ReLU or gated MLPs,
// biases, tied or untied head.
//
// Dimensions: batch (the sequences of one microbatch over all data-parallel ranks), sequence, hidden,
// kv_heads, group (query heads per key head), qkv (= group + 2: a key head's queries, key and value,
// Megatron-LM's packing), qk (2: weights of the norms of queries and of keys), head_dim, ffn, gate (2, gated
// MLPs), vocab, positions. The vocabulary is padded to a multiple of 128 x tensor parallel, as Megatron-LM's
// make-vocab-size-divisible-by does.
Graph decoder_graph(const Job& job);

// These dimensions of a job's transformer, written into `graph`: where key and value heads are copied,
// kv_heads counts the copies, and qkv_rows are a token's rows of all heads without them.
DecoderDimensions decoder_dimensions(const Job& job, GraphBuilder& graph);
DimensionId padded_vocabulary(const Job& job, GraphBuilder& graph);

}  // namespace simrun
