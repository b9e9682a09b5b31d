#include "schedules/plan_framework_memory.h"

#include <algorithm>

#include "schedules/plan_fields.h"

namespace simrun {

namespace {

std::int64_t counted(std::int64_t number, const char* what) {
  if (number < 0 || number > (std::int64_t{1} << 50))
    throw MalformedPlan(std::string("a framework's ") + what + " is out of range");
  return number;
}

double multiple(double number, const char* what) {
  if (finite(number, what) < 0 || number > 1000)
    throw MalformedPlan(std::string("a framework's ") + what + " is out of range");
  return number;
}

int generation(int number) {
  if (number < 0 || number > 2) throw MalformedPlan("a framework's FSDP is of no generation");
  return number;
}

}  // namespace

void encode_framework_memory(const FrameworkMemory& memory, proto::Framework::Memory& out) {
  out.set_context_bytes(memory.context_bytes);
  out.set_context_bytes_per_sm(memory.context_bytes_per_sm);
  out.set_allocator(static_cast<int>(memory.allocator));
  out.set_expandable_segments(memory.expandable_segments);
  out.set_matmul_workspaces(memory.matmul_workspaces);
  out.set_other_workspace_bytes(memory.other_workspace_bytes);
  out.set_weight_gradients(static_cast<int>(memory.weight_gradients));
  out.set_keeps_stage_outputs(memory.keeps_stage_outputs);
  out.set_keeps_gathered_inputs(memory.keeps_gathered_inputs);
  out.set_attention_mask(static_cast<int>(memory.attention_mask));
  out.set_gradient_bucket_bytes(memory.gradient_bucket_bytes);
  out.set_bucket_bytes_per_parameter(memory.bucket_bytes_per_parameter);
  out.set_step_bytes_per_parameter(memory.step_bytes_per_parameter);
  out.set_communicator_channels(memory.communicator_channels);
  out.set_communicator_buffer_bytes(memory.communicator_buffer_bytes);
  out.set_communicator_bytes(memory.communicator_bytes);
  out.set_step_bytes_per_held_parameter(memory.step_bytes_per_held_parameter);
  out.set_lazy_optimizer_state(memory.lazy_optimizer_state);
  out.set_fsdp(memory.fsdp);
  out.set_loss_copies(memory.loss_copies);
  out.set_logits(static_cast<int>(memory.logits));
  out.set_cross_entropy_chunks(memory.cross_entropy_chunks == 1 ? 0 : memory.cross_entropy_chunks);
  for (const auto& [function, multiple] : memory.saved) (*out.mutable_saved())[function] = multiple;
  out.set_arena_share(memory.arena_share);
}

FrameworkMemory decode_framework_memory(const proto::Framework::Memory& in) {
  FrameworkMemory memory{
      .context_bytes = counted(in.context_bytes(), "context"),
      .context_bytes_per_sm = counted(in.context_bytes_per_sm(), "context per multiprocessor"),
      .allocator = enum_of(in.allocator(), AllocatorKind::arena, "allocator"),
      .expandable_segments = in.expandable_segments(),
      .matmul_workspaces = counted(in.matmul_workspaces(), "number of workspaces"),
      .other_workspace_bytes = counted(in.other_workspace_bytes(), "workspace"),
      .weight_gradients =
          enum_of(in.weight_gradients(), WeightGradients::per_pass, "place of weight gradients"),
      .keeps_stage_outputs = in.keeps_stage_outputs(),
      .keeps_gathered_inputs = in.keeps_gathered_inputs(),
      .attention_mask =
          enum_of(in.attention_mask(), AttentionMask::first_and_last_stage, "place of attention masks"),
      .gradient_bucket_bytes = counted(in.gradient_bucket_bytes(), "gradient bucket"),
      .bucket_bytes_per_parameter = multiple(in.bucket_bytes_per_parameter(), "buckets"),
      .step_bytes_per_parameter = multiple(in.step_bytes_per_parameter(), "bytes of a step"),
      .step_bytes_per_held_parameter = multiple(in.step_bytes_per_held_parameter(), "bytes of a parameter"),
      .lazy_optimizer_state = in.lazy_optimizer_state(),
      .fsdp = generation(in.fsdp()),
      .loss_copies = multiple(in.loss_copies(), "copies of logits"),
      .logits = enum_of(in.logits(), LogitsTensors::half, "kind of logits"),
      .cross_entropy_chunks =
          std::max<std::int64_t>(counted(in.cross_entropy_chunks(), "chunks of the cross entropy"), 1),
      .saved = {},
      .arena_share = multiple(in.arena_share(), "arena"),
      .communicator_channels = counted(in.communicator_channels(), "number of channels"),
      .communicator_buffer_bytes = counted(in.communicator_buffer_bytes(), "communicator's buffer"),
      .communicator_bytes = counted(in.communicator_bytes(), "communicator")};
  for (const auto& [function, saved] : in.saved()) memory.saved[function] = multiple(saved, "saved tensors");
  return memory;
}

}  // namespace simrun
