#include "models/latent_attention.h"

#include <utility>

namespace simrun {
namespace {

constexpr const char* up_module = "mla_up_proj";

class LatentHeads {
 public:
  LatentHeads(const ModelConfig& model, const DecoderDimensions& dims, GraphBuilder& graph)
      : model_(model), mla_(model.mla), dims_(dims), latent_(*dims.latent), graph_(graph) {}

  AttentionHeads add(TensorId y) {
    DimensionId q_source_dim = dims_.hidden;
    TensorId q_source = y;
    if (mla_.q_lora_rank > 0) {
      q_source = norm("q_down_norm", product("q_down", y, {dims_.hidden}, {latent_.q_lora}), latent_.q_lora);
      q_source_dim = latent_.q_lora;
    }
    const TensorId down = product("kv_down", y, {dims_.hidden}, {latent_.kv_down});
    const TensorId compressed = graph_.activation("kv_compressed", tokens(latent_.kv_lora));
    const TensorId shared_key = graph_.activation("shared_key", tokens(latent_.qk_rope));
    graph_.add("kv_split", Opcode::map, Function::split, {down}, {compressed, shared_key});
    const TensorId normed = norm("kv_down_norm", compressed, latent_.kv_lora);
    const TensorId q = product("q_up", q_source, {q_source_dim}, {dims_.kv_heads, latent_.qk_dim}, up_module);
    const TensorId kv =
        product("kv_up", normed, {latent_.kv_lora}, {dims_.kv_heads, latent_.kv_up}, up_module);
    return rotated(q, kv, shared_key);
  }

 private:
  std::vector<DimensionId> tokens(DimensionId last) const { return {dims_.batch, dims_.sequence, last}; }
  std::vector<DimensionId> heads(DimensionId last) const {
    return {dims_.batch, dims_.sequence, dims_.kv_heads, last};
  }

  TensorId product(const std::string& name, TensorId x, std::vector<DimensionId> weight,
                   const std::vector<DimensionId>& columns, const char* module = "") {
    weight.insert(weight.end(), columns.begin(), columns.end());
    std::vector<DimensionId> out{dims_.batch, dims_.sequence};
    out.insert(out.end(), columns.begin(), columns.end());
    const TensorId z = graph_.activation(name, std::move(out));
    graph_
        .add(name, Opcode::gemm, Function::none, {x, graph_.parameter(name + "_weight", std::move(weight))},
             {z})
        .module = module;
    return z;
  }

  TensorId norm(const std::string& name, TensorId x, DimensionId dim) {
    const TensorId y = graph_.activation(name, tokens(dim));
    const TensorId statistics =
        graph_.tensor(name + "_statistics", tokens(dims_.one), Dtype::fp32, TensorKind::activation);
    Operator& op = graph_.add(name, Opcode::norm, Function::rms_norm,
                              {x, graph_.parameter(name + "_weight", {dim})}, {y, statistics});
    op.whole_dims = {dim};
    op.constants = {model_.norm_epsilon};
    return y;
  }

  AttentionHeads rotated(TensorId q, TensorId kv, TensorId shared_key) {
    const AttentionHeads made{graph_.activation("q_rope", heads(latent_.qk_dim)),
                              graph_.activation("key", heads(latent_.qk_dim)),
                              graph_.activation("value", heads(latent_.v_dim))};
    const double turned =
        static_cast<double>(mla_.qk_rope_head_dim) / static_cast<double>(mla_.qk_head_dim());
    Operator& of_queries = graph_.add("q_rope", Opcode::map, Function::rope, {q}, {made.q});
    of_queries.module = up_module;
    of_queries.constants = {model_.rope_base, turned};
    Operator& of_keys =
        graph_.add("kv_rope", Opcode::map, Function::mla_rope, {kv, shared_key}, {made.k, made.v});
    of_keys.module = up_module;
    of_keys.constants = {model_.rope_base};
    return made;
  }

  const ModelConfig& model_;
  const MlaConfig& mla_;
  const DecoderDimensions& dims_;
  const LatentDimensions& latent_;
  GraphBuilder& graph_;
};

}  // namespace

LatentDimensions latent_dimensions(const MlaConfig& mla, GraphBuilder& graph) {
  LatentDimensions dims;
  if (mla.q_lora_rank > 0) dims.q_lora = graph.dimension("q_lora", mla.q_lora_rank);
  dims.kv_lora = graph.dimension("kv_lora", mla.kv_lora_rank);
  dims.kv_down = graph.dimension("kv_down", mla.kv_lora_rank + mla.qk_rope_head_dim);
  dims.qk_rope = graph.dimension("qk_rope", mla.qk_rope_head_dim);
  dims.qk_dim = graph.dimension("qk_dim", mla.qk_head_dim());
  dims.v_dim = graph.dimension("v_dim", mla.v_head_dim);
  dims.kv_up = graph.dimension("kv_up", mla.qk_nope_head_dim + mla.v_head_dim);
  return dims;
}

AttentionHeads add_latent_heads(const ModelConfig& model, const DecoderDimensions& dims, TensorId y,
                                GraphBuilder& graph) {
  return LatentHeads(model, dims, graph).add(y);
}

}  // namespace simrun
