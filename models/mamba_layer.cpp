#include "models/mamba_layer.h"

namespace simrun {

MambaDimensions mamba_dimensions(const MambaConfig& mamba, GraphBuilder& graph) {
  const std::int64_t heads = mamba.num_heads / mamba.num_groups, inner = heads * mamba.head_dim;
  const std::int64_t convolved = inner + 2 * mamba.state_dim;
  MambaDimensions dims;
  dims.groups = graph.dimension("mamba_groups", mamba.num_groups);
  dims.packed = graph.dimension("mamba_packed", inner + convolved + heads);
  dims.convolved = graph.dimension("mamba_convolved", convolved);
  dims.inner = graph.dimension("mamba_inner", inner);
  dims.heads = graph.dimension("mamba_heads", heads);
  dims.taps = graph.dimension("mamba_taps", MambaConfig::conv_width);
  return dims;
}

std::vector<TensorId> add_mamba_channels(const ModelConfig& model, const DecoderDimensions& dims, TensorId y,
                                         GraphBuilder& graph) {
  const MambaDimensions& mamba = *dims.mamba;
  const std::vector<DimensionId> channels{dims.batch, dims.sequence, mamba.groups, mamba.inner};

  const TensorId packed =
      graph.activation("mamba_in", {dims.batch, dims.sequence, mamba.groups, mamba.packed});
  graph
      .add("mamba_in", Opcode::gemm, Function::none,
           {y, graph.parameter("mamba_in_weight", {dims.hidden, mamba.groups, mamba.packed})}, {packed})
      .module = mamba_module;

  const std::vector<TensorId> operands{
      packed,
      graph.parameter("mamba_convolution_weight", {mamba.groups, mamba.convolved, mamba.taps}),
      graph.parameter("mamba_convolution_bias", {mamba.groups, mamba.convolved}),
      graph.parameter("mamba_step_bias", {mamba.groups, mamba.heads}),
      graph.parameter("mamba_log_decay", {mamba.groups, mamba.heads}),
      graph.parameter("mamba_skip", {mamba.groups, mamba.heads})};
  const TensorId gated = graph.activation("mamba_scan", channels);
  const TensorId scanned = graph.activation("mamba_scanned", channels);
  Operator& scan = graph.add("mamba_scan", Opcode::scan, Function::none, operands, {gated, scanned});
  scan.module = mamba_module;
  scan.whole_dims = {dims.sequence, mamba.packed, mamba.convolved, mamba.inner, mamba.heads, mamba.taps};

  const TensorId normed = graph.activation("mamba_gate_norm", channels);
  const TensorId statistics =
      graph.tensor("mamba_gate_norm_statistics", {dims.batch, dims.sequence, mamba.groups, dims.one},
                   Dtype::fp32, TensorKind::activation);
  Operator& norm = graph.add("mamba_gate_norm", Opcode::norm, Function::rms_norm,
                             {gated, graph.parameter("mamba_gate_norm_weight", {mamba.groups, mamba.inner})},
                             {normed, statistics});
  norm.module = mamba_module;
  norm.whole_dims = {mamba.inner};
  norm.constants = {model.norm_epsilon};
  return {normed, graph.parameter("mamba_out_weight", {mamba.groups, mamba.inner, dims.hidden})};
}

}  // namespace simrun
