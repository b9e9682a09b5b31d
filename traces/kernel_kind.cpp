#include "traces/kernel_kind.h"

#include <algorithm>
#include <array>
#include <string>

#include "schedules/plan.h"

namespace simrun {
namespace {

// Words that a name has, in lower case; a second one where the first alone says too little.
struct KernelPattern {
  std::string_view word, second;
  Opcode opcode;
  Function function = Function::none;
};

using enum Opcode;

constexpr std::array exchanges = std::to_array<KernelPattern>({
    {"allreduce", "", all_reduce},
    {"all_reduce", "", all_reduce},
    {"cross_device_reduce", "", all_reduce},
    {"reducescatter", "", reduce_scatter},
    {"reduce_scatter", "", reduce_scatter},
    {"allgather", "", all_gather},
    {"all_gather", "", all_gather},
    {"alltoall", "", all_to_all},
    {"all_to_all", "", all_to_all},
    {"deep_ep::", "dispatch", all_to_all},
    {"deep_ep::", "combine", all_to_all},
    {"hybrid_ep::", "dispatch", all_to_all},
    {"hybrid_ep::", "combine", all_to_all},
    {"userbuffers", "_rs", reduce_scatter},
    {"userbuffers", "_ag", all_gather},
    {"userbuffers", "pushsend", send},
    {"userbuffers", "pushrecv", recv},
    {"broadcast", "", broadcast},
    {"all-reduce", "", all_reduce},  // XLA's, of whichever device
    {"reduce-scatter", "", reduce_scatter},
    {"all-gather", "", all_gather},
    {"all-to-all", "", all_to_all},
    {"collective-permute", "", send},
    {"sendrecv", "", send},
    {"nccl:send", "", send},
    {"nccl:recv", "", recv},
});

// The first that fits counts: attention and norms are often products or elementwise kernels by name.
constexpr std::array computes = std::to_array<KernelPattern>({
    {"memcpy", "", copy},
    {"memset", "", init},
    // state-spaces/mamba's, of Mamba-2 (mamba_ssm/ops/triton), and its causal_conv1d
    {"chunk_scan", "bwd", scan_backward},
    {"chunk_scan", "", scan},
    {"chunk_state", "bwd", scan_backward},
    {"chunk_state", "", scan},
    {"state_passing", "bwd", scan_backward},
    {"state_passing", "", scan},
    {"bmm_chunk", "bwd", scan_backward},
    {"bmm_chunk", "", scan},
    {"chunk_cumsum", "bwd", scan_backward},
    {"chunk_cumsum", "", scan},
    {"causal_conv1d", "bwd", scan_backward},
    {"causal_conv1d", "", scan},
    // flash-linear-attention's, of the gated delta rule (fla/ops, fla/modules/l2norm.py)
    {"gated_delta_rule", "bwd", scan_backward},
    {"gated_delta_rule", "", scan},
    {"chunk_scaled_dot_kkt", "", scan},
    {"solve_tril", "", scan},
    {"inverse_kernel", "16x16", scan},
    {"recompute_w_u", "", scan},
    {"chunk_fwd_kernel_o", "", scan},
    {"chunk_bwd_kernel_d", "", scan_backward},
    {"prepare_wy_repr", "bwd", scan_backward},
    {"chunk_local_cumsum", "", scan},
    {"l2norm_bwd", "", scan_backward},
    {"l2norm_fwd", "", scan},
    {"flash", "fwd", attention, Function::flash},
    {"flash", "bwd", attention_backward, Function::flash},
    {"flash", "fprop", attention, Function::flash},
    {"flash", "bprop", attention_backward, Function::flash},
    {"fmha_cutlassb", "", attention_backward, Function::flash},
    {"fmha", "bwd", attention_backward, Function::flash},
    {"fmha", "dgrad", attention_backward, Function::flash},
    {"fmha", "", attention, Function::flash},
    {"sdpa", "bprop", attention_backward, Function::flash},
    {"sdpa", "", attention, Function::flash},
    {"flash_attention", "backward", attention_backward, Function::flash},
    {"flash_attention", "", attention, Function::flash},
    {"attention", "backward", attention_backward, Function::flash},
    {"attention", "bwd", attention_backward, Function::flash},
    {"attention", "", attention, Function::flash},
    {"attn_fwd", "", attention, Function::flash},
    {"attn_bwd", "", attention_backward, Function::flash},
    {"bwd_kernel_dk_dv", "", attention_backward, Function::flash},
    {"bwd_kernel_dq", "", attention_backward, Function::flash},
    {"topkgating", "", route},
    {"gathertopk", "", route},
    {"multi_tensor", "l2norm", reduce, Function::sum_squares},
    {"multi_tensor", "lpnorm", reduce, Function::sum_squares},
    {"multi_tensor", "copyfunctor", map, Function::cast},
    {"adam", "", optimizer, Function::adam},
    {"adafactor", "", optimizer, Function::adafactor},
    {"multi_tensor", "sgd", optimizer, Function::sgd},
    {"multi_tensor_apply", "", optimizer},
    {"cross_entropy", "backward", cross_entropy_backward},
    {"cross_entropy", "", cross_entropy},
    {"crossentropy", "", cross_entropy},
    {"logsoftmax", "backward", cross_entropy_backward},
    {"log_softmax", "backward", cross_entropy_backward},
    {"logsoftmax", "", cross_entropy},
    {"log_softmax", "", cross_entropy},
    {"nll_loss", "backward", cross_entropy_backward},
    {"nll_loss", "", cross_entropy},
    {"softmax", "backward", attention_backward, Function::unfused},
    {"softmax", "", attention, Function::unfused},
    {"ln_bwd", "", norm_backward, Function::layer_norm},
    {"ln_fwd", "", norm, Function::layer_norm},
    {"gammabetabackward", "", norm_backward, Function::layer_norm},
    {"gradgammabeta", "", norm_backward, Function::layer_norm},
    {"cucomputegradinput", "", norm_backward, Function::layer_norm},
    {"layer_norm_grad", "", norm_backward, Function::layer_norm},
    {"layer_norm", "backward", norm_backward, Function::layer_norm},
    {"layer_norm", "bwd", norm_backward, Function::layer_norm},
    {"layer_norm", "", norm, Function::layer_norm},
    {"layernorm", "bwd", norm_backward, Function::layer_norm},
    {"layernorm", "backward", norm_backward, Function::layer_norm},
    {"layernorm", "", norm, Function::layer_norm},
    {"rowwisemoments", "", norm, Function::layer_norm},
    {"rmsnorm", "bwd", norm_backward, Function::rms_norm},
    {"rmsnorm", "backward", norm_backward, Function::rms_norm},
    {"rmsnorm", "", norm, Function::rms_norm},
    {"rms_norm", "bwd", norm_backward, Function::rms_norm},
    {"rms_norm", "backward", norm_backward, Function::rms_norm},
    {"rms_norm", "", norm, Function::rms_norm},
    {"batch_norm", "backward", norm_backward, Function::batch_norm},
    {"batch_norm", "", norm, Function::batch_norm},
    {"bn_bw", "", norm_backward, Function::batch_norm},
    {"bn_fw", "", norm, Function::batch_norm},
    {"implicit_gemm", "dgrad", conv, Function::convolution_input_gradient},
    {"implicit_gemm", "wgrad", conv, Function::convolution_weight_gradient},
    {"implicit_gemm", "", conv},
    {"winograd", "", conv},
    {"_cudnn", "dgrad", conv, Function::convolution_input_gradient},
    {"_cudnn", "wgrad", conv, Function::convolution_weight_gradient},
    {"_cudnn", "fprop", conv},
    {"scudnn", "", conv},
    {"convolution", "", conv},
    {"convolve", "", conv},
    {"conv2d", "", conv},
    {"gemm", "", gemm},
    {"gemv", "", gemm},
    {"xmma", "", gemm},
    {"nvjet", "", gemm},
    {"cutlass", "", gemm},
    {"cublas", "", gemm},
    {"splitkreduce", "", gemm},
    {"cijk_", "", gemm},
    {"triton_tem_fused", "mm", gemm},
    {"triton_mm", "", gemm},
    {"triton_bmm", "", gemm},
    {"matmul_kernel", "", gemm},
    {"bmm_kernel", "", gemm},
    {"grouped_mm", "", gemm},
    {"fused_moe_kernel", "", gemm},
    {"aten::mm", "", gemm},
    {"aten::bmm", "", gemm},
    {"aten::addmm", "", gemm},
    {"aten::matmul", "", gemm},
    {"aten::linear", "", gemm},
    {"rotary", "", map, Function::rope},
    {"rope", "", map, Function::rope},
    {"embedding", "backward", scatter},
    {"embedding_dense", "", scatter},
    {"embedding", "", gather},
    {"indexing_backward", "", scatter},
    {"index_put", "", scatter},
    {"index_add", "", scatter},
    {"indexfunc", "", scatter},
    {"scatter", "", scatter},
    {"unpermute", "", scatter},
    {"permute", "", gather},
    {"indexselect", "", gather},
    {"index_select", "", gather},
    {"index_elementwise", "", gather},
    {"gather", "", gather},
    {"topk", "", route},
    {"radixsort", "", route},
    {"bitonicsort", "", route},
    {"row_id_map", "", route},
    {"get_dispatch_layout", "", route},
    {"swiglu", "", map, Function::swiglu},
    {"silu", "", map, Function::swiglu},
    {"gelu", "", map, Function::gelu},
    {"max_pool", "backward", pool_backward},
    {"max_pool", "", pool},
    {"avg_pool", "", pool},
    {"lstm", "", lstm},
    {"triton_red", "", reduce},
    {"triton_per", "", reduce},
    {"reduce", "", reduce},
    {"dropout", "", map, Function::add},
    {"elementwise", "", map},
    {"vectorized", "", map},
    {"pointwise", "", map},
    {"triton_poi", "", map},
    {"devicescan", "", reduce},
    {"catarray", "", map},
    {"chunk_cat", "", map},
    {"split_with_sizes_copy", "", map},
    {"copy_kernel", "", map, Function::cast},
    {"cast_transpose", "", map, Function::cast},
    {"quantize", "", map, Function::cast},
    {"transpose", "", map},
    {"fill", "", map},
    {"distribution", "", map},
    {"triu_tril", "", map},
    {"fusion", "", map},
    {"aten::add", "", map},
    {"aten::mul", "", map},
});

template <std::size_t n>
const KernelPattern* found_in(const std::array<KernelPattern, n>& patterns, std::string_view name) {
  const auto has = [&](std::string_view word) { return name.find(word) != std::string_view::npos; };
  const auto found = std::ranges::find_if(
      patterns, [&](const KernelPattern& pattern) { return has(pattern.word) && has(pattern.second); });
  return found == patterns.end() ? nullptr : &*found;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& letter : result)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return result;
}

bool says_backward(std::string_view name) {
  constexpr std::array<std::string_view, 6> words{"backward", "bwd", "bprop", "dgrad", "wgrad", "_grad"};
  return std::ranges::any_of(words, [&](auto word) { return name.find(word) != std::string_view::npos; });
}

std::optional<Opcode> opcode_named(std::string_view word) {
  for (int i = 0; i < opcode_count; ++i)
    if (word == to_string(static_cast<Opcode>(i))) return static_cast<Opcode>(i);
  return std::nullopt;
}

bool is_of_a_collective_library(std::string_view name) {
  constexpr std::array<std::string_view, 16> words{
      "nccl",        "rccl",       "deep_ep::",      "hybrid_ep::",       "userbuffers",         "nvshmem",
      "all_to_all_", "multimem",   "one_shot",       "two_shot",          "cross_device_reduce", "all-reduce",
      "all-gather",  "all-to-all", "reduce-scatter", "collective-permute"};
  return name.find("get_dispatch_layout") == std::string_view::npos &&
         std::ranges::any_of(words, [&](auto word) { return name.find(word) != std::string_view::npos; });
}

}  // namespace

