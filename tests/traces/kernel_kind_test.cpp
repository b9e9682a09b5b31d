#include "traces/kernel_kind.h"

#include <catch2/catch.hpp>

namespace simrun {
namespace {

std::optional<Opcode> opcode(const char* name) { return kernel_kind(name).opcode; }

}  // namespace

TEST_CASE("kernel kinds: names of libraries, as profilers write them") {
  using enum Opcode;
  CHECK(opcode("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_nn") == gemm);
  CHECK(opcode("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_"
               "segment_k_off_kernel__5x_cublas") == gemm);
  CHECK(opcode("nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NTT") == gemm);
  CHECK(opcode("void "
               "cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(T1::"
               "Params)") == gemm);
  CHECK(opcode("void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(...)") == gemm);
  CHECK(opcode("void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4> >(Flash_fwd_params)") ==
        attention);
  CHECK(opcode("void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128> "
               ">(Flash_bwd_params)") == attention_backward);
  CHECK(opcode("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_3_64x64x128") ==
        attention_backward);
  CHECK(opcode("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<>)") ==
        attention);
  CHECK(opcode(
            "fmha_cutlassB_bf16_aligned_64x64_k64_sm80(PyTorchMemEffAttention::AttentionBackwardKernel<>)") ==
        attention_backward);
  CHECK(opcode("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)") == all_reduce);
  CHECK(opcode("ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)") ==
        reduce_scatter);
  CHECK(opcode("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)") == all_gather);
  CHECK(opcode("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)") == send);
  CHECK(
      opcode(
          "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float)") ==
      norm);
  CHECK(opcode("void transformer_engine::normalization::rmsnorm_bwd_tuned_kernel<...>") == norm_backward);
  CHECK(
      opcode("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)") ==
      map);
  CHECK(opcode("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<..., "
               "FusedAdamMathFunctor<float, 4>, ...>") == optimizer);
  CHECK(opcode("void multi_tensor_apply_kernel<TensorListMetadata<2>, L2NormFunctor<float>>(long)") ==
        reduce);
  CHECK(opcode("void at::native::(anonymous namespace)::nll_loss_backward_reduce_cuda_kernel_2d<float>") ==
        cross_entropy_backward);
  CHECK(
      opcode(
          "void (anonymous namespace)::softmax_warp_forward<float, float, float, 8, true, false>(float*)") ==
      attention);
  CHECK(opcode("sm80_xmma_wgrad_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32") ==
        conv);
  CHECK(opcode("Memcpy DtoD (Device -> Device)") == copy);
  CHECK(opcode("Memset (Device)") == init);
  CHECK(opcode("triton_poi_fused_mul_silu_1") == map);
  CHECK(opcode("aten::mm") == gemm);
  CHECK(opcode("cross_entropy_backward loss") == cross_entropy_backward);  // simrun's own
}

TEST_CASE("kernel kinds: words that other kernels have as well") {
  using enum Opcode;
  CHECK(opcode("void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>") == route);
  CHECK(opcode("void moe::topkGatingSoftmax<8, 64, 4, 16>") == route);
  CHECK(opcode("void vllm::rotary_embedding_kernel<c10::BFloat16, true>") == map);
  CHECK(opcode("_layer_norm_bwd_kernel") == norm_backward);
  CHECK(opcode("cutlass__5x_cudnn::Kernel<cutlass_tensorop_f16_s16816fprop_optimized_f16_128x128_32x5>") ==
        conv);
  CHECK(opcode("ampere_scudnn_128x64_relu_xregs_large_nn_v1") == conv);
  CHECK(opcode("_attn_fwd") == attention);
  CHECK(opcode("_attn_bwd_dkdv") == attention_backward);
  CHECK(opcode("matmul_kernel_persistent") == gemm);
  CHECK(opcode("triton_mm") == gemm);
  CHECK(opcode("void multi_tensor_apply_kernel<TensorListMetadata<2>, CopyFunctor<float>>(long)") == map);
  CHECK(opcode("void multi_tensor_apply_kernel<TensorListMetadata<1>, LpNormFunctor<float, NormType>>") ==
        reduce);
  CHECK(opcode("all-reduce.3") == all_reduce);
  CHECK(kernel_kind("reduce-scatter-start.1").exchanges);
  CHECK(opcode("ncclBroadcastRingLLKernel_copy_i8(ncclColl)") == broadcast);
  CHECK(opcode("userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<8>") == reduce_scatter);
  CHECK(opcode("void deep_ep::layout::get_dispatch_layout<256, 32, 8>") == route);
  CHECK_FALSE(kernel_kind("void deep_ep::layout::get_dispatch_layout<256, 32, 8>").exchanges);
  CHECK(kernel_kind("void deep_ep::internode::cached_notify<false>").exchanges);
}

TEST_CASE("kernel kinds: what is not known stays so") {
  CHECK_FALSE(opcode("my_fancy_kernel"));
  CHECK_FALSE(opcode(""));
  CHECK_FALSE(opcode("ncclDevKernel_Generic(ncclDevKernelArgs)"));
}

TEST_CASE("kernel kinds: NCCL runs an all-to-all as SendRecv, and says so beside it") {
  const auto named = [](const char* collective) { return exchange_opcode({collective, "", "", 8, 0, 0}); };
  CHECK(named("all_to_allv") == Opcode::all_to_all);
  CHECK(named("_allgather_base") == Opcode::all_gather);
  CHECK(named("_reduce_scatter_base") == Opcode::reduce_scatter);
  CHECK(named("allreduce_coalesced") == Opcode::all_reduce);
  CHECK(named("recv") == Opcode::recv);
  CHECK(named("broadcast") == Opcode::broadcast);
  CHECK_FALSE(named("something"));
}

TEST_CASE("kernels of a Mamba-2 layer are parts of its scan") {
  for (const char* name : {"_chunk_scan_fwd_kernel", "_chunk_state_fwd_kernel", "_state_passing_fwd_kernel",
                           "_bmm_chunk_fwd_kernel", "_chunk_cumsum_fwd_kernel",
                           "void causal_conv1d_channellast_fwd_kernel<128, 4>"})
    CHECK(opcode(name) == Opcode::scan);
  for (const char* name : {"_chunk_scan_bwd_dz_kernel", "_chunk_scan_chunk_state_bwd_dx_kernel",
                           "_state_passing_bwd_kernel", "_bmm_chunk_bwd_kernel", "_chunk_cumsum_bwd_kernel",
                           "void causal_conv1d_channellast_bwd_kernel<128, 4>"})
    CHECK(opcode(name) == Opcode::scan_backward);
}

TEST_CASE("kernels of the gated delta rule are parts of its scan") {
  for (const char* name :
       {"chunk_gated_delta_rule_fwd_kernel_h_blockdim64", "chunk_scaled_dot_kkt_fwd_kernel",
        "merge_16x16_to_64x64_inverse_kernel", "solve_tril_16x16_kernel", "recompute_w_u_fwd_kernel",
        "chunk_fwd_kernel_o", "chunk_local_cumsum_scalar_kernel", "l2norm_fwd_kernel"})
    CHECK(opcode(name) == Opcode::scan);
  for (const char* name : {"chunk_gated_delta_rule_bwd_kernel_dhu_blockdim64", "chunk_bwd_kernel_dqkwg",
                           "chunk_bwd_kernel_dv_local", "prepare_wy_repr_bwd_kernel", "l2norm_bwd_kernel"})
    CHECK(opcode(name) == Opcode::scan_backward);
}

}  // namespace simrun
