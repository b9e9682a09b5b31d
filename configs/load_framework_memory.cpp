// framework.memory: what the software that runs the job holds beside the plan's tensors.
#include <cmath>

#include "configs/limits.h"
#include "configs/load_sections.h"

namespace simrun {
namespace {

constexpr RealRange multiples = {0, 64};

std::int64_t bytes_in(SectionReader& section, const char* key) {
  return std::llround(section.quantity(key, Unit::bytes, limits::reserve, "0 GiB"));
}

AllocatorKind read_allocator(SectionReader& section) {
  const std::string word = section.word("allocator", {{"none", "caching", "arena"}}, "none");
  return word == "caching" ? AllocatorKind::caching
         : word == "arena" ? AllocatorKind::arena
                           : AllocatorKind::none;
}

WeightGradients read_weight_gradients(SectionReader& section) {
  const std::string word =
      section.word("weight_gradients", {{"in_place", "per_parameter", "per_pass"}}, "in_place");
  return word == "per_parameter" ? WeightGradients::per_parameter
         : word == "per_pass"    ? WeightGradients::per_pass
                                 : WeightGradients::in_place;
}

LogitsTensors read_logits(SectionReader& section) {
  return section.word("logits", {{"fp32", "half"}}, "fp32") == "half" ? LogitsTensors::half
                                                                      : LogitsTensors::fp32;
}

AttentionMask read_attention_mask(SectionReader& section) {
  const std::string word =
      section.word("attention_mask", {{"none", "every_stage", "first_and_last_stage"}}, "none");
  return word == "every_stage"            ? AttentionMask::every_stage
         : word == "first_and_last_stage" ? AttentionMask::first_and_last_stage
                                          : AttentionMask::none;
}

// What is counted by an allocator alone.
void read_allocated(SectionReader& section, FrameworkMemory& memory) {
  memory.matmul_workspaces = section.integer("matmul_workspaces", {0, 1000}, 0);
  memory.other_workspace_bytes = bytes_in(section, "other_workspaces");
  memory.weight_gradients = read_weight_gradients(section);
  memory.keeps_stage_outputs = section.boolean("keeps_stage_outputs", false);
  memory.keeps_gathered_inputs = section.boolean("keeps_gathered_inputs", false);
  memory.attention_mask = read_attention_mask(section);
  memory.gradient_bucket_bytes = bytes_in(section, "gradient_bucket");
  memory.bucket_bytes_per_parameter = section.real("bucket_bytes_per_parameter", multiples, 0.0);
  memory.step_bytes_per_parameter = section.real("step_bytes_per_parameter", multiples, 0.0);
  memory.step_bytes_per_held_parameter = section.real("step_bytes_per_held_parameter", multiples, 0.0);
  memory.lazy_optimizer_state = section.boolean("lazy_optimizer_state", false);
  memory.fsdp = static_cast<int>(section.integer("fsdp", {0, 2}, 0));
  memory.loss_copies = section.real("loss_copies", multiples, 0.0);
  memory.logits = read_logits(section);
  memory.cross_entropy_chunks = section.integer("cross_entropy_chunks", {1, 1 << 20}, 1);
}

std::map<std::string, double> read_saved(const ConfigNode* node, Reading& reading) {
  std::map<std::string, double> saved;
  if (node == nullptr) return saved;
  SectionReader section(reading, node, "framework.memory.saved");
  if (section.is_no_map()) return saved;
  const std::vector<std::string> functions = {"rms_norm",        "layer_norm", "gelu", "swiglu",
                                              "gated_silu",      "gated_gelu", "rope", "add",
                                              "gathered_logits", "repeated_kv"};
  for (const std::string& function : functions)
    if (section.has(function.c_str())) saved[function] = section.real(function.c_str(), multiples);
  section.ignore(functions);
  section.finish();
  return saved;
}

}  // namespace

FrameworkMemory read_framework_memory(const ConfigNode* node, Reading& reading) {
  FrameworkMemory memory;
  if (node == nullptr) return memory;
  SectionReader section(reading, node, "framework.memory");
  if (section.is_no_map()) return memory;
  memory.context_bytes = bytes_in(section, "context");
  memory.context_bytes_per_sm = bytes_in(section, "context_per_sm");
  memory.allocator = read_allocator(section);
  if (memory.allocator == AllocatorKind::caching)
    memory.expandable_segments = section.boolean("expandable_segments", false);
  if (memory.allocator == AllocatorKind::arena)
    memory.arena_share = section.real("arena_share", limits::share, 0.75);
  if (memory.allocator != AllocatorKind::none) {
    read_allocated(section, memory);
    memory.saved = read_saved(section.section("saved"), reading);
    memory.communicator_channels = section.integer("communicator_channels", {0, 1024}, 0);
    memory.communicator_buffer_bytes = bytes_in(section, "communicator_buffer");
    memory.communicator_bytes = bytes_in(section, "communicator");
  }
  section.finish();
  return memory;
}

}  // namespace simrun
