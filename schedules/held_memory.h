#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simrun {

// What counts as allocated on a GPU: the plan's own tensors and what a framework keeps beside them, by
// FrameworkMemory's keys.
enum class HeldTensor : std::uint8_t {
  plan,              // live bytes of the plan
  weight_gradients,  // in the type of training, before they are added to the main gradients
  stage_outputs,     // sent to the next stage and kept for their graph
  attention_mask,    // as a tensor
  saved,             // for the backward pass, where kernels are not fused
  scores,            // of attention that is not one kernel, while it runs
  loss,              // copies of the logits
  optimizer_step,    // temporaries of the update
  gradient_bucket,   // of gradients on their way to be summed
  exchange_buffers,  // copies of units of layers that FSDP2 gathers and reduces
  workspaces         // of matrix products, and others for the whole run
};
constexpr int held_tensor_kinds = static_cast<int>(HeldTensor::workspaces) + 1;
const char* to_string(HeldTensor kind);

// Who holds bytes of a GPU besides its plan, and from which figure on they count.
enum class HeldLevel : std::uint8_t { allocated, reserved, device };
const char* to_string(HeldLevel level);
struct HeldPart {
  std::string name;
  HeldLevel level = HeldLevel::allocated;
  std::int64_t bytes = 0;
  bool operator==(const HeldPart&) const = default;
};

// Memory of one GPU as the tools of a framework report it, each figure with what it counts beyond the one
// before: the plan's live bytes <= allocated (torch.cuda.max_memory_allocated, XLA's peak) <= reserved
// (max_memory_reserved) <= device (nvidia-smi). `live_bytes` are those at the moment when most is allocated.
//
//   live_bytes + parts of level allocated = allocated_bytes
//   + parts of level reserved = reserved_bytes;  + parts of level device = device_bytes
struct HeldMemory {
  std::int64_t live_bytes = 0, allocated_bytes = 0, reserved_bytes = 0, device_bytes = 0;
  std::vector<HeldPart> parts;
  bool operator==(const HeldMemory&) const = default;
};

}  // namespace simrun
