#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "configs/dtype.h"

// The training, optimizer and recompute sections of a job as plain values.
namespace simrun {

enum class AttentionKernel : std::uint8_t { flash, unfused };

struct Training {
  std::int64_t seq_length = 0;  // of the encoder, where there are two; images: the tokens of one, or 1
  std::int64_t decoder_seq_length = 0;  // encoder-decoders only
  std::int64_t micro_batch_size = 0;    // sequences per data-parallel rank and microbatch
  std::int64_t global_batch_size = 0;   // sequences per optimizer step
  Dtype precision = Dtype::bf16;
  AttentionKernel attention = AttentionKernel::flash;
  double attention_dropout = 0;
  double hidden_dropout = 0;
  bool operator==(const Training&) const = default;
};

struct OptimizerConfig {
  std::string name = "adam";
  int zero_stage = 0;
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  double clip_grad = 1.0;  // 0: no gradient-norm reduction
  std::int64_t bucket_size =
      0;  // elements; default max(40,000,000, 1,000,000 x dp) as Megatron-LM's DistributedDataParallelConfig
  bool operator==(const OptimizerConfig&) const = default;
};

enum class RecomputeGranularity : std::uint8_t { none, selective, full };
enum class RecomputeMethod : std::uint8_t { uniform, block };

struct RecomputeConfig {
  RecomputeGranularity granularity = RecomputeGranularity::none;
  RecomputeMethod method = RecomputeMethod::uniform;
  std::int64_t num_layers = 1;  // uniform: layers per checkpoint; block: recomputed layers per virtual stage
  std::vector<std::string> modules;  // selective: core_attn (default), mlp, layernorm
  bool operator==(const RecomputeConfig&) const = default;
};

}  // namespace simrun
