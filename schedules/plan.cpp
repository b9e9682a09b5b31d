#include "schedules/plan.h"

#include <array>

namespace simrun {

const char* to_string(Opcode opcode) {
  static constexpr std::array<const char*, opcode_count> names = {
      "init",
      "input",
      "copy",
      "free",
      "gemm",
      "attention",
      "attention_backward",
      "norm",
      "norm_backward",
      "map",
      "reduce",
      "gather",
      "scatter",
      "route",
      "route_backward",
      "cross_entropy",
      "cross_entropy_backward",
      "optimizer",
      "send",
      "recv",
      "all_reduce",
      "all_gather",
      "reduce_scatter",
      "all_to_all",
      "broadcast",
      "conv",
      "pool",
      "pool_backward",
      "lstm",
      "lstm_backward",
      "push",
      "pull",
      "scan",
      "scan_backward",
  };
  return names[static_cast<std::size_t>(opcode)];
}

namespace {

constexpr std::array<const char*, function_count> function_names = {
    "none",
    "add",
    "add_backward",
    "sum_gradients",
    "gelu",
    "gelu_backward",
    "swiglu",
    "swiglu_backward",
    "rope",
    "rope_backward",
    "cast",
    "scale",
    "sum",
    "max",
    "sum_squares",
    "layer_norm",
    "rms_norm",
    "flash",
    "unfused",
    "log_loss",
    "adam",
    "relu",
    "relu_backward",
    "squared_relu",
    "squared_relu_backward",
    "geglu",
    "geglu_backward",
    "soft_cap",
    "soft_cap_backward",
    "qk_norm",
    "dispatch",
    "combine",
    "sigmoid_gate",
    "sigmoid_gate_backward",
    "split",
    "concat",
    "mla_rope",
    "mla_rope_backward",
    "sgd",
    "adafactor",
    "muon",
    "tanh",
    "tanh_backward",
    "select",
    "select_backward",
    "concatenate",
    "concatenate_backward",
    "batch_norm",
    "convolution_input_gradient",
    "convolution_weight_gradient",
    "max_pool",
    "average_pool",
    "dispatch_masks",
    "dispatch_masks_backward",
    "gated_silu",
    "gated_silu_backward",
    "gated_gelu",
    "gated_gelu_backward",
    "weigh_rows",
    "weigh_rows_backward",
    "gated_sigmoid",
    "gated_sigmoid_backward",
    "gated_delta_rule",
    "scale_rows",
    "scale_rows_backward",
    "qk_layer_norm",
    "clip",
    "clip_backward",
    "scale_queries",
};

}  // namespace

const char* to_string(Function function) { return function_names[static_cast<std::size_t>(function)]; }

const char* to_string(Traffic traffic) {
  static constexpr std::array<const char*, traffic_count> names = {"compute", "tensor",   "context", "expert",
                                                                   "data",    "pipeline", "offload"};
  return names[static_cast<std::size_t>(traffic)];
}

const char* to_string(Category category) {
  static constexpr std::array<const char*, category_count> names = {"weights",     "gradients", "optimizer",
                                                                    "activations", "comm",      "workspace"};
  return names[static_cast<std::size_t>(category)];
}

const char* to_string(PassKind kind) {
  static constexpr std::array<const char*, pass_kind_count> names = {
      "forward", "backward", "backward_input", "backward_weight", "communication", "step", "overlapped"};
  return names[static_cast<std::size_t>(kind)];
}

std::int64_t Buffer::elements() const {
  std::int64_t product = 1;
  for (const BufferDim& dim : dims) product *= dim.extent;
  return product;
}

// A scale is fp32, or one byte in blocks of 32 (E8M0; OCP Microscaling Formats 1.0, section 5), of 16 (E4M3;
// NVFP4, arXiv 2509.25149, section 2), and of 64 (NF4 with doubly quantised scales, arXiv 2305.14314, section
// 3, which have an fp32 for 256 of them).
std::int64_t Buffer::stored_bytes(std::int64_t elements) const {
  constexpr std::int32_t microscaling = 32;
  constexpr std::int64_t scales_of_scale = 256;
  const std::int64_t numbers = simrun::stored_bytes(dtype, elements);
  if (scale_block == 0) return numbers;
  const std::int64_t scales = (elements + scale_block - 1) / scale_block;
  if (dtype == Dtype::fp4 && scale_block == nf4_block)
    return numbers + scales + (scales + scales_of_scale - 1) / scales_of_scale * 4;
  return numbers + scales * (scale_block <= microscaling ? 1 : 4);
}

std::int64_t Buffer::stored_bytes() const { return stored_bytes(elements()); }

std::int64_t Buffer::bytes() const { return parent == no_index ? stored_bytes() : 0; }

std::int64_t Plan::ranks() const {
  std::int64_t total = 0;
  for (const StageDevices& stage : stages)
    for (const DeviceRange& range : stage.devices) total += range.count;
  return total;
}

}  // namespace simrun
