#pragma once

#include <cstdint>

namespace simrun {

// What stands between the two products of attention that is not flash.
//   fused          scale, mask and softmax in one kernel
//   megatron       the same where Megatron-LM's kernel takes the shape
//                  (is_kernel_available, megatron/model/fused_softmax.py), else separate
//   separate       PyTorch's operators, in fp32
//   autocast       PyTorch's operators under torch.autocast: the mask is added to the scores, softmax
//                  reads half precision and writes fp32, which is cast for the product
//   separate_half  PyTorch's operators, in the type of the scores
enum class SoftmaxKernel : std::uint8_t { fused, megatron, separate, autocast, separate_half };

// Where the biases of experts are added.
//   fused         in the products' epilogues
//   separate_fc2  the second product's behind it, weighted by probabilities, the first's in its epilogue
//                 (Megatron Core's TEGroupedMLP, which of gated activations fuses SwiGLU alone)
//   separate      both behind their products (NeMo Automodel)
enum class ExpertBias : std::uint8_t { fused, separate_fc2, separate };

// Which kernels a framework runs: `kernels:` in configs/frameworks/*.yaml. The defaults are the model of
// kernels as it prices a job that names no framework: everything fused that some framework fuses.
struct FrameworkKernels {
  // The host's time to issue one kernel. A shorter kernel leaves the device waiting for the next one; 0: the
  // host is never late (CUDA graphs).
  double host_dispatch_s = 0;
  // What the host takes for every expert's part of a product beyond that, where experts' products are not one
  // kernel: Transformer Engine's GroupedLinear calls cuBLAS for each (pytorch/csrc/extensions/gemm.cpp), a
  // loop over experts issues all of an expert's operators.
  double expert_dispatch_s = 0;
  // What the host does once a step while the device waits: it reads the gradients' norm and the loss, writes
  // logs, fetches the next batch, and begins with nothing queued.
  double host_step_s = 0;
  // What it issues for a router and a dispatcher, forward and backward: small operators, whose bytes are in
  // no kernel's time. 0: the router's kernels alone.
  std::int64_t routing_operators = 0, routing_backward_operators = 0;
  int flash_attention = 0;  // generation 1, 2, 3; 0: a share of the rate of products
  SoftmaxKernel softmax = SoftmaxKernel::fused;
  std::int64_t fused_softmax_limit = 16384;  // megatron: keys, at most
  // What follows runs in one kernel; else PyTorch's operators one behind the other.
  bool fused_norm = true;
  bool fused_rope = true;
  // Bias and GELU; both halves of SwiGLU and GeGLU; with an expert's rows' weights behind it.
  bool fused_activation = true;
  // The two products of a gated MLP without biases, not of experts, are apart (transformers' gate_proj and
  // up_proj, torchtitan's w1 and w3), not one (Megatron-LM's linear_fc1).
  bool separate_gate = false;
  // A checkpoint's recompute ends with the last operator of which the backward pass reads something
  // (torch/utils/checkpoint.py without use_reentrant, set_checkpoint_early_stop).
  bool recompute_stops_early = false;
  bool fused_residual = true;  // bias, dropout and residual
  bool fused_qkv_bias = true;  // in the product's epilogue
  // Weight gradients are added to the main gradients by the product itself; else by a kernel behind it.
  bool fused_weight_gradient = true;
  bool fused_cross_entropy = true;  // exponentials, sum and gradient within the loss's own passes
  // Rows of tokens are dealt out to experts and summed again in one kernel each.
  bool fused_permute = true;
  ExpertBias expert_bias = ExpertBias::fused;
  // 32-bit integer operations whose time PyTorch's operators take per element where their operands do not lie
  // alike: a bias of all rows, a probability of a row, a mask of all heads, two types. Of results of two
  // bytes, and of four.
  double broadcast_operations = 0;
  double broadcast_operations_fp32 = 0;
  double broadcast_sum = 0;  // what sums over rows take of these
  // And those of a sum of rows, in two bytes, that is a scatter which adds to zeros: scatter_add, index_add.
  double scatter_operations = 0;
  // What the norm's kernels reach of the memory rate. Below 1 they are PyTorch's own, whose backward pass
  // reads the input and the gradient once more for the gradient of the weight.
  double norm_efficiency = 1;
  // What products batched over experts, or over groups of tokens, reach of the rate of a single one.
  double batched_gemm_efficiency = 1;
  // What the products of a Mamba-2 layer's scan reach of the rate of such small ones.
  double scan_efficiency = 1;
  double scan_memory_efficiency = 1;  // and what its kernels reach of the memory rate
  // The least that a chunk takes of the kernels of the gated delta rule that go through a sequence's chunks
  // in order, and of those that go back, however few the heads.
  double chunk_step_s = 0, chunk_backward_step_s = 0;
  // What an optimizer step moves per parameter of the rank beyond the update itself and the gradients' norm:
  // unscaling, clipping, zeroing, copies between types.
  double optimizer_bytes = 0;
  // ZeRO-1, 2: what ranks gather of updated weights lies rank by rank and is copied to where it belongs by an
  // operator per parameter and rank; else every shard arrives in place.
  bool copies_gathered_shards = false;
  // What a pass takes by what its kernels take alone, 1 or more: calls of the host that wait for the device,
  // collectives that share caches and multiprocessors, ranks that are late.
  double compute_slowdown = 1;
  // What kernels take by what they take alone while data-parallel ranks exchange beside them, 1 or more:
  // NCCL's kernels have multiprocessors and memory bandwidth of their own. A pass beside whose kernels
  // something is exchanged half of the time takes half of it.
  double overlap_slowdown = 1;
  // Compute waits for tensor-parallel collectives, also where it could go on with the weights' gradients.
  bool blocking_tensor_parallel = false;
  // Compute waits for every collective; what goes from stage to stage moves beside it.
  bool blocking_collectives = false;
  // Compute waits until what a pipeline stage sends has arrived (Megatron-LM's p2p_communication.py waits for
  // both directions before it goes on).
  bool blocking_pipeline = false;
  // There every tensor-parallel rank sends all of what all of them have, not its part of it (Megatron-LM
  // before the scatter-gather optimisation of Narayanan et al. 2021, arXiv 2104.04473, section 4.1). Without
  // blocking_pipeline all do.
  bool whole_pipeline_transfers = false;
  bool blocks() const { return blocking_tensor_parallel || blocking_collectives || blocking_pipeline; }
  bool operator==(const FrameworkKernels&) const = default;
};

}  // namespace simrun
