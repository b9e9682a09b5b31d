// The decoder layer's attention to the encoder's output (Vaswani et al. 2017, section 3.2.3): queries of its
// own rows, keys and values of the encoder's, projected apart.
#include <utility>

#include "models/decoder_layer.h"

namespace simrun {

std::vector<TensorId> DecoderLayer::cross_attention(TensorId y) {
  const auto projected = [&](const char* name, TensorId rows, DimensionId sequence,
                             const std::vector<DimensionId>& heads) {
    std::vector<DimensionId> weight{dims_.hidden}, out{dims_.batch, sequence};
    weight.insert(weight.end(), heads.begin(), heads.end());
    out.insert(out.end(), heads.begin(), heads.end());
    std::vector<TensorId> inputs{rows, graph_.parameter(std::string(name) + "_weight", weight)};
    if (model_.qkv_bias) inputs.push_back(graph_.parameter(std::string(name) + "_bias", heads));
    const TensorId product = graph_.activation(name, out);
    graph_.add(name, Opcode::gemm, Function::none, std::move(inputs), {product});
    return product;
  };
  const std::vector<DimensionId> of_queries{dims_.kv_heads, dims_.group, dims_.head_dim};
  const TensorId q = projected("cross_q", y, dims_.sequence, of_queries);
  const TensorId k = projected("cross_k", memory_->rows, memory_->sequence, {dims_.kv_heads, dims_.head_dim});
  const TensorId v = projected("cross_v", memory_->rows, memory_->sequence, {dims_.kv_heads, dims_.head_dim});
  const TensorId context = cross_core(q, k, v);
  const TensorId weight = graph_.parameter("cross_projection_weight",
                                           {dims_.kv_heads, dims_.group, dims_.head_dim, dims_.hidden});
  std::optional<TensorId> bias;
  if (model_.projection_bias) bias = graph_.parameter("cross_projection_bias", {dims_.hidden});
  return projection("cross_projection", {context, weight}, "", bias);
}

// Nothing is masked: every query sees the whole of the encoder's output.
TensorId DecoderLayer::cross_core(TensorId q, TensorId k, TensorId v) {
  const TensorId context = graph_.activation(
      "cross_attention", {dims_.batch, dims_.sequence, dims_.kv_heads, dims_.group, dims_.head_dim});
  std::vector<TensorId> outputs{context};
  const bool flash = training_.attention == AttentionKernel::flash;
  const auto kept = [&](const char* name, Dtype dtype, std::vector<DimensionId> dims) {
    outputs.push_back(graph_.tensor(name, std::move(dims), dtype, TensorKind::activation));
  };
  if (flash) {
    kept("cross_log_sum_exp", Dtype::fp32, {dims_.batch, dims_.kv_heads, dims_.group, dims_.sequence});
  } else {
    const std::vector<DimensionId> scores{dims_.batch, dims_.kv_heads, dims_.group, dims_.sequence,
                                          memory_->sequence};
    kept("cross_probabilities", training_.precision, scores);
    if (training_.attention_dropout > 0) {
      kept("cross_mask", Dtype::uint8, scores);
      kept("cross_dropped", training_.precision, scores);
    }
  }
  Operator& op = graph_.add("cross_attention", Opcode::attention, flash ? Function::flash : Function::unfused,
                            {q, k, v}, std::move(outputs));
  op.module = "core_attn";
  op.constants = {score_factor(), 0};
  op.dropout = static_cast<float>(training_.attention_dropout);
  op.whole_dims = {dims_.sequence, memory_->sequence, dims_.head_dim, dims_.group};
  return context;
}

}  // namespace simrun
