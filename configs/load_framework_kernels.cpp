// `framework.kernels`, and `cluster.gpu.kernels` on which they run.
#include <fmt/format.h>

#include "configs/limits.h"
#include "configs/load_sections.h"

namespace simrun {
namespace {

constexpr IntegerRange flash_generations = {0, 3};
constexpr IntegerRange small_operators = {0, 10000};
constexpr RealRange masked_keys = {0, 1e5};
constexpr RealRange waves = {0, 10};
constexpr RealRange optimizer_bytes = {0, 1000};
constexpr RealRange slowdown = {1, 100};
constexpr RealRange operations = {0, 1e6};
constexpr RealRange share_of_one = {0, 1};

FlashRate read_flash_rate(const ConfigNode* node, const std::string& path, Reading& reading) {
  FlashRate rate;
  if (node == nullptr) return rate;
  SectionReader section(reading, node, path);
  if (section.is_no_map()) return rate;
  rate.forward = section.real("forward", limits::share);
  rate.backward = section.real("backward", limits::share);
  rate.narrow = section.real("narrow", limits::share, 1.0);
  rate.masked_keys = section.real("masked_keys", masked_keys, 0.0);
  section.finish();
  return rate;
}

KernelPower read_power(const ConfigNode* node, const std::string& path, Reading& reading) {
  KernelPower power;
  if (node == nullptr) return power;
  SectionReader section(reading, node, path);
  if (section.is_no_map()) return power;
  for (std::size_t g = 0; g < power.flash.size(); ++g)
    power.flash[g] = section.real(fmt::format("flash_attention_{}", g + 1), limits::share, 1.0);
  power.other = section.real("other", limits::share, 1.0);
  power.fitted = section.real("fitted", limits::share, 1.0);
  section.finish();
  return power;
}

SoftmaxKernel softmax_of(const std::string& word) {
  return word == "separate"        ? SoftmaxKernel::separate
         : word == "separate_half" ? SoftmaxKernel::separate_half
         : word == "autocast"      ? SoftmaxKernel::autocast
         : word == "megatron"      ? SoftmaxKernel::megatron
                                   : SoftmaxKernel::fused;
}

ExpertBias expert_bias_of(const std::string& word) {
  return word == "separate"       ? ExpertBias::separate
         : word == "separate_fc2" ? ExpertBias::separate_fc2
                                  : ExpertBias::fused;
}

}  // namespace

GpuKernels read_gpu_kernels(const ConfigNode* node, const std::string& path, Reading& reading) {
  GpuKernels kernels;
  if (node == nullptr) return kernels;
  SectionReader section(reading, node, path);
  if (section.is_no_map()) return kernels;
  kernels.random_numbers =
      section.quantity("random_numbers", Unit::flops_per_second, limits::optional_flops, "0 TFLOP/s");
  kernels.sustained = section.real("sustained", limits::share, 1.0);
  kernels.fp8_efficiency = section.real("fp8_efficiency", limits::share, 1.0);
  kernels.power = read_power(section.section("power"), section.path_of("power"), reading);
  kernels.tail_waves = section.real("tail_waves", waves, 0.0);
  kernels.efficiencies_of_steps = section.boolean("efficiencies_of_steps", false);
  for (std::size_t g = 0; g < kernels.flash.size(); ++g) {
    const std::string key = fmt::format("flash_attention_{}", g + 1);
    kernels.flash[g] = read_flash_rate(section.section(key), section.path_of(key), reading);
  }
  section.finish();
  return kernels;
}

FrameworkKernels read_framework_kernels(const ConfigNode* node, Reading& reading) {
  FrameworkKernels kernels;
  if (node == nullptr) return kernels;
  SectionReader section(reading, node, "framework.kernels");
  if (section.is_no_map()) return kernels;
  kernels.host_dispatch_s = section.quantity("host_dispatch", Unit::seconds, limits::latency, "0 us");
  kernels.expert_dispatch_s = section.quantity("expert_dispatch", Unit::seconds, limits::latency, "0 us");
  kernels.host_step_s = section.quantity("host_step", Unit::seconds, limits::latency, "0 us");
  kernels.routing_operators = section.integer("routing_operators", small_operators, 0);
  kernels.routing_backward_operators = section.integer("routing_backward_operators", small_operators, 0);
  kernels.flash_attention = static_cast<int>(section.integer("flash_attention", flash_generations, 0));
  kernels.softmax = softmax_of(
      section.word("softmax", {{"fused", "megatron", "separate", "autocast", "separate_half"}}, "fused"));
  kernels.fused_softmax_limit =
      section.integer("fused_softmax_limit", limits::sequence, kernels.fused_softmax_limit);
  kernels.fused_norm = section.boolean("fused_norm", true);
  kernels.norm_efficiency = section.real("norm_efficiency", limits::share, 1.0);
  kernels.fused_rope = section.boolean("fused_rope", true);
  kernels.fused_activation = section.boolean("fused_activation", true);
  kernels.recompute_stops_early = section.boolean("recompute_stops_early", false);
  kernels.separate_gate = section.boolean("separate_gate", false);
  kernels.fused_residual = section.boolean("fused_residual", true);
  kernels.fused_qkv_bias = section.boolean("fused_qkv_bias", true);
  kernels.fused_weight_gradient = section.boolean("fused_weight_gradient", true);
  kernels.blocking_tensor_parallel = section.boolean("blocking_tensor_parallel", false);
  kernels.blocking_collectives = section.boolean("blocking_collectives", false);
  kernels.fused_cross_entropy = section.boolean("fused_cross_entropy", true);
  kernels.fused_permute = section.boolean("fused_permute", true);
  kernels.expert_bias =
      expert_bias_of(section.word("expert_bias", {{"fused", "separate_fc2", "separate"}}, "fused"));
  kernels.broadcast_operations = section.real("broadcast_operations", operations, 0.0);
  kernels.broadcast_operations_fp32 = section.real("broadcast_operations_fp32", operations, 0.0);
  kernels.broadcast_sum = section.real("broadcast_sum", share_of_one, 0.0);
  kernels.scatter_operations = section.real("scatter_operations", operations, 0.0);
  kernels.batched_gemm_efficiency = section.real("batched_gemm_efficiency", limits::share, 1.0);
  kernels.scan_efficiency = section.real("scan_efficiency", limits::share, 1.0);
  kernels.scan_memory_efficiency = section.real("scan_memory_efficiency", limits::share, 1.0);
  kernels.chunk_step_s = section.quantity("chunk_step", Unit::seconds, limits::latency, "0 us");
  kernels.chunk_backward_step_s =
      section.quantity("chunk_backward_step", Unit::seconds, limits::latency, "0 us");
  kernels.optimizer_bytes = section.real("optimizer_bytes", optimizer_bytes, 0.0);
  kernels.copies_gathered_shards = section.boolean("copies_gathered_shards", false);
  kernels.compute_slowdown = section.real("compute_slowdown", slowdown, 1.0);
  kernels.overlap_slowdown = section.real("overlap_slowdown", slowdown, 1.0);
  kernels.blocking_pipeline = section.boolean("blocking_pipeline", false);
  kernels.whole_pipeline_transfers = section.boolean("whole_pipeline_transfers", false);
  section.finish();
  return kernels;
}

}  // namespace simrun
