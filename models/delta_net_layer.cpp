#include "models/delta_net_layer.h"

#include <string>

namespace simrun {
namespace {

class DeltaNetBuilder {
 public:
  DeltaNetBuilder(const ModelConfig& model, const DecoderDimensions& dims, GraphBuilder& graph)
      : model_(model), dims_(dims), delta_(*dims.delta_net), graph_(graph) {}

  std::vector<TensorId> add(TensorId y) {
    const TensorId packed = product("delta_in", y, {delta_.heads, delta_.packed});
    const TensorId gate = product("delta_gate", y, {delta_.heads, delta_.group, delta_.value});
    const TensorId normed = norm(scan(packed));
    const TensorId gated = graph_.activation("delta_gated", of_heads(delta_.value));
    graph_.add("delta_gated", Opcode::map, Function::gated_silu, {gate, normed}, {gated}).module =
        delta_net_module;
    return {gated,
            graph_.parameter("delta_out_weight", {delta_.heads, delta_.group, delta_.value, dims_.hidden})};
  }

 private:
  std::vector<DimensionId> rows(const std::vector<DimensionId>& columns) const {
    std::vector<DimensionId> rows{dims_.batch, dims_.sequence};
    rows.insert(rows.end(), columns.begin(), columns.end());
    return rows;
  }
  std::vector<DimensionId> of_heads(DimensionId last) const {
    return rows({delta_.heads, delta_.group, last});
  }

  TensorId product(const std::string& name, TensorId y, const std::vector<DimensionId>& columns) {
    std::vector<DimensionId> of_weight{dims_.hidden};
    of_weight.insert(of_weight.end(), columns.begin(), columns.end());
    const TensorId out = graph_.activation(name, rows(columns));
    graph_.add(name, Opcode::gemm, Function::none, {y, graph_.parameter(name + "_weight", of_weight)}, {out})
        .module = delta_net_module;
    return out;
  }

  TensorId scan(TensorId packed) {
    const std::vector<DimensionId> by_value_head{delta_.heads, delta_.group};
    const TensorId scanned = graph_.activation("delta_scan", of_heads(delta_.value));
    const TensorId qkv = graph_.activation("delta_qkv", of_heads(delta_.qkv));
    const TensorId inverse = graph_.activation("delta_inverse", of_heads(delta_.chunk));
    const TensorId statistics =
        graph_.tensor("delta_statistics", of_heads(delta_.statistics), Dtype::fp32, TensorKind::activation);
    Operator& op = graph_.add(
        "delta_scan", Opcode::scan, Function::gated_delta_rule,
        {packed, graph_.parameter("delta_convolution_weight", {delta_.heads, delta_.convolved, delta_.taps}),
         graph_.parameter("delta_step_bias", by_value_head),
         graph_.parameter("delta_log_decay", by_value_head)},
        {scanned, qkv, inverse, statistics});
    op.module = delta_net_module;
    op.whole_dims = {dims_.sequence, delta_.packed, delta_.convolved,  delta_.taps, delta_.group,
                     delta_.value,   delta_.qkv,    delta_.statistics, delta_.chunk};
    return scanned;
  }

  TensorId norm(TensorId x) {
    const TensorId normed = graph_.activation("delta_norm", of_heads(delta_.value));
    const TensorId statistics =
        graph_.tensor("delta_norm_statistics", of_heads(dims_.one), Dtype::fp32, TensorKind::activation);
    Operator& op =
        graph_.add("delta_norm", Opcode::norm, Function::rms_norm,
                   {x, graph_.parameter("delta_norm_weight", {delta_.value})}, {normed, statistics});
    op.module = delta_net_module;
    op.whole_dims = {delta_.value};
    op.constants = {model_.norm_epsilon};
    return normed;
  }

  const ModelConfig& model_;
  const DecoderDimensions& dims_;
  const DeltaNetDimensions& delta_;
  GraphBuilder& graph_;
};

}  // namespace

DeltaNetDimensions delta_net_dimensions(const DeltaNetConfig& delta, GraphBuilder& graph) {
  const std::int64_t group = delta.num_value_heads / delta.num_key_heads;
  const std::int64_t convolved = 2 * delta.key_head_dim + group * delta.value_head_dim;
  DeltaNetDimensions dims;
  dims.heads = graph.dimension("delta_heads", delta.num_key_heads);
  dims.group = graph.dimension("delta_group", group);
  dims.packed = graph.dimension("delta_packed", convolved + 2 * group);
  dims.convolved = graph.dimension("delta_convolved", convolved);
  dims.taps = graph.dimension("delta_taps", DeltaNetConfig::conv_width);
  dims.value = graph.dimension("delta_value", delta.value_head_dim);
  dims.qkv = graph.dimension("delta_qkv", 2 * delta.key_head_dim + delta.value_head_dim);
  dims.chunk = graph.dimension("delta_chunk", DeltaNetConfig::chunk);
  dims.statistics = graph.dimension("delta_statistics", 3);
  return dims;
}

std::vector<TensorId> add_delta_net_channels(const ModelConfig& model, const DecoderDimensions& dims,
                                             TensorId y, GraphBuilder& graph) {
  return DeltaNetBuilder(model, dims, graph).add(y);
}

}  // namespace simrun
