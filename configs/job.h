#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "configs/dtype.h"

// A job: model + training + parallelism + optimizer + recompute + cluster, as plain values, with every
// default filled in and every rule checked by the loader (configs/load_job.h). Nothing downstream reads YAML.
namespace simrun {

enum class Normalization : std::uint8_t { layer_norm, rms_norm };
// Where a layer's norms are: before attention and MLP, behind their residual additions (Vaswani et al. 2017),
// or before and behind both, inside the residual (Gemma 2).
enum class NormPlacement : std::uint8_t { pre, post, sandwich };
// swiglu and geglu are gated: two matrices of hidden x ffn, one through SiLU or GELU, multiplied.
enum class Activation : std::uint8_t { gelu, relu, squared_relu, swiglu, geglu };
constexpr bool is_gated(Activation activation) {
  return activation == Activation::swiglu || activation == Activation::geglu;
}
enum class PositionEmbedding : std::uint8_t { none, learned_absolute, rope, alibi };

// A decoder-only transformer as values, normalised from Hugging Face's or Megatron's keys: families differ in
// nothing else.
struct ModelConfig {
  std::string model_type;  // as written: bloom, gpt, gpt2, llama, ...
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t ffn_hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;  // = num_attention_heads without grouped-query attention
  std::int64_t head_dim = 0;
  std::int64_t vocab_size = 0;               // unpadded
  std::int64_t max_position_embeddings = 0;  // learned positions; 0 where there is no table
  std::int64_t reserved_positions = 0;       // rows of the table that stand for none (OPT: 2)
  Normalization normalization = Normalization::layer_norm;
  NormPlacement norm_placement = NormPlacement::pre;
  Activation activation = Activation::gelu;
  PositionEmbedding position_embedding = PositionEmbedding::learned_absolute;
  double rotary_share = 1;  // of head_dim that rope turns; the kernel copies the rest, so it costs the same
  // By layer: to how many tokens, itself included, a token attends; 0: to all before it. Empty: 0 everywhere.
  std::vector<std::int64_t> attention_windows;
  double attention_soft_cap = 0;   // cap x tanh(score / cap), inside the attention kernel; 0: none
  double logit_soft_cap = 0;       // the same of the logits
  bool parallel_residual = false;  // x + attention(norm(x)) + mlp(norm'(x))
  bool norm_bias = true;           // of layer norms
  bool qk_norm = false;            // RMS norm of each query and key head
  bool embedding_norm = false;     // a norm behind the embedding
  bool embedding_scale = false;    // the embedding is multiplied by sqrt(hidden_size)
  bool embedding_dropout = true;   // hidden_dropout is also behind the embedding
  bool tie_word_embeddings = false;
  bool qkv_bias = false;
  bool projection_bias = false;  // of the attention's output projection
  bool mlp_bias = false;         // of both (gated: all three) MLP matrices
  bool operator==(const ModelConfig&) const = default;

