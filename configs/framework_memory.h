#pragma once

#include <cstdint>
#include <map>
#include <string>

// What software holds on a device beside a plan's own tensors: the `memory` of configs/frameworks/*.yaml.
namespace simrun {

// none: nothing is known of it, and only the plan's bytes count. caching: PyTorch's, sim/caching_allocator.h.
// arena: one block in which tensors lie without waste (XLA).
enum class AllocatorKind : std::uint8_t { none, caching, arena };

// Where the backward pass puts a gradient of a weight before it is added to the main gradients.
//   in_place       the matrix product adds to them (gradient accumulation fusion)
//   per_parameter  a tensor in the type of training, freed as soon as it is added
//   per_pass       likewise, of all weights of the pass until it ends
enum class WeightGradients : std::uint8_t { in_place, per_parameter, per_pass };

// What the logits are before the loss is computed, in memory and in what its kernels move.
//   fp32  a tensor that the loss_copies stand beside
//   half  a tensor in the type of training alone: fp32 within the loss's kernels
enum class LogitsTensors : std::uint8_t { fp32, half };

// Which stages have the mask of every microbatch, one byte per pair of tokens, that the data loader makes. It
// is kept until the backward pass where that reads it: with attention that is not one kernel, or recomputed.
enum class AttentionMask : std::uint8_t { none, every_stage, first_and_last_stage };

struct FrameworkMemory {
  // Of a process on the device before it holds any tensor: loaded modules, and per multiprocessor what the
  // driver keeps for its threads.
  std::int64_t context_bytes = 0;
  std::int64_t context_bytes_per_sm = 0;
  AllocatorKind allocator = AllocatorKind::none;
  bool expandable_segments = false;
  // How many cuBLAS workspaces (Gpu::matmul_workspace_bytes each) come from the allocator: one per handle and
  // stream, so one of the thread that runs backward too.
  std::int64_t matmul_workspaces = 0;
  std::int64_t other_workspace_bytes = 0;  // from the allocator, for the whole run
  WeightGradients weight_gradients = WeightGradients::in_place;
  bool keeps_stage_outputs = false;  // until their backward pass: not freed when they have been sent
  // Inputs of products that were gathered over tensor-parallel ranks: until their backward pass, which does
  // not gather them again.
  bool keeps_gathered_inputs = false;
  AttentionMask attention_mask = AttentionMask::none;
  std::int64_t gradient_bucket_bytes = 0;  // for gradients on their way to be summed, behind the last pass
  // Likewise for the whole run, for each parameter that the rank holds, where data-parallel ranks have copies
  // (PyTorch's DistributedDataParallel).
  double bucket_bytes_per_parameter = 0;
  // Bytes that the update takes for each parameter that the rank's optimizer owns, all at one time.
  double step_bytes_per_parameter = 0;
  // Likewise, for each parameter that the rank holds.
  double step_bytes_per_held_parameter = 0;
  // Moments are made by the first update (torch.optim), not before the first step.
  bool lazy_optimizer_state = false;
  // Generation of PyTorch's FSDP that shards what ZeRO-3 does; 0: other software, with shards in the type of
  // training beside the main parameters. FSDP's shards are the main parameters: weights in the type of
  // training exist while a unit of layers is gathered, gradients' shards from the reduce-scatter to the next
  // step (fully_shard/_fsdp_param.py, sharded_param). 2: units are copied out of and into buffers of their
  // exchanges.
  int fsdp = 0;
  // Copies of fp32 logits that exist at once while the cross entropy is computed.
  double loss_copies = 0;
  LogitsTensors logits = LogitsTensors::fp32;
  // Parts of a microbatch's tokens that the head's product, the loss and the backward passes of both take one
  // behind the other (Liger's fused linear cross entropy, torchtitan's ChunkedCELoss): logits, their copies
  // and gradients are those of one part.
  std::int64_t cross_entropy_chunks = 1;
  // What operators that are not fused keep for the backward pass beyond the plan's tensors, by function
  // (rms_norm, swiglu, ...): in multiples of the bytes of the operator's output, and as long as that lives.
  // gathered_logits: copies of the fp32 logits of all tensor-parallel ranks together, which each of them has
  // while the cross entropy is computed, its own among them. repeated_kv: of rotated keys and values one for
  // every head that reads them, times this.
  std::map<std::string, double> saved;
  double arena_share = 0;  // of the memory that programs get; taken when the program begins
  // Per communicator (NCCL): channels, each with so many connections to other ranks, a buffer for each, and
  // what a communicator has whatever its size.
  std::int64_t communicator_channels = 0;
  std::int64_t communicator_buffer_bytes = 0;
  std::int64_t communicator_bytes = 0;
  bool operator==(const FrameworkMemory&) const = default;
};

}  // namespace simrun
