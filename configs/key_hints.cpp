#include "configs/key_hints.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>
#include <string_view>
#include <tuple>

#include "configs/diagnostics.h"

namespace simrun {
namespace {

constexpr std::size_t most_listed_keys = 16;

struct ForeignKey {
  std::string_view key;
  std::string_view tool;
  std::string_view ours;  // dotted path, with a value where it takes one
};

// Spellings of the same thing elsewhere, as far as we know them: torchtitan's job config, nanotron's
// ParallelismArgs and TokensArgs, SimuMax's strategy files, Megatron-LM's arguments.
constexpr ForeignKey foreign_keys[] = {
    {"tensor_parallel_degree", "torchtitan", "parallelism.tensor_model_parallel_size"},
    {"pipeline_parallel_degree", "torchtitan", "parallelism.pipeline_model_parallel_size"},
    {"context_parallel_degree", "torchtitan", "parallelism.context_parallel_size"},
    {"expert_parallel_degree", "torchtitan", "parallelism.expert_model_parallel_size"},
    {"data_parallel_replicate_degree", "torchtitan", "optimizer.num_distributed_optimizer_instances"},
    {"data_parallel_shard_degree", "torchtitan", "optimizer.zero_stage"},
    {"fsdp_reshard_after_forward", "torchtitan", "optimizer.reshard_after_forward"},
    {"pipeline_parallel_schedule", "torchtitan", "parallelism.pipeline_schedule"},
    {"enable_sequence_parallel", "torchtitan and SimuMax", "parallelism.sequence_parallel"},
    {"local_batch_size", "torchtitan", "training.micro_batch_size"},
    {"seq_len", "torchtitan and SimuMax", "training.seq_length"},
    {"tp", "nanotron", "parallelism.tensor_model_parallel_size"},
    {"pp", "nanotron", "parallelism.pipeline_model_parallel_size"},
    {"dp", "nanotron", "parallelism.data_parallel_size"},
    {"pp_engine", "nanotron", "parallelism.pipeline_schedule"},
    {"tp_mode", "nanotron", "parallelism.sequence_parallel"},
    {"expert_parallel_size", "nanotron", "parallelism.expert_model_parallel_size"},
    {"batch_accumulation_per_replica", "nanotron", "training.global_batch_size"},
    {"sequence_length", "nanotron", "training.seq_length"},
    {"recompute_layer", "nanotron", "recompute.granularity: full"},
    {"tp_size", "SimuMax", "parallelism.tensor_model_parallel_size"},
    {"pp_size", "SimuMax", "parallelism.pipeline_model_parallel_size"},
    {"cp_size", "SimuMax", "parallelism.context_parallel_size"},
    {"ep_size", "SimuMax", "parallelism.expert_model_parallel_size"},
    {"interleaving_size", "SimuMax", "parallelism.virtual_pipeline_model_parallel_size"},
    {"micro_batch_num", "SimuMax", "training.global_batch_size"},
    {"zero_state", "SimuMax", "optimizer.zero_stage"},
    {"enable_recompute", "SimuMax", "recompute.granularity: full"},
    {"num_virtual_stages_per_pipeline_rank", "Megatron-LM",
     "parallelism.virtual_pipeline_model_parallel_size"},
    {"num_layers_per_virtual_pipeline_stage", "Megatron-LM",
     "parallelism.virtual_pipeline_model_parallel_size"},
    {"use_distributed_optimizer", "Megatron-LM", "optimizer.zero_stage: 1"},
    {"data_parallel_sharding_strategy", "Megatron-LM", "optimizer.zero_stage"},
    {"ddp_bucket_size", "Megatron-LM", "optimizer.bucket_size"},
    {"bucket_cap_mb", "PyTorch's DDP", "optimizer.bucket_bytes, as 25 MiB"},
    {"fusion_threshold", "Horovod", "optimizer.bucket_bytes, as 64 MiB"},
    {"num_servers", "BytePS", "optimizer.parameter_server.servers"},
    {"optimizer", "Megatron-LM", "optimizer.name"},
    {"grad_reduce_in_bf16", "Megatron-LM", "optimizer.main_grads_dtype: bf16"},
    {"accumulate_allreduce_grads_in_fp32", "Megatron-LM", "optimizer.main_grads_dtype: fp32"},
    {"reduce_dtype", "FSDP2", "optimizer.grad_reduce_dtype"},
    {"mixed_precision_reduce", "torchtitan", "optimizer.grad_reduce_dtype"},
    {"recompute_granularity", "Megatron-LM", "recompute.granularity"},
    {"recompute_method", "Megatron-LM", "recompute.method"},
    {"recompute_num_layers", "Megatron-LM", "recompute.num_layers"},
    {"recompute_modules", "Megatron-LM", "recompute.modules"},
    {"layers_block_type", "Hugging Face", "model.hybrid_override_pattern, a character for each layer"},
    {"mtp_layers_block_type", "Hugging Face", "model.mtp_hybrid_override_pattern"},
    {"moe_expert_capacity_factor", "Megatron-LM", "moe.capacity_factor"},
    {"moe_token_dispatcher_type", "Megatron-LM", "moe.token_dispatcher"},
    {"make_vocab_size_divisible_by", "Megatron-LM",
     "nothing: the vocabulary is padded to a multiple of 128 x tp"},
    {"optimizer_cpu_offload", "Megatron-LM", "offload.optimizer: cpu"},
    {"optimizer_offload_fraction", "Megatron-LM", "offload.optimizer_fraction"},
    {"cpu_offloading", "Megatron-LM", "offload.activations: cpu"},
    {"cpu_offloading_num_layers", "Megatron-LM", "offload.activations: cpu, offload.activation_layers"},
    {"offload_optimizer", "DeepSpeed", "offload.optimizer"},
    {"offload_param", "DeepSpeed", "offload.parameters"},
    {"dtype", "another tool", "training.precision"},
    {"bf16", "Megatron-LM", "training.precision: bf16"},
    {"fp16", "Megatron-LM", "training.precision: fp16"},
    {"fp8", "Megatron-LM", "training.precision: fp8"},
    {"fp8_format", "Megatron-LM", "training.precision: fp8"},
    {"fp8_param", "Megatron-Core", "training.fp8_param_gather"},
    {"attention_backend", "Megatron-LM", "training.attention"},
    {"use_flash_attn", "Megatron-LM", "training.attention: flash"},
    {"tensor_parallel", "another tool", "parallelism.tensor_model_parallel_size"},
    {"pipeline_parallel", "another tool", "parallelism.pipeline_model_parallel_size"},
    {"batch_size", "another tool", "training.global_batch_size"},
    {"schedule", "another tool", "parallelism.pipeline_schedule"},
};

// By which Hugging Face's and Megatron-LM's configs say that a model has experts.
constexpr std::string_view expert_keys[] = {
    "n_routed_experts",    "num_experts",      "num_local_experts",     "num_moe_experts",
    "num_experts_per_tok", "n_shared_experts", "moe_intermediate_size", "moe_ffn_hidden_size",
    "moe_router_topk",     "moe_layer_freq",   "router_aux_loss_coef",  "output_router_logits"};

// Names of one and the same thing in Hugging Face's configs, Megatron-LM's arguments, torchtitan's and the
// original repositories of models.
using Synonyms = std::vector<std::string>;
const std::vector<Synonyms>& synonyms() {
  static const std::vector<Synonyms> table = {
      {"num_hidden_layers", "n_layer", "num_layers", "n_layers", "layers"},
      {"hidden_size", "n_embd", "d_model", "dim", "embed_dim", "model_dim"},
      {"num_attention_heads", "n_head", "n_heads", "num_heads"},
      {"num_key_value_heads", "num_query_groups", "n_kv_heads", "num_kv_heads", "n_kv_head", "kv_n_heads"},
      {"intermediate_size", "ffn_hidden_size", "n_inner", "d_ff", "ffn_dim", "ffn_hidden_dim", "hidden_dim",
       "inter_dim", "mlp_hidden_size"},
      {"max_position_embeddings", "n_positions", "max_seq_len", "block_size"},
      {"head_dim", "kv_channels", "d_kv", "d_head", "head_size"},
      {"num_local_experts", "num_experts", "n_routed_experts", "num_moe_experts", "moe_num_experts",
       "n_experts"},
      {"num_experts_per_tok", "moe_router_topk", "moe_top_k", "top_k", "moe_topk"},
      {"moe_intermediate_size", "moe_ffn_hidden_size", "moe_inter_dim"},
      {"n_shared_experts", "num_shared_experts"},
      {"vocab_size", "n_vocab", "padded_vocab_size"},
      {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon", "norm_epsilon",
       "norm_eps"},
      {"rope_theta", "rotary_base", "rotary_emb_base"},
      {"sliding_window", "window_size"},
      {"tie_word_embeddings", "share_embeddings_and_output_weights"},
  };
  return table;
}

struct OwnKeys {
  std::string_view section;
  std::vector<std::string> keys;
};

// Our keys by section, to point from the wrong section to the right one.
const std::vector<OwnKeys>& own_keys() {
  static const std::vector<OwnKeys> table = {
      {"training",
       {"seq_length", "micro_batch_size", "replica_micro_batch_sizes", "global_batch_size", "precision",
        "fp8_recipe", "fp8_param_gather", "attention", "hidden_dropout"}},
      {"parallelism",
       {"tensor_model_parallel_size", "context_parallel_size", "cp_comm_type", "context_parallel_layout",
        "hierarchical_context_parallel_sizes", "pipeline_model_parallel_size",
        "virtual_pipeline_model_parallel_size", "expert_model_parallel_size", "expert_tensor_parallel_size",
        "data_parallel_size", "stage_tensor_model_parallel_sizes", "stage_data_parallel_sizes",
        "stage_broadcast_chunks", "sequence_parallel", "pipeline_schedule",
        "microbatch_group_size_per_vp_stage", "pipeline_memory_limit", "pipeline_model_parallel_layout"}},
      {"moe",
       {"capacity_factor", "token_dispatcher", "group_size", "load_imbalance", "zipf", "histogram",
        "node_limit"}},
      {"optimizer",
       {"zero_stage",
        "zero_3_layers",
        "overlap_grad_reduce",
        "overlap_param_gather",
        "clip_grad",
        "bucket_size",
        "bucket_bytes",
        "gather_bucket_size",
        "reshard_after_forward",
        "reshard_after_backward",
        "no_sync",
        "num_distributed_optimizer_instances",
        "all_reduce",
        "main_params_dtype",
        "main_grads_dtype",
        "exp_avg_dtype",
        "exp_avg_sq_dtype",
        "grad_reduce_dtype",
        "sgd_momentum",
        "parameter_server",
        "lr",
        "adam_beta1",
        "adam_beta2",
        "adam_eps",
        "weight_decay",
        "muon_momentum"}},
      {"offload", {"optimizer_fraction", "parameters", "activations", "activation_layers"}},
      {"recompute", {"granularity", "layers", "method", "modules", "module_layers", "saved", "memory_limit"}},
      {"cluster",
       {"nodes", "node_groups", "gpus_per_node", "nics_per_node", "gpu", "intra_node", "inter_node", "fabric",
        "collectives", "reserved_memory", "pcie", "gpu_direct", "nvidia_smi_topo"}},
      {"cluster.intra_node", {"nvlinks", "gpu_nvlinks", "relay", "nodes_per_domain"}},
      {"cluster.pcie", {"gpu_switches", "nic_switches", "switch_sockets", "socket_bandwidth"}},
      {"cluster.fabric",
       {"topology", "rail_optimized", "nodes_per_leaf", "spines", "oversubscription", "spine_latency",
        "routing", "pxn", "rail_only", "planes", "leaves_per_pod", "cores", "core_oversubscription",
        "core_latency", "torus", "torus_wraps", "hop_latency"}},
      {"imperfections", {"seed", "jitter", "stragglers", "background", "other_jobs"}},
      {"framework", {"name", "kernels", "memory"}},
      {"model", {"model_type", "hidden_size", "vocab_size"}},
  };
  return table;
}

// What of a key says what it is about: "num_hidden_layers" has hidden and layer.
std::set<std::string> telling_words(const std::string& key) {
  static const std::set<std::string> others = {"num",      "number", "size", "per", "of",   "model",
                                               "parallel", "stage",  "is",   "use", "type", "n"};
  std::set<std::string> words;
  std::istringstream parts(key);
  for (std::string word; std::getline(parts, word, '_');) {
    if (word.size() > 3 && word.ends_with('s')) word.pop_back();
    if (!others.contains(word)) words.insert(word);
  }
  return words;
}

// How well a key's words are those of a known one: the more of them, then the fewer others, then the fewer
// that tell nothing.
struct SharedWords {
  std::size_t both = 0, others = 0;
  std::ptrdiff_t parts = 0;
  bool is_better_than(const SharedWords& than) const {
    return std::tie(than.both, others, parts) < std::tie(both, than.others, than.parts);
  }
};
SharedWords shared_words(const std::set<std::string>& words, const std::string& known) {
  const std::set<std::string> of_known = telling_words(known);
  const auto both = static_cast<std::size_t>(
      std::ranges::count_if(of_known, [&](const std::string& word) { return words.contains(word); }));
  return {both, of_known.size() - both, std::ranges::count(known, '_')};
}

// The best such keys; none: no word is shared, or by too many alike.
std::set<std::string> of_shared_words(const std::string& key, const std::vector<std::string>& known_keys) {
  constexpr std::size_t most_meant = 3;
  const std::set<std::string> words = telling_words(key);
  SharedWords best;
  std::set<std::string> meant;
  for (const std::string& known : known_keys) {
    const SharedWords shared = shared_words(words, known);
    if (shared.both == 0 || (!meant.empty() && best.is_better_than(shared))) continue;
    if (shared.is_better_than(best)) meant.clear();
    best = shared;
    meant.insert(known);
  }
  return meant.size() <= most_meant ? meant : std::set<std::string>{};
}

// The only key of another section that is about the same; "": there is none.
std::string same_words_elsewhere(const std::string& section, const std::string& key) {
  const std::set<std::string> words = telling_words(key);
  std::vector<std::string> meant;
  for (const OwnKeys& own : own_keys()) {
    if (words.empty() || own.section.substr(own.section.rfind('.') + 1) == section) continue;
    for (const std::string& known : own.keys)
      if (telling_words(known) == words) meant.push_back(fmt::format("'{}' in '{}'", known, own.section));
  }
  return meant.size() == 1 ? meant[0] : "";
}

bool holds(const std::vector<std::string>& keys, const std::string& key) {
  return std::ranges::find(keys, key) != keys.end();
}

// The section's own name for what the key is a name of; "": it has none.
std::string own_synonym(const std::string& key, const std::vector<std::string>& known_keys) {
  for (const Synonyms& names : synonyms())
    if (holds(names, key))
      for (const std::string& name : names)
        if (holds(known_keys, name)) return name;
  return "";
}

bool has_experts(const std::vector<std::string>& known_keys) {
  return std::ranges::any_of(expert_keys,
                             [&](std::string_view key) { return holds(known_keys, std::string(key)); });
}

// In their order: a key that was asked for twice is known twice.
std::vector<std::string> each_once(const std::vector<std::string>& keys) {
  std::vector<std::string> once;
  for (const std::string& key : keys)
    if (std::ranges::find(once, key) == once.end()) once.push_back(key);
  return once;
}

}  // namespace

std::string hint_for_unknown_key(const std::string& section, const std::string& key,
                                 const std::vector<std::string>& known_keys) {
  if (key == "<<") return "YAML merge keys are not accepted; `from: file` starts from another file.";
  if (const std::string meant = own_synonym(key, known_keys); !meant.empty())
    return fmt::format("did you mean '{}'?", meant);
  if (section == "model" && std::ranges::find(expert_keys, key) != std::end(expert_keys)) {
    if (!has_experts(known_keys))
      return "this family has no experts; mixtral, qwen3_moe and deepseek_v3 have, and gpt with num_experts.";
    // That of an expert may be called as the MLP's is; any other near spelling means another thing.
    if (!key.ends_with("_size")) return "this family's experts have no such key.";
  }
  for (const OwnKeys& own : own_keys())
    if (own.section != section && holds(own.keys, key))
      return fmt::format("it belongs in '{}'.", own.section);
  for (const ForeignKey& foreign : foreign_keys)
    if (foreign.key == key) return fmt::format("{} calls it so; here it is {}.", foreign.tool, foreign.ours);
  if (const std::string meant = closest(key, known_keys); !meant.empty())
    return fmt::format("did you mean '{}'?", meant);
  for (const OwnKeys& own : own_keys())
    if (const std::string meant = closest(key, own.keys); own.section != section && !meant.empty())
      return fmt::format("did you mean '{}' in '{}'?", meant, own.section);
  if (const std::set<std::string> meant = of_shared_words(key, known_keys); !meant.empty())
    return fmt::format("did you mean '{}'?", fmt::join(meant, "' or '"));
  const std::vector<std::string> listed = each_once(known_keys);
  if (!listed.empty() && listed.size() <= most_listed_keys)
    return fmt::format("there are: {}.", fmt::join(listed, ", "));
  const std::string elsewhere = same_words_elsewhere(section, key);
  return elsewhere.empty() ? "" : fmt::format("did you mean {}?", elsewhere);
}

}  // namespace simrun
