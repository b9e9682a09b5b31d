#pragma once

#include <cstdint>

// The offload section of a job as plain values.
namespace simrun {

enum class OffloadTarget : std::uint8_t { none, cpu, nvme };

// What is kept outside the GPUs: in the memory of their node, or on its NVMe drives (ZeRO-Offload, Ren et al.
// 2021, arXiv 2101.06840; ZeRO-Infinity, Rajbhandari et al. 2021, arXiv 2104.07857).
struct Offload {
  OffloadTarget optimizer = OffloadTarget::none;  // state; the node's CPUs then run the optimizer
  double optimizer_fraction = 1;  // of each bucket; Megatron-LM's --optimizer-offload-fraction
  OffloadTarget parameters = OffloadTarget::none;   // shards of ZeRO-3
  OffloadTarget activations = OffloadTarget::none;  // what the forward pass keeps; none or cpu
  // Of the first so many layers of every stage, and of those alone; 0: of all. Megatron-LM's
  // --cpu-offloading-num-layers.
  int activation_layers = 0;
  bool any() const {
    return optimizer != OffloadTarget::none || parameters != OffloadTarget::none ||
           activations != OffloadTarget::none;
  }
  bool operator==(const Offload&) const = default;
};

}  // namespace simrun
