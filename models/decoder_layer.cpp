#include "models/decoder_layer.h"

#include <cmath>
#include <utility>

#include "models/delta_net_layer.h"
#include "models/latent_attention.h"
#include "models/mamba_layer.h"
#include "models/moe_layer.h"
#include "models/up_projection.h"

namespace simrun {
namespace {

constexpr const char* no_module = "";

}  // namespace

TensorId DecoderLayer::add(TensorId x, const LayerKind& kind) {
  kind_ = kind;
  const Names of_attention{"input_norm", "attention_output_norm", "attention_add", "attention_output_scale"};
  const Names of_mlp{"mlp_norm", "mlp_output_norm", "mlp_add", "mlp_output_scale"};
  if (model_.parallel_residual) return parallel_branches(x, of_attention, of_mlp);
  if (kind.content == LayerContent::mamba)
    return sublayer(x, {"mamba_norm", "mamba_output_norm", "mamba_add", "mamba_output_scale"},
                    &DecoderLayer::mamba);
  if (kind.content == LayerContent::delta_net_and_mlp)
    x = sublayer(x, of_attention, &DecoderLayer::delta_net);
  else if (kind.content != LayerContent::mlp)
    x = sublayer(x, of_attention, &DecoderLayer::attention);
  if (memory_)
    x = sublayer(x, {"cross_norm", "cross_output_norm", "cross_add", "cross_output_scale"},
                 &DecoderLayer::cross_attention);
  return kind.content == LayerContent::attention ? x : sublayer(x, of_mlp, &DecoderLayer::feed_forward);
}

TensorId DecoderLayer::parallel_branches(TensorId x, const Names& of_attention, const Names& of_mlp) {
  const TensorId normed = norm(of_attention.norm, x, "layernorm");
  const auto before_mlp = [&] { return model_.shared_norm ? normed : norm(of_mlp.norm, x, "layernorm"); };
  std::vector<TensorId> attended = attention(normed);
  if (training_.hidden_dropout > 0) {  // which takes each branch whole
    attended.push_back(x);
    const TensorId sum = add_rows(of_attention.add, std::move(attended));
    std::vector<TensorId> summands = feed_forward(before_mlp());
    summands.push_back(sum);
    return add_rows(of_mlp.add, std::move(summands));
  }
  const std::vector<TensorId> transformed = feed_forward(before_mlp());
  std::vector<TensorId> summands{
      graph_.activation("branch_sum", {dims_.batch, dims_.sequence, dims_.hidden})};
  Operator& op = graph_.add("branch_sum", Opcode::map, Function::add, {attended.front(), transformed.front()},
                            {summands.front()});
  op.keeps_partial_sums = true;
  op.whole_dims = {dims_.sequence};
  for (const std::vector<TensorId>* branch : {&std::as_const(attended), &transformed})
    summands.insert(summands.end(), branch->begin() + 1, branch->end());  // biases
  summands.push_back(x);
  return add_rows(of_mlp.add, std::move(summands));
}

TensorId DecoderLayer::sublayer(TensorId x, const Names& names, Branch branch) {
  const bool post = model_.norm_placement == NormPlacement::post;
  const bool has_norm_before = !post && model_.norm_placement != NormPlacement::output;
  std::vector<TensorId> summands = (this->*branch)(has_norm_before ? norm(names.norm, x, "layernorm") : x);
  if (has_norm_behind_branch()) summands = {norm(names.output_norm, summands.front(), no_module)};
  if (model_.residual_multiplier != 1)
    summands = {scaled(names.scale, summands.front(), model_.residual_multiplier)};
  summands.push_back(x);
  const TensorId sum = add_rows(names.add, std::move(summands));
  return post ? norm(names.norm, sum, no_module) : sum;
}

TensorId DecoderLayer::add_rows(const std::string& name, std::vector<TensorId> inputs) {
  const std::vector<DimensionId> rows{dims_.batch, dims_.sequence, dims_.hidden};
  std::vector<TensorId> outputs{graph_.activation(name, rows)};
  const TensorId out = outputs.front();
  if (training_.hidden_dropout > 0)
    outputs.push_back(graph_.tensor(name + "_mask", rows, Dtype::uint8, TensorKind::activation));
  graph_.add(name, Opcode::map, Function::add, std::move(inputs), std::move(outputs)).dropout =
      static_cast<float>(training_.hidden_dropout);
  return out;
}

TensorId DecoderLayer::scaled(const std::string& name, TensorId x, double factor) {
  const TensorId y = graph_.activation(name, {dims_.batch, dims_.sequence, dims_.hidden});
  graph_.add(name, Opcode::map, Function::scale, {x}, {y}).constants = {factor};
  return y;
}

TensorId DecoderLayer::norm(const std::string& name, TensorId x, const char* module) {
  const bool layer_norm = model_.normalization == Normalization::layer_norm;
  std::vector<TensorId> inputs{x};
  if (model_.norm_weight) inputs.push_back(graph_.parameter(name + "_weight", {dims_.hidden}));
  if (layer_norm && model_.norm_weight && model_.norm_bias)
    inputs.push_back(graph_.parameter(name + "_bias", {dims_.hidden}));
  const TensorId y = graph_.activation(name, {dims_.batch, dims_.sequence, dims_.hidden});
  const TensorId statistics =
      graph_.tensor(name + "_statistics", {dims_.batch, dims_.sequence, dims_.statistics}, Dtype::fp32,
                    TensorKind::activation);
  Operator& op = graph_.add(name, Opcode::norm, layer_norm ? Function::layer_norm : Function::rms_norm,
                            std::move(inputs), {y, statistics});
  op.whole_dims = {dims_.hidden};
  op.module = module;
  op.constants = {model_.norm_epsilon};
  return y;
}

// The product into the residual stream. Its bias is added with the residual; a norm or factor in between
// needs it at once.
std::vector<TensorId> DecoderLayer::projection(const std::string& name, std::vector<TensorId> operands,
                                               const char* module, std::optional<TensorId> bias) {
  const bool bias_in_product = bias && (has_norm_behind_branch() || model_.residual_multiplier != 1);
  if (bias_in_product) operands.push_back(*bias);
  const TensorId z = graph_.activation(name, {dims_.batch, dims_.sequence, dims_.hidden});
  graph_.add(name, Opcode::gemm, Function::none, std::move(operands), {z}).module = module;
  if (!bias || bias_in_product) return {z};
  return {z, *bias};
}

// [batch, sequence, kv_heads, group + 2, head_dim].
TensorId DecoderLayer::packed_qkv(TensorId y) {
  const TensorId qkv =
      graph_.activation("qkv", {dims_.batch, dims_.sequence, dims_.kv_heads, dims_.qkv, dims_.head_dim});
  std::vector<TensorId> inputs{
      y, graph_.parameter("qkv_weight", {dims_.hidden, dims_.kv_heads, dims_.qkv, dims_.head_dim})};
  if (model_.qkv_bias)
    inputs.push_back(graph_.parameter("qkv_bias", {dims_.kv_heads, dims_.qkv, dims_.head_dim}));
  graph_.add("qkv", Opcode::gemm, Function::none, std::move(inputs), {qkv});
  return qkv;
}

// More tensor-parallel ranks than key-value heads, as Megatron-Core does it (told in ISEEKYAN/Megatron-LM,
// pull request 91): the product's rows are split without regard to heads; each rank gathers them all and
// takes its query heads and their key and value, of which other ranks take copies. The gather's backward is a
// reduce-scatter, which adds the gradients of the copies. Likewise in front of an all-to-all over more
// context-parallel ranks than key-value heads: these are repeated until there is one for each rank
// (verl-project/verl, issue 1226; PrimeIntellect-ai/prime-rl, pull request 3042). They repeat keys and values
// behind norms and rotations, which here run over the copies as well.
TensorId DecoderLayer::packed_qkv_of_rows(TensorId y) {
  const DimensionId of_all = *dims_.qkv_rows;
  const TensorId rows = graph_.activation("qkv", {dims_.batch, dims_.sequence, of_all});
  std::vector<TensorId> inputs{y, graph_.parameter("qkv_weight", {dims_.hidden, of_all})};
  if (model_.qkv_bias) inputs.push_back(graph_.parameter("qkv_bias", {of_all}));
  graph_.add("qkv", Opcode::gemm, Function::none, std::move(inputs), {rows});
  const TensorId qkv = graph_.activation(
      "select_heads", {dims_.batch, dims_.sequence, dims_.kv_heads, dims_.qkv, dims_.head_dim});
  graph_.add("select_heads", Opcode::copy, Function::none, {rows}, {qkv}).whole_dims = {of_all, dims_.qkv,
                                                                                        dims_.head_dim};
  return qkv;
}

TensorId DecoderLayer::on_packed_heads(const std::string& name, Function function, TensorId qkv,
                                       std::vector<double> constants) {
  const TensorId changed =
      graph_.activation(name, {dims_.batch, dims_.sequence, dims_.kv_heads, dims_.qkv, dims_.head_dim});
  Operator& op = graph_.add(name, Opcode::map, function, {qkv}, {changed});
  op.whole_dims = {dims_.head_dim, dims_.qkv};
  op.constants = std::move(constants);
  return changed;
}

// What is done to packed queries, keys and values before the scores.
TensorId DecoderLayer::prepared_heads(TensorId qkv) {
  const bool turns = model_.position_embedding == PositionEmbedding::rope && kind_.has_rope;
  if (model_.qkv_clip > 0) qkv = on_packed_heads("qkv_clip", Function::clip, qkv, {model_.qkv_clip});
  if (model_.qk_norm != QkNorm::none && (turns || model_.qk_norm != QkNorm::unweighted)) qkv = qk_norm(qkv);
  const bool is_local = kind_.window > 0 && model_.window_rope_base > 0;
  if (turns)
    return on_packed_heads("rope", Function::rope, qkv,
                           {is_local ? model_.window_rope_base : model_.rope_base, model_.rotary_share});
  const QueryTemperature& temperature = model_.query_temperature;
  if (temperature.factor == 0) return qkv;
  return on_packed_heads("query_scale", Function::scale_queries, qkv,
                         {temperature.factor, static_cast<double>(temperature.step)});
}

std::vector<TensorId> DecoderLayer::attention(TensorId y) {
  if (dims_.latent) return latent_attention(y);
  const TensorId qkv = prepared_heads(dims_.qkv_rows ? packed_qkv_of_rows(y) : packed_qkv(y));
  std::vector<TensorId> inputs_of_core{qkv};
  if (model_.attention_sinks)
    inputs_of_core.push_back(graph_.parameter("attention_sinks", {dims_.kv_heads, dims_.group}));
  if (position_bias_) inputs_of_core.push_back(position_bias_->table);
  const TensorId context = core_attention(
      std::move(inputs_of_core), {dims_.batch, dims_.sequence, dims_.kv_heads, dims_.group, dims_.head_dim});
  position_bias_.reset();
  const TensorId gated = model_.attention_output_gate ? output_gate(y, context) : context;
  const TensorId weight = graph_.parameter("attention_projection_weight",
                                           {dims_.kv_heads, dims_.group, dims_.head_dim, dims_.hidden});
  std::optional<TensorId> bias;
  if (model_.projection_bias) bias = graph_.parameter("attention_projection_bias", {dims_.hidden});
  return projection("attention_projection", {gated, weight}, no_module, bias);
}

// Of a token's context: the rows of q_proj beyond the queries' (Hugging Face, modeling_qwen3_next.py).
TensorId DecoderLayer::output_gate(TensorId y, TensorId context) {
  const std::vector<DimensionId> heads{dims_.kv_heads, dims_.group, dims_.head_dim};
  std::vector<DimensionId> of_weight{dims_.hidden}, rows{dims_.batch, dims_.sequence};
  of_weight.insert(of_weight.end(), heads.begin(), heads.end());
  rows.insert(rows.end(), heads.begin(), heads.end());
  const TensorId gate = graph_.activation("attention_gate", rows),
                 gated = graph_.activation("attention_gated", rows);
  std::vector<TensorId> inputs{y, graph_.parameter("attention_gate_weight", of_weight)};
  if (model_.qkv_bias) inputs.push_back(graph_.parameter("attention_gate_bias", heads));
  graph_.add("attention_gate", Opcode::gemm, Function::none, std::move(inputs), {gate});
  graph_.add("attention_gated", Opcode::map, Function::gated_sigmoid, {gate, context}, {gated});
  return gated;
}

TensorId DecoderLayer::qk_norm(TensorId qkv) {
  const bool of_all = model_.qk_norm == QkNorm::of_all_heads, by_head = model_.qk_norm == QkNorm::by_head;
  std::vector<TensorId> inputs{qkv};
  if (of_all || by_head)
    inputs.push_back(graph_.parameter("qk_norm_weight", {dims_.kv_heads, *dims_.qk_heads, dims_.head_dim}));
  else if (model_.qk_norm == QkNorm::of_heads)
    inputs.push_back(graph_.parameter("qk_norm_weight", {dims_.qk, dims_.head_dim}));
  const TensorId normed =
      graph_.activation("qk_norm", {dims_.batch, dims_.sequence, dims_.kv_heads, dims_.qkv, dims_.head_dim});
  const TensorId statistics =
      graph_.tensor("qk_norm_statistics",
                    of_all ? std::vector{dims_.batch, dims_.sequence, dims_.qk}
                           : std::vector{dims_.batch, dims_.sequence, dims_.kv_heads, dims_.qkv,
                                         by_head ? dims_.statistics : dims_.one},
                    Dtype::fp32, TensorKind::activation);
  Operator& op = graph_.add("qk_norm", Opcode::norm, by_head ? Function::qk_layer_norm : Function::qk_norm,
                            std::move(inputs), {normed, statistics});
  op.whole_dims = {dims_.head_dim, dims_.qkv};
  if (of_all || by_head) op.whole_dims.push_back(*dims_.qk_heads);
  if (of_all) op.whole_dims.push_back(dims_.kv_heads);
  op.constants = {model_.norm_epsilon};
  return normed;
}

std::vector<TensorId> DecoderLayer::latent_attention(TensorId y) {
  const AttentionHeads heads = add_latent_heads(model_, dims_, y, graph_);
  const TensorId context = core_attention({heads.q, heads.k, heads.v},
                                          {dims_.batch, dims_.sequence, dims_.kv_heads, dims_.latent->v_dim});
  const TensorId weight =
      graph_.parameter("attention_projection_weight", {dims_.kv_heads, dims_.latent->v_dim, dims_.hidden});
  return projection("attention_projection", {context, weight}, no_module, {});
}

std::vector<TensorId> DecoderLayer::mamba(TensorId y) {
  return projection("mamba_out", add_mamba_channels(model_, dims_, y, graph_), mamba_module, {});
}

std::vector<TensorId> DecoderLayer::delta_net(TensorId y) {
  return projection("delta_out", add_delta_net_channels(model_, dims_, y, graph_), delta_net_module, {});
}

double DecoderLayer::score_factor() const {
  if (model_.attention_scale > 0) return model_.attention_scale;
  const std::int64_t width = model_.mla.on() ? model_.mla.qk_head_dim() : model_.head_dim;
  return 1 / std::sqrt(static_cast<double>(width));
}

TensorId DecoderLayer::core_attention(std::vector<TensorId> inputs, std::vector<DimensionId> dims) {
  const TensorId context = graph_.activation("core_attention", std::move(dims));
  std::vector<TensorId> outputs{context};
  const bool flash = training_.attention == AttentionKernel::flash;
  if (flash) {
    outputs.push_back(graph_.tensor("log_sum_exp", {dims_.batch, dims_.kv_heads, dims_.group, dims_.sequence},
                                    Dtype::fp32, TensorKind::activation));
  } else {
    const std::vector<DimensionId> scores{dims_.batch, dims_.kv_heads, dims_.group, dims_.sequence,
                                          dims_.key_sequence};
    outputs.push_back(graph_.activation("attention_probabilities", scores));
    if (training_.attention_dropout > 0) {
      outputs.push_back(graph_.tensor("attention_mask", scores, Dtype::uint8, TensorKind::activation));
      outputs.push_back(graph_.activation("attention_dropped", scores));
    }
    if (model_.attention_soft_cap > 0)  // which tanh's backward kernel reads
      outputs.push_back(graph_.activation("attention_soft_capped", scores));
  }
  Operator& op = graph_.add("core_attention", Opcode::attention, flash ? Function::flash : Function::unfused,
                            std::move(inputs), std::move(outputs));
  op.module = "core_attn";
  op.causal = {model_.causal_attention, kind_.window, kind_.window > 0 && model_.chunked_windows};
  op.soft_cap = model_.attention_soft_cap;
  op.alibi = model_.position_embedding == PositionEmbedding::alibi;
  op.constants = {score_factor(), model_.attention_soft_cap};
  if (op.alibi) op.constants.push_back(model_.alibi_bias_max);
  if (position_bias_) op.constants.push_back(static_cast<double>(position_bias_->distance));
  op.dropout = static_cast<float>(training_.attention_dropout);
  op.whole_dims = {dims_.sequence, dims_.key_sequence, dims_.head_dim, dims_.qkv, dims_.group};
  return context;
}

std::vector<TensorId> DecoderLayer::feed_forward(TensorId y) {
  if (!kind_.has_experts) return mlp(y);
  return {MoeLayer(model_, dims_, graph_).add(y)};
}

std::vector<TensorId> DecoderLayer::mlp(TensorId y) {
  const TensorId activated = add_up_projection({.name = "fc1",
                                                .activation = "mlp_activation",
                                                .module = "mlp",
                                                .product_module = "",
                                                .activation_module = "",
                                                .rows = {dims_.batch, dims_.sequence},
                                                .experts = {},
                                                .hidden = dims_.hidden,
                                                .gate = dims_.gate,
                                                .ffn = dims_.ffn,
                                                .function = model_.activation,
                                                .bias = model_.mlp_bias,
                                                .separate_gate = model_.separate_gate},
                                               y, graph_);
  const TensorId weight = graph_.parameter("fc2_weight", {dims_.ffn, dims_.hidden});
  std::optional<TensorId> bias;
  if (model_.mlp_bias) bias = graph_.parameter("fc2_bias", {dims_.hidden});
  return projection("fc2", {activated, weight}, "mlp", bias);
}

}  // namespace simrun
