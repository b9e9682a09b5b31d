#include "schedules/held_memory.h"

namespace simrun {

const char* to_string(HeldTensor kind) {
  switch (kind) {
    case HeldTensor::plan: return "plan";
    case HeldTensor::weight_gradients: return "weight_gradients";
    case HeldTensor::stage_outputs: return "stage_outputs";
    case HeldTensor::attention_mask: return "attention_mask";
    case HeldTensor::saved: return "saved";
    case HeldTensor::scores: return "scores";
    case HeldTensor::loss: return "loss";
    case HeldTensor::optimizer_step: return "optimizer_step";
    case HeldTensor::gradient_bucket: return "gradient_bucket";
    case HeldTensor::exchange_buffers: return "exchange_buffers";
    case HeldTensor::workspaces: return "workspaces";
  }
  return "?";
}

const char* to_string(HeldLevel level) {
  switch (level) {
    case HeldLevel::allocated: return "allocated";
    case HeldLevel::reserved: return "reserved";
    case HeldLevel::device: return "device";
  }
  return "?";
}

}  // namespace simrun
