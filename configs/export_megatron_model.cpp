// The model section of a job as Megatron-LM's arguments.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "configs/export_megatron.h"

namespace simrun {
namespace {

using Flags = std::vector<MegatronFlag>;

void add(Flags& flags, const char* name) { flags.push_back({name, {}}); }
template <typename Value>
void add(Flags& flags, const char* name, const Value& value) {
  flags.push_back({name, {fmt::format("{}", value)}});
}

char symbol_of(const LayerKind& kind) {
  return kind.content == LayerContent::attention ? '*'
         : kind.content == LayerContent::mamba   ? 'M'
         : kind.has_experts                      ? 'E'
                                                 : '-';
}

void add_hybrid(const ModelConfig& model, Flags& flags) {
  std::string pattern, further;
  for (std::int64_t layer = 0; layer < model.num_layers; ++layer)
    pattern += symbol_of(model.layer_kind(layer));
  for (const LayerKind& kind : model.further_layers) further += symbol_of(kind);
  flags.push_back({"--spec", {"megatron.core.models.mamba.mamba_layer_specs", "mamba_stack_spec"}});
  add(flags, "--is-hybrid-model");
  add(flags, "--hybrid-override-pattern", pattern);
  if (!further.empty()) add(flags, "--mtp-hybrid-override-pattern", further);
  if (!model.mamba.on()) return;
  add(flags, "--mamba-num-heads", model.mamba.num_heads);
  add(flags, "--mamba-head-dim", model.mamba.head_dim);
  add(flags, "--mamba-state-dim", model.mamba.state_dim);
  add(flags, "--mamba-num-groups", model.mamba.num_groups);
}

// 1: every layer; else Python's spelling of a list of zeros and ones in runs: ([0]*3+[1]*58).
std::string layer_frequency(const std::vector<bool>& layers) {
  if (std::ranges::find(layers, false) == layers.end()) return "1";
  std::vector<std::string> runs;
  for (std::size_t first = 0; first < layers.size();) {
    std::size_t end = first;
    while (end < layers.size() && layers[end] == layers[first]) ++end;
    runs.push_back(fmt::format("[{}]*{}", layers[first] ? 1 : 0, end - first));
    first = end;
  }
  return fmt::format("({})", fmt::join(runs, "+"));
}

// n: all but every n-th; else a list.
std::string linear_frequency(const ModelConfig& model) {
  std::vector<bool> linear;
  for (const LayerContent content : model.layer_contents)
    linear.push_back(content == LayerContent::delta_net_and_mlp);
  const auto n = static_cast<std::size_t>(std::ranges::find(linear, false) - linear.begin()) + 1;
  if (n > linear.size()) return fmt::format("([1]*{})", linear.size());
  for (std::size_t layer = 0; layer < linear.size(); ++layer)
    if (linear[layer] != ((layer + 1) % n != 0)) return layer_frequency(linear);
  return fmt::format("{}", n);
}

void add_delta_net(const ModelConfig& model, Flags& flags) {
  const DeltaNetConfig& delta = model.delta_net;
  add(flags, "--experimental-attention-variant", "gated_delta_net");
  add(flags, "--linear-attention-freq", linear_frequency(model));
  add(flags, "--linear-conv-kernel-dim", DeltaNetConfig::conv_width);
  add(flags, "--linear-key-head-dim", delta.key_head_dim);
  add(flags, "--linear-value-head-dim", delta.value_head_dim);
  add(flags, "--linear-num-key-heads", delta.num_key_heads);
  add(flags, "--linear-num-value-heads", delta.num_value_heads);
}

void add_shape(const Job& job, Flags& flags) {
  const ModelConfig& model = job.model;
  add(flags, "--num-layers", model.num_layers);
  add(flags, "--hidden-size", model.hidden_size);
  // Where every layer has experts nothing has this size but Megatron-LM's default of the experts'.
  add(flags, "--ffn-hidden-size",
      model.ffn_hidden_size > 0 ? model.ffn_hidden_size : model.experts.ffn_hidden_size);
  add(flags, "--num-attention-heads", model.num_attention_heads);
  if (model.mla.on()) {
    add(flags, "--multi-latent-attention");
    add(flags, "--qk-layernorm");  // of the latents
    if (model.mla.q_lora_rank > 0) add(flags, "--q-lora-rank", model.mla.q_lora_rank);
    add(flags, "--kv-lora-rank", model.mla.kv_lora_rank);
    add(flags, "--qk-head-dim", model.mla.qk_nope_head_dim);
    add(flags, "--qk-pos-emb-head-dim", model.mla.qk_rope_head_dim);
    add(flags, "--v-head-dim", model.mla.v_head_dim);
  } else {
    if (model.num_key_value_heads != model.num_attention_heads) {
      add(flags, "--group-query-attention");
      add(flags, "--num-query-groups", model.num_key_value_heads);
    }
    if (model.head_dim * model.num_attention_heads != model.hidden_size)
      add(flags, "--kv-channels", model.head_dim);
    if (model.qk_norm == QkNorm::of_heads) add(flags, "--qk-layernorm");
    if (model.attention_output_gate) add(flags, "--attention-output-gate");
  }
  if (model.is_hybrid()) add_hybrid(model, flags);
  if (model.delta_net.on()) add_delta_net(model, flags);
  if (model.num_nextn_predict_layers > 0) add(flags, "--mtp-num-layers", model.num_nextn_predict_layers);
  add(flags, "--vocab-size", model.vocab_size);
}

// Every so many layers the last has no rotary positions; 0: no such number.
std::int64_t no_rope_freq(const ModelConfig& model) {
  const std::vector<bool>& without = model.layers_without_rope;
  const auto first = std::ranges::find(without, true);
  if (first == without.end()) return 0;
  const auto freq = static_cast<std::size_t>(first - without.begin()) + 1;
  for (std::size_t layer = 0; layer < without.size(); ++layer)
    if (without[layer] != ((layer + 1) % freq == 0)) return 0;
  return static_cast<std::int64_t>(freq);
}

void add_positions(const Job& job, Flags& flags) {
  const ModelConfig& model = job.model;
  const bool has_table = model.position_embedding == PositionEmbedding::learned_absolute;
  add(flags, "--max-position-embeddings",
      has_table ? model.max_position_embeddings : job.training.seq_length);
  const char* type = has_table                                             ? "learned_absolute"
                     : model.position_embedding == PositionEmbedding::rope ? "rope"
                                                                           : "none";
  add(flags, "--position-embedding-type", type);
  if (model.position_embedding != PositionEmbedding::rope) return;
  add(flags, "--rotary-base", model.rope_base);
  if (model.rotary_share != 1) add(flags, "--rotary-percent", model.rotary_share);
  if (const std::int64_t freq = no_rope_freq(model); freq > 0) add(flags, "--no-rope-freq", freq);
}

void add_layers(const ModelConfig& model, Flags& flags) {
  add(flags, "--normalization", model.normalization == Normalization::rms_norm ? "RMSNorm" : "LayerNorm");
  add(flags, "--norm-epsilon", model.norm_epsilon);
  if (is_gated(model.activation)) add(flags, "--swiglu");
  if (model.activation == Activation::squared_relu) add(flags, "--squared-relu");
  if (!model.mlp_bias) add(flags, "--disable-bias-linear");
  if (!model.mlp_bias && model.qkv_bias) add(flags, "--add-qkv-bias");
  if (!model.tie_word_embeddings) add(flags, "--untie-embeddings-and-output-weights");
}

// Megatron Core's bias goes with sigmoid scores alone (transformer_config.py).
bool chooses_by_bias(const ExpertConfig& experts) {
  return experts.selection_bias && experts.score == RouterScore::sigmoid;
}

bool is_default_group_best(const ExpertConfig& experts) {
  return experts.topk_groups == 0 ||
         experts.group_best == std::max<std::int64_t>(experts.topk / experts.topk_groups, 1);
}

void note_layers(const ModelConfig& model, std::vector<std::string>& notes) {
  const auto note = [&](bool holds, const char* sentence) {
    if (holds) notes.emplace_back(sentence);
  };
  note(model.position_embedding == PositionEmbedding::alibi, "model: ALiBi is no position embedding there");
  note(model.position_embedding == PositionEmbedding::rope &&
           model.rope_base != static_cast<double>(static_cast<std::int64_t>(model.rope_base)),
       "model: --rotary-base takes whole numbers");
  note(model.activation == Activation::relu, "model: ReLU; its layers have GELU, squared ReLU or SwiGLU");
  note(model.activation == Activation::geglu,
       "model: GeGLU; its gated layers are SwiGLU, of the same sizes, or quick GeGLU");
  note(model.projection_bias != model.mlp_bias,
       "model: biases of the attention's projection alone, or of all but it");
  note(model.mlp_bias && !model.qkv_bias, "model: biases of all matrices but q, k and v");
  note(!model.norm_bias && model.normalization == Normalization::layer_norm,
       "model: layer norms without biases");
  note(!model.norm_weight, "model: norms without weights");
  note(model.norm_placement != NormPlacement::pre, "model: norms behind attention and MLP");
  note(model.parallel_residual, "model: attention and MLP side by side");
  note(model.embedding_norm, "model: a norm behind the embedding");
  note(model.embedding_multiplier != 1 || model.residual_multiplier != 1 || model.logit_multiplier != 1,
       "model: factors of the embedding, the residuals or the logits");
  note(model.qkv_clip > 0, "model: queries, keys and values that are clipped");
  note(model.query_temperature.factor > 0, "model: queries scaled by their position");
  note(model.chunked_windows, "model: attention within chunks");
  note(model.window_rope_base > 0, "model: a rotary base of its own of layers with a window");
  note(!model.embedding_dropout, "model: no dropout behind the embedding");
  note(model.output_bias, "model: a bias of the logits");
  note(!model.attention_windows.empty(), "model: sliding windows of its own by layer");
  note(model.attention_soft_cap > 0 || model.logit_soft_cap > 0, "model: soft caps");
  note(model.attention_sinks, "model: attention sinks");
  note(model.attention_scale != 0, "model: a scale of the scores of its own");
  note(model.reserved_positions > 0, "model: rows of the position table that stand for none");
  note(!model.causal_attention, "model: attention to later tokens");
  note(!model.frozen.empty(), "model.frozen: all parameters are trained");
  note(model.qk_norm == QkNorm::of_all_heads, "model: norms of queries and keys over all heads");
  note(model.qk_norm == QkNorm::by_head, "model: norms of queries and keys with weights of each head");
  note(model.qk_norm == QkNorm::unweighted, "model: norms of queries and keys without weights");
  note(std::ranges::find(model.layers_without_rope, true) != model.layers_without_rope.end() &&
           no_rope_freq(model) == 0,
       "model: layers without rotary positions that are not every so many");
  note(model.scales_rope, "model: scaled rotary angles, which no plan has (--use-rope-scaling)");
  note(model.qk_norm == QkNorm::of_heads && model.normalization != Normalization::rms_norm,
       "model: RMS norms of queries and keys beside layer norms");
  note(model.mla.on() && model.mlp_bias, "model: biases beside latent attention");
}

void note_router(const Job& job, std::vector<std::string>& notes) {
  const ExpertConfig& experts = job.model.experts;
  const MoeConfig& moe = job.moe;
  const auto note = [&](bool holds, const char* sentence) {
    if (holds) notes.emplace_back(sentence);
  };
  note(experts.selection_bias && !chooses_by_bias(experts),
       "model: a bias that chooses experts by their softmax; it takes sigmoid scores there");
  note(experts.bias != job.model.mlp_bias, "model: biases of experts unlike those of the MLP");
  note(experts.router_bias, "model: a bias of the router");
  note(!is_default_group_best(experts),
       "model: groups of experts are chosen by the sum of their topk / groups best scores");
  const bool is_sigmoid = experts.score == RouterScore::sigmoid;
  note(experts.normalizes_weights ? experts.topk == 1 : experts.topk > 1 && is_sigmoid,
       "model: weights of a token's experts, normalised otherwise");
  note(moe.load_imbalance != 1, "moe.load_imbalance: tokens go where the router sends them");
  note(moe.zipf != 0, "moe.zipf: tokens go where the router sends them");
  note(moe.histogram.has_value(), "moe.histogram: tokens go where the router sends them");
  note(moe.node_limit != experts.topk_groups, "moe.node_limit: tokens go to as many nodes as their groups");
}

void add_router(const ExpertConfig& experts, Flags& flags) {
  const bool is_sigmoid = experts.score == RouterScore::sigmoid;
  add(flags, "--moe-router-score-function", is_sigmoid ? "sigmoid" : "softmax");
  if (!is_sigmoid && (experts.topk == 1 || !experts.normalizes_weights))
    add(flags, "--moe-router-pre-softmax");
  if (experts.groups > 0) {
    add(flags, "--moe-router-num-groups", experts.groups);
    add(flags, "--moe-router-group-topk", experts.topk_groups);
  }
  if (experts.scaling != 1) add(flags, "--moe-router-topk-scaling-factor", experts.scaling);
  if (chooses_by_bias(experts)) add(flags, "--moe-router-enable-expert-bias");
  const char* balancing = !experts.is_topk              ? "sinkhorn"
                          : experts.balance_by_sequence ? "seq_aux_loss"
                          : experts.balance_loss > 0    ? "aux_loss"
                                                        : "none";
  add(flags, "--moe-router-load-balancing-type", balancing);
  if (experts.balance_loss > 0) add(flags, "--moe-aux-loss-coeff", experts.balance_loss);
}

void add_dispatch(const Job& job, Flags& flags) {
  const MoeConfig& moe = job.moe;
  if (moe.token_dispatcher == TokenDispatcher::deepep) {
    add(flags, "--moe-token-dispatcher-type", "flex");
    add(flags, "--moe-enable-deepep");
  } else {
    add(flags, "--moe-token-dispatcher-type",
        moe.token_dispatcher == TokenDispatcher::allgather ? "allgather" : "alltoall");
  }
  if (moe.capacity_factor > 0) {
    add(flags, "--moe-expert-capacity-factor", moe.capacity_factor);
    add(flags, "--moe-pad-expert-input-to-capacity");
    add(flags, "--moe-token-drop-policy", "position");
  }
  if (job.training.precision == Dtype::bf16) add(flags, "--moe-grouped-gemm");
}

}  // namespace

void add_megatron_model(const Job& job, MegatronArguments& arguments) {
  Flags flags;
  add_shape(job, flags);
  add_positions(job, flags);
  add_layers(job.model, flags);
  add(flags, "--attention-dropout", job.training.attention_dropout);
  add(flags, "--hidden-dropout", job.training.hidden_dropout);
  add(flags, "--attention-backend", job.training.attention == AttentionKernel::flash ? "flash" : "unfused");
  note_layers(job.model, arguments.unexpressed);
  arguments.groups.push_back({"MODEL_ARGS", std::move(flags)});
}

void add_megatron_experts(const Job& job, MegatronArguments& arguments) {
  const ExpertConfig& experts = job.model.experts;
  if (experts.count == 0) return;
  Flags flags;
  add(flags, "--num-experts", experts.count);
  add(flags, "--moe-router-topk", experts.topk);
  add(flags, "--moe-ffn-hidden-size", experts.ffn_hidden_size);
  if (!job.model.is_hybrid()) add(flags, "--moe-layer-freq", layer_frequency(experts.layers));
  if (experts.latent_size > 0) add(flags, "--moe-latent-size", experts.latent_size);
  if (experts.shared_ffn_hidden_size > 0)
    add(flags, "--moe-shared-expert-intermediate-size", experts.shared_ffn_hidden_size);
  if (experts.shared_gate) add(flags, "--moe-shared-expert-gate");
  add_router(experts, flags);
  add_dispatch(job, flags);
  add(flags, "--expert-model-parallel-size", job.parallelism.expert_model_parallel_size);
  add(flags, "--expert-tensor-parallel-size", job.parallelism.expert_tensor_parallel_size);
  note_router(job, arguments.unexpressed);
  arguments.groups.push_back({"MOE_ARGS", std::move(flags)});
}

}  // namespace simrun
