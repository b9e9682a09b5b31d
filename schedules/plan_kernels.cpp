#include "schedules/plan_kernels.h"

#include "plan.pb.h"
#include "schedules/plan_fields.h"
#include "schedules/plan_message.h"

namespace simrun {

void encode_kernels(const FrameworkKernels& kernels, proto::Framework_Kernels& out) {
  out.set_host_dispatch_s(kernels.host_dispatch_s);
  out.set_expert_dispatch_s(kernels.expert_dispatch_s);
  out.set_host_step_s(kernels.host_step_s);
  out.set_flash_attention(kernels.flash_attention);
  out.set_softmax(static_cast<std::uint32_t>(kernels.softmax));
  out.set_fused_softmax_limit(kernels.fused_softmax_limit);
  out.set_separate_norm(!kernels.fused_norm);
  out.set_separate_rope(!kernels.fused_rope);
  out.set_separate_activation(!kernels.fused_activation);
  out.set_separate_gate(kernels.separate_gate);
  out.set_recompute_stops_early(kernels.recompute_stops_early);
  out.set_separate_residual(!kernels.fused_residual);
  out.set_separate_qkv_bias(!kernels.fused_qkv_bias);
  out.set_separate_weight_gradient(!kernels.fused_weight_gradient);
  out.set_blocking_tensor_parallel(kernels.blocking_tensor_parallel);
  out.set_blocking_collectives(kernels.blocking_collectives);
  out.set_blocking_pipeline(kernels.blocking_pipeline);
  out.set_whole_pipeline_transfers(kernels.whole_pipeline_transfers);
  out.set_routing_operators(static_cast<std::uint32_t>(kernels.routing_operators));
  out.set_routing_backward_operators(static_cast<std::uint32_t>(kernels.routing_backward_operators));
  out.set_separate_cross_entropy(!kernels.fused_cross_entropy);
  out.set_separate_permute(!kernels.fused_permute);
  out.set_expert_bias(static_cast<std::uint32_t>(kernels.expert_bias));
  out.set_broadcast_operations(kernels.broadcast_operations);
  out.set_broadcast_operations_fp32(kernels.broadcast_operations_fp32);
  out.set_broadcast_sum(kernels.broadcast_sum);
  out.set_scatter_operations(kernels.scatter_operations);
  if (kernels.batched_gemm_efficiency != 1) out.set_batched_gemm_efficiency(kernels.batched_gemm_efficiency);
  if (kernels.scan_efficiency != 1) out.set_scan_efficiency(kernels.scan_efficiency);
  out.set_chunk_step_s(kernels.chunk_step_s);
  out.set_chunk_backward_step_s(kernels.chunk_backward_step_s);
  if (kernels.scan_memory_efficiency != 1) out.set_scan_memory_efficiency(kernels.scan_memory_efficiency);
  if (kernels.norm_efficiency != 1) out.set_norm_efficiency(kernels.norm_efficiency);
  out.set_optimizer_bytes(kernels.optimizer_bytes);
  out.set_copies_gathered_shards(kernels.copies_gathered_shards);
  out.set_compute_slowdown(kernels.compute_slowdown);
  if (kernels.overlap_slowdown != 1) out.set_overlap_slowdown(kernels.overlap_slowdown);
}

FrameworkKernels decode_kernels(const proto::Framework_Kernels& in) {
  if (in.softmax() > static_cast<std::uint32_t>(SoftmaxKernel::separate_half))
    throw MalformedPlan("a framework's softmax is of no kind");
  if (in.expert_bias() > static_cast<std::uint32_t>(ExpertBias::separate))
    throw MalformedPlan("a framework's biases of experts are added nowhere");
  if (in.broadcast_operations() < 0 || in.broadcast_operations_fp32() < 0 || in.broadcast_sum() < 0 ||
      in.scatter_operations() < 0)
    throw MalformedPlan("a framework's operators take negative operations");
  if (in.flash_attention() < 0 || in.flash_attention() > 3)
    throw MalformedPlan("a framework's FlashAttention is of no generation");
  const double slowdown = finite(in.compute_slowdown(), "compute slowdown");
  const double beside = finite(in.overlap_slowdown(), "overlap slowdown");
  if ((slowdown != 0 && slowdown < 1) || (beside != 0 && beside < 1))
    throw MalformedPlan("a framework makes its kernels faster");
  const double batched = finite(in.batched_gemm_efficiency(), "efficiency of batched products");
  if (batched < 0 || batched > 1) throw MalformedPlan("a framework's batched products have no efficiency");
  const double norm = finite(in.norm_efficiency(), "efficiency of norms");
  if (norm < 0 || norm > 1) throw MalformedPlan("a framework's norms have no efficiency");
  const double scan = finite(in.scan_efficiency(), "efficiency of scans"),
               scan_memory = finite(in.scan_memory_efficiency(), "efficiency of scans");
  if (scan < 0 || scan > 1 || scan_memory < 0 || scan_memory > 1)
    throw MalformedPlan("a framework's scans have no efficiency");
  return {.host_dispatch_s = finite(in.host_dispatch_s(), "host dispatch"),
          .expert_dispatch_s = finite(in.expert_dispatch_s(), "expert dispatch"),
          .host_step_s = finite(in.host_step_s(), "host step"),
          .routing_operators = in.routing_operators(),
          .routing_backward_operators = in.routing_backward_operators(),
          .flash_attention = in.flash_attention(),
          .softmax = static_cast<SoftmaxKernel>(in.softmax()),
          .fused_softmax_limit = in.fused_softmax_limit(),
          .fused_norm = !in.separate_norm(),
          .fused_rope = !in.separate_rope(),
          .fused_activation = !in.separate_activation(),
          .separate_gate = in.separate_gate(),
          .recompute_stops_early = in.recompute_stops_early(),
          .fused_residual = !in.separate_residual(),
          .fused_qkv_bias = !in.separate_qkv_bias(),
          .fused_weight_gradient = !in.separate_weight_gradient(),
          .fused_cross_entropy = !in.separate_cross_entropy(),
          .fused_permute = !in.separate_permute(),
          .expert_bias = static_cast<ExpertBias>(in.expert_bias()),
          .broadcast_operations = finite(in.broadcast_operations(), "broadcast operations"),
          .broadcast_operations_fp32 = finite(in.broadcast_operations_fp32(), "broadcast operations"),
          .broadcast_sum = finite(in.broadcast_sum(), "broadcast sum"),
          .scatter_operations = finite(in.scatter_operations(), "scatter operations"),
          .norm_efficiency = norm == 0 ? 1 : norm,
          .batched_gemm_efficiency = batched == 0 ? 1 : batched,
          .scan_efficiency = scan == 0 ? 1 : scan,
          .scan_memory_efficiency = scan_memory == 0 ? 1 : scan_memory,
          .chunk_step_s = finite(in.chunk_step_s(), "step of a chunk"),
          .chunk_backward_step_s = finite(in.chunk_backward_step_s(), "step of a chunk"),
          .optimizer_bytes = finite(in.optimizer_bytes(), "optimizer bytes"),
          .copies_gathered_shards = in.copies_gathered_shards(),
          .compute_slowdown = slowdown == 0 ? 1 : slowdown,
          .overlap_slowdown = beside == 0 ? 1 : beside,
          .blocking_tensor_parallel = in.blocking_tensor_parallel(),
          .blocking_collectives = in.blocking_collectives(),
          .blocking_pipeline = in.blocking_pipeline(),
          .whole_pipeline_transfers = in.whole_pipeline_transfers()};
}

void encode_kernels(const GpuKernels& kernels, proto::GpuKernels& out) {
  out.set_random_numbers(kernels.random_numbers);
  out.set_sustained(kernels.sustained);
  if (kernels.fp8_efficiency != 1) out.set_fp8_efficiency(kernels.fp8_efficiency);
  out.set_tail_waves(kernels.tail_waves);
  out.set_efficiencies_of_steps(kernels.efficiencies_of_steps);
  if (kernels.power != KernelPower{}) {
    proto::GpuKernels::Power& power = *out.mutable_power();
    for (const double flash : kernels.power.flash) power.add_flash(flash);
    power.set_other(kernels.power.other);
    power.set_fitted(kernels.power.fitted);
  }
  for (const FlashRate& rate : kernels.flash) {
    proto::GpuKernels::FlashRate& to = *out.add_flash();
    to.set_forward(rate.forward);
    to.set_backward(rate.backward);
    to.set_narrow(rate.narrow);
    to.set_masked_keys(rate.masked_keys);
  }
}

static KernelPower decode_power(const proto::GpuKernels::Power& in) {
  KernelPower power;
  if (static_cast<std::size_t>(in.flash_size()) != power.flash.size())
    throw MalformedPlan("a GPU has the power of more or fewer generations of FlashAttention than there are");
  for (int g = 0; g < in.flash_size(); ++g)
    power.flash[static_cast<std::size_t>(g)] = finite(in.flash(g), "power");
  power.other = finite(in.other(), "power");
  power.fitted = finite(in.fitted(), "power");
  return power;
}

GpuKernels decode_kernels(const proto::GpuKernels& in) {
  GpuKernels kernels;
  kernels.random_numbers = finite(in.random_numbers(), "random numbers");
  kernels.sustained = finite(in.sustained(), "sustained share");
  if (in.fp8_efficiency() != 0) kernels.fp8_efficiency = finite(in.fp8_efficiency(), "share of fp8 products");
  kernels.tail_waves = finite(in.tail_waves(), "tail of waves");
  kernels.efficiencies_of_steps = in.efficiencies_of_steps();
  if (in.has_power()) kernels.power = decode_power(in.power());
  if (static_cast<std::size_t>(in.flash_size()) > kernels.flash.size())
    throw MalformedPlan("a GPU has more generations of FlashAttention than there are");
  for (int g = 0; g < in.flash_size(); ++g)
    kernels.flash[static_cast<std::size_t>(g)] = {
        finite(in.flash(g).forward(), "attention rate"), finite(in.flash(g).backward(), "attention rate"),
        finite(in.flash(g).narrow(), "attention rate"), finite(in.flash(g).masked_keys(), "masked keys")};
  return kernels;
}

}  // namespace simrun
