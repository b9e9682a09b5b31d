#pragma once

#include <optional>

#include "models/graph.h"

namespace simrun {

// Dimensions of a mixture of experts:
//   experts        routed experts, over which expert parallel ranks split the weights
//   expert_scores  of the same size: the router's outputs, never split
//   topk           experts of a token
//   capacity       rows that an expert takes from the whole microbatch. Without a capacity factor those of an
//                  even load, batch x sequence x topk / experts; with one, that many times as many. Padded to
//                  a multiple of the tensor x context x data parallel size.
//   expert_ffn, shared_ffn
//   node_rows, gpu_rows  rows per expert where a token is sent once to each node, and within it once to each
//                  GPU, that has any of its experts (deepep); none where there is one node, or one such GPU
//                  on each
struct MoeDimensions {
  DimensionId experts = 0, expert_scores = 0, topk = 0, capacity = 0, expert_ffn = 0, shared_ffn = 0;
  std::optional<DimensionId> latent = {};  // what experts have of a token; none: its hidden vector
  std::optional<DimensionId> node_rows = {}, gpu_rows = {};
  std::optional<DimensionId> mask_places = {};  // einsum: rows of all experts for a group of tokens
  bool gathers_tokens = false;                  // every rank gets all tokens (allgather)
  std::vector<double> scope = {1, 1};  // parts of a rank's sequence that count by themselves, zigzag ranks
  bool has_capacity = false;
  std::vector<double> mask_group = {};  // einsum: tokens that share a mask, rows of an expert for them
};

// Dimensions of multi-head latent attention:
//   q_lora, kv_lora  the compressed vectors; kv_down is kv_lora and the heads' shared rotated part, qk_rope
//   qk_dim, v_dim    of a head's queries and keys, and of its values
//   kv_up            of what a head makes of kv_lora: the keys' part without position, and the values
struct LatentDimensions {
  DimensionId q_lora = 0, kv_lora = 0, kv_down = 0, qk_rope = 0, qk_dim = 0, v_dim = 0, kv_up = 0;
};

// Dimensions of Mamba-2 layers:
//   groups     of heads that share B and C, over which tensor-parallel ranks divide the layer
//   packed     of a group what is made from a token: z, x, B, C and dt
//   convolved  of a group x, B and C; taps: tokens of the convolution
//   inner      channels of a group's heads
//   heads      of a group
struct MambaDimensions {
  DimensionId groups = 0, packed = 0, convolved = 0, taps = 0, inner = 0, heads = 0;
};

// Dimensions of Gated DeltaNet layers:
//   heads      of keys, over which tensor-parallel ranks divide the layer; group: value heads of each
//   packed     of a key head what is made from a token: q, k, v of its value heads, their b and a
//   convolved  of a key head q, k and v; taps: tokens of the convolution
//   value      of a value head; qkv: its query, key and value
//   chunk      tokens that are taken together: of a value head a row of the inverse
//   statistics of a value head: the reciprocal norms of q and k, the logarithm of the decay within the chunk
struct DeltaNetDimensions {
  DimensionId heads = 0, group = 0, packed = 0, convolved = 0, taps = 0, value = 0, qkv = 0, chunk = 0,
              statistics = 0;
};

// Dimensions of a decoder's tensors (models/decoder.h).
struct DecoderDimensions {
  DimensionId batch = 0, sequence = 0, hidden = 0, kv_heads = 0, group = 0, qkv = 0, qk = 0, head_dim = 0,
              ffn = 0, gate = 0, key_sequence = 0, statistics = 0, one = 0;
  // With more tensor-parallel ranks, or ranks that exchange heads, than key-value heads: rows of the packed
  // q, k, v of all heads. kv_heads counts a copy of its head for every rank then.
  std::optional<DimensionId> qkv_rows = {};
  std::optional<DimensionId> qk_heads = {};  // of a key-value head: its queries and it, that norms weight
  std::optional<MoeDimensions> moe;
  std::optional<LatentDimensions> latent;
  std::optional<MambaDimensions> mamba;
  std::optional<DeltaNetDimensions> delta_net;
};

}  // namespace simrun