KernelKind kernel_kind(std::string_view name) {
  const std::string lowered = lower(name);
  KernelKind kind;
  kind.opcode = opcode_named(std::string_view(lowered).substr(0, lowered.find(' ')));
  kind.backward = says_backward(lowered);
  if (kind.opcode) {
    kind.backward = kind.backward || *kind.opcode == attention_backward;
    kind.exchanges = is_communication(*kind.opcode);
    return kind;
  }
  kind.exchanges = is_of_a_collective_library(lowered);
  kind.is_of_host = lowered.starts_with("memcpy htod") || lowered.starts_with("memcpy dtoh");
  const KernelPattern* const pattern =
      kind.exchanges ? found_in(exchanges, lowered) : found_in(computes, lowered);
  if (pattern == nullptr) return kind;
  kind.opcode = pattern->opcode;
  kind.function = pattern->function;
  kind.backward = kind.backward || pattern->opcode == attention_backward ||
                  pattern->opcode == norm_backward || pattern->opcode == cross_entropy_backward;
  return kind;
}

std::optional<Opcode> exchange_opcode(const TracedExchange& exchange) {
  const std::string name = lower(exchange.collective);
  if (name == "send" || name == "recv") return name == "send" ? send : recv;
  const KernelPattern* const pattern = found_in(exchanges, name);
  if (pattern != nullptr) return pattern->opcode;
  if (name.find("broadcast") != std::string::npos) return broadcast;
  return std::nullopt;
}

}  // namespace simrun