  std::int64_t attention_window(std::int64_t layer) const {
    return attention_windows.empty() ? 0 : attention_windows.at(static_cast<std::size_t>(layer));
  }
};

enum class AttentionKernel : std::uint8_t { flash, unfused };

struct Training {
  std::int64_t seq_length = 0;
  std::int64_t micro_batch_size = 0;   // sequences per data-parallel rank and microbatch
  std::int64_t global_batch_size = 0;  // sequences per optimizer step
  Dtype precision = Dtype::bf16;
  AttentionKernel attention = AttentionKernel::flash;
  double attention_dropout = 0;
  double hidden_dropout = 0;
  bool operator==(const Training&) const = default;
};

// One virtual stage of a pipeline layout: what it holds, in order.
struct StageContent {
  bool embedding = false;
  std::int64_t layers = 0;
  bool loss = false;  // final norm, LM head and cross entropy
  bool operator==(const StageContent&) const = default;
};

// A pipeline schedule in a file: PyTorch's CSV, read and checked by schedules/job_schedule.h. Equal if the
// text is.
struct ScheduleText {
  std::string path;  // as the loader found it, for messages
  std::string text;
  bool operator==(const ScheduleText& other) const { return text == other.text; }
};

struct Parallelism {
  std::int64_t tensor_model_parallel_size = 1;
  std::int64_t context_parallel_size = 1;
  std::int64_t pipeline_model_parallel_size = 1;
  std::int64_t virtual_pipeline_model_parallel_size = 1;  // chunks per pipeline rank
  std::int64_t expert_model_parallel_size = 1;
  std::int64_t data_parallel_size = 1;  // derived: cluster GPUs / (tp cp pp)
  bool sequence_parallel = false;
  std::string pipeline_schedule;  // canonical name, never an alias; auto; or the name of schedule_csv's file
  std::optional<ScheduleText> schedule_csv;             // pipeline_schedule: path.csv
  std::int64_t microbatch_group_size_per_vp_stage = 0;  // interleaved only; default = pipeline size
  // (stage, microbatch) activations that a rank may hold, of the schedules that plan within a limit; 0: none
  // written, what fits the GPU (auto).
  std::int64_t pipeline_memory_limit = 0;
  // Size pipeline x virtual, in model order: entry s is global (virtual) stage s, on pipeline rank s %
  // pipeline size.
  std::vector<StageContent> stages;
  bool operator==(const Parallelism&) const = default;
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

// A device, from configs/gpus/*.yaml. Every number there names its datasheet or measurement.
struct Gpu {
  std::string name;                    // preset name, e.g. h100_sxm
  std::map<Dtype, double> peak_flops;  // dense matrix FLOP/s by input type, no sparsity
  double vector_flops = 0;             // fp32 FLOP/s outside the tensor cores
  std::int64_t memory_bytes = 0;
  double memory_bandwidth = 0;  // bytes/s
  std::int64_t sm_count = 0;
  std::int64_t l2_bytes = 0;
  double nvlink_bandwidth = 0;   // bytes/s per GPU and direction; 0 without NVLink
  double kernel_launch_s = 0;    // host-to-device time between back-to-back dependent kernels
  double matmul_efficiency = 0;  // best sustained GEMM / peak
  double memory_efficiency = 0;  // best sustained stream / memory_bandwidth
  bool operator==(const Gpu&) const = default;
};

struct LinkClass {
  double bandwidth = 0;   // bytes/s and direction, per GPU (intra_node) or per NIC (inter_node)
  double latency_s = 0;   // one hop, one message
  double efficiency = 1;  // payload share that large collectives reach
  bool operator==(const LinkClass&) const = default;
};

enum class FabricTopology : std::uint8_t { non_blocking, leaf_spine };

// How the nodes' NICs are connected. non_blocking: only NICs limit traffic. leaf_spine: two levels of
// switches; a leaf serves nodes_per_leaf nodes, one leaf per rail if rail_optimized (NIC i of every node is
// on rail i), else one for all their NICs; each leaf has one link per direction to each of `spines` switches,
// together (a full leaf's NICs) x (NIC bandwidth) / oversubscription. One spine stands for any number of them
// between which traffic is spread evenly, as adaptive routing does.
struct Fabric {
  FabricTopology topology = FabricTopology::non_blocking;
  bool rail_optimized = true;
  std::int64_t nodes_per_leaf = 0;
  std::int64_t spines = 0;
  double oversubscription = 1;
  double spine_latency_s = 0;  // added to inter_node's latency where a route crosses a spine switch
  bool operator==(const Fabric&) const = default;
};

struct Cluster {
  std::string name;
  std::int64_t nodes = 0;
  std::int64_t gpus_per_node = 0;
  std::int64_t nics_per_node = 0;  // GPU g of a node uses NIC g x nics / gpus; at most one per GPU
  Gpu gpu;
  LinkClass intra_node;  // NVLink
  LinkClass inter_node;  // one NIC
  Fabric fabric;
  std::int64_t reserved_bytes = 0;  // CUDA context, NCCL buffers: what `fits` keeps free on every GPU
  bool operator==(const Cluster&) const = default;
};

struct Job {
  std::string name;  // file stem
  ModelConfig model;
  Training training;
  Parallelism parallelism;
  OptimizerConfig optimizer;
  RecomputeConfig recompute;
  Cluster cluster;
  std::string config_sha256;  // of the effective config, as --print-config writes it

  std::int64_t world_size() const { return cluster.nodes * cluster.gpus_per_node; }
  // Microbatches per step and data-parallel rank; the loader proved that it divides.
  std::int64_t microbatches() const {
    return training.global_batch_size / (training.micro_batch_size * parallelism.data_parallel_size);
  }
  bool operator==(const Job&) const = default;
};

}  // namespace simrun
