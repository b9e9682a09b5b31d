#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "configs/dtype.h"
#include "configs/fp8_config.h"
#include "configs/layer_list.h"
#include "configs/parameter_server_config.h"
#include "configs/scope_pattern.h"

// The training, optimizer and recompute sections of a job as plain values.
namespace simrun {

enum class AttentionKernel : std::uint8_t { flash, unfused };

// Low-rank adapters (Hu et al. 2021, arXiv 2106.09685): beside a target's product x W runs (x A) B x alpha /
// rank with A [in, rank] and B [rank, out]. Nothing else is trained.
struct LoraConfig {
  std::int64_t rank = 0;
  double alpha = 0;                  // changes no shape and no kernel
  double dropout = 0;                // of x in front of A
  std::vector<std::string> targets;  // operators: qkv, attention_projection, fc1, fc2; q, k, v apart
  bool nf4_base = false;             // QLoRA: frozen weights of linear layers are kept in NormalFloat4
  bool operator==(const LoraConfig&) const = default;
};

enum class DocumentLengths : std::uint8_t { recorded, fixed, uniform, lognormal };

// Sequences packed with several documents; a token attends to its own only.
struct DocumentConfig {
  DocumentLengths lengths = DocumentLengths::fixed;
  std::vector<std::int64_t> recorded;  // tokens of each document, in the order of the data
  std::int64_t mean = 0;               // tokens, of the others
  double sigma = 0;                    // lognormal: standard deviation of the logarithm
  std::int64_t seed = 0;
  std::string origin;  // in words: "lognormal, mean 1024, sigma 1, seed 0", "lengths.csv"
  bool operator==(const DocumentConfig&) const = default;
};

struct Training {
  std::int64_t seq_length = 0;  // of the encoder, where there are two; images: the tokens of one, or 1
  std::int64_t decoder_seq_length = 0;  // encoder-decoders only
  // Vision-language models: images in every sequence, whose tokens seq_length counts (Megatron-LM's
  // --decoder-seq-length does too).
  std::int64_t images_per_sample = 0;
  std::int64_t micro_batch_size = 0;  // sequences per data-parallel rank and microbatch
  // By data-parallel rank, where ranks take unlike numbers of the same microbatch; they sum to
  // micro_batch_size x data parallel. Empty: all take micro_batch_size.
  std::vector<std::int64_t> replica_micro_batch_sizes = {};
  std::int64_t global_batch_size = 0;  // sequences per optimizer step
  std::int64_t tokens = 0;             // of the whole training; 0: not said
  Dtype precision = Dtype::bf16;
  std::optional<Fp8Config> fp8;  // of linear layers, beside `precision`
  AttentionKernel attention = AttentionKernel::flash;
  double attention_dropout = 0;
  double hidden_dropout = 0;
  std::optional<LoraConfig> lora;
  std::optional<DocumentConfig> documents;
  bool operator==(const Training&) const = default;
};

// How gradients are summed over all data-parallel ranks: in one collective, or reduce-scattered in the node,
// all-reduced between nodes and gathered in the node (Horovod's hierarchical all-reduce).
enum class AllReduceKind : std::uint8_t { flat, hierarchical };
// Update rules by what they keep and do; adamw is adam with decoupled weight decay: the same bytes.
enum class UpdateRule : std::uint8_t { adam, adamw, sgd, adafactor, muon };

// Numbers of the update that no time and no memory depends on, by Megatron-LM's names (--lr, --adam-beta1,
// ..).
struct UpdateNumbers {
  double lr = 1e-3;
  double adam_beta1 = 0.9, adam_beta2 = 0.95, adam_eps = 1e-8;
  double weight_decay = 0.1;  // of every parameter; decoupled, but added to the gradient by sgd
  double muon_momentum = 0.95;
  bool operator==(const UpdateNumbers&) const = default;
};

// Elements. Megatron-LM, DistributedDataParallelConfig.bucket_size: max(40000000, 1000000 * dp_size).
constexpr std::int64_t default_bucket_size(std::int64_t data_parallel_size) {
  return std::max<std::int64_t>(40'000'000, 1'000'000 * data_parallel_size);
}

struct OptimizerConfig {
  UpdateRule name = UpdateRule::adam;
  UpdateNumbers numbers;
  // Types of what is kept per parameter, as Megatron-LM's --main-params-dtype, --main-grads-dtype,
  // --exp-avg-dtype and --exp-avg-sq-dtype. `exp_avg` is the momentum of sgd and muon.
  std::optional<Dtype> main_params_dtype = Dtype::fp32;  // nothing: the weights themselves are updated
  Dtype main_grads_dtype = Dtype::fp32;
  Dtype exp_avg_dtype = Dtype::fp32;
  Dtype exp_avg_sq_dtype = Dtype::fp32;
  Dtype grad_reduce_dtype = Dtype::fp32;  // of data-parallel sums; another than main_grads_dtype is cast to
  double sgd_momentum = 0.9;              // 0: sgd keeps nothing
  int zero_stage = 0;
  // Layers whose weights, gradients and state are sharded as by stage 3, whatever the stage of the rest
  // (Galvatron's strategy by layer, Miao et al. 2022, arXiv 2211.13878; FSDP2 wraps modules one by one).
  LayerList zero_3_layers;
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  double clip_grad = 1.0;        // 0: no gradient-norm reduction
  std::int64_t bucket_size = 0;  // elements; default_bucket_size() of the data-parallel size
  // Elements at which what ZeRO-3 gathers at once is closed, in place of bucket_size; 0: a layer is one unit,
  // as PyTorch's FSDP has it. DeepSpeed's stage3_prefetch_bucket_size.
  std::int64_t gather_bucket_size = 0;
  // FSDP2's names. ZeRO-3: whether gathered weights are freed behind the forward pass, and behind the
  // backward pass of a microbatch that is not the last. ZeRO-2, 3 with no_sync: gradients add up unsharded
  // and are reduced once per step.
  bool reshard_after_forward = true;
  bool reshard_after_backward = true;
  bool no_sync = false;
  // ZeRO within each of so many groups of data-parallel ranks, all-reduce between them: hybrid sharding
  // (HSDP).
  std::int64_t num_distributed_optimizer_instances = 1;
  AllReduceKind all_reduce = AllReduceKind::flat;  // of zero_stage 0
  std::optional<ParameterServerConfig> parameter_server;
  bool operator==(const OptimizerConfig&) const = default;
};

// ZeRO-3, of any layer: passes gather weights.
inline bool gathers_in_passes(const OptimizerConfig& optimizer) {
  return optimizer.zero_stage == 3 || !optimizer.zero_3_layers.empty();
}
// ZeRO-2 or 3, of any layer: passes reduce gradients.
inline bool reduces_in_passes(const OptimizerConfig& optimizer) {
  return optimizer.zero_stage >= 2 || !optimizer.zero_3_layers.empty();
}

enum class RecomputeGranularity : std::uint8_t { none, selective, full, automatic };
enum class RecomputeMethod : std::uint8_t { uniform, block };

struct RecomputeConfig {
  RecomputeGranularity granularity = RecomputeGranularity::none;
  RecomputeMethod method = RecomputeMethod::uniform;
  std::int64_t num_layers = 1;  // uniform: layers per checkpoint; block: recomputed layers per virtual stage
  std::vector<std::string> modules;  // selective: core_attn (default), mlp, layernorm, moe, ...
  // By virtual stage, in model order. Block: layers recomputed whole, in place of num_layers (Megatron-LM has
  // one number for all). By module: of how many of the layers behind those it is recomputed; empty: of all.
  std::vector<std::int64_t> stage_layers;
  std::vector<std::vector<std::int64_t>> module_layers;
  // Selective: operators of the layers whose outputs are kept, as what leaves a layer is; of the others is
  // recomputed what the backward pass reads. Empty: `modules` say what is recomputed.
  std::vector<ScopePattern> saved;
  LayerList layers;  // full: that are recomputed, each for itself; empty: as method and num_layers say
  std::int64_t memory_limit = 0;  // automatic: bytes of a GPU; 0: what the framework leaves
  bool operator==(const RecomputeConfig&) const = default;
};

}  // namespace simrun
