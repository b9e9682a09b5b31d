#pragma once

#include <cstdint>

#include "backend/operations.h"

namespace simrun::cpu {

// A tensor [.., group, head_dim] or [.., one, head_dim] beside packed q, k, v [.., group + 2, head_dim]: the
// queries, keys or values of every kv head, as the tensor's name begins (adapters of q, k or v alone).
class PackedPart {
 public:
  // Whether a tensor is one of another.
  static bool is_part(const Plan& plan, const Buffer& part, const Buffer& packed);

  PackedPart(const Argument& part, const Argument& packed);
  // The part's element at an element of the packed tensor; -1: it has none there.
  std::int64_t operator()(std::int64_t packed) const {
    const std::int64_t slot = packed / width_ % slots_ - first_;
    if (slot < 0 || slot >= count_) return -1;
    return (packed / (width_ * slots_) * count_ + slot) * width_ + packed % width_;
  }

 private:
  std::int64_t width_ = 1, slots_ = 1, first_ = 0, count_ = 1;
};

// COPY of a part out of packed q, k, v.
template <class Real>
void run_copy_of_part(const KernelCall& call);

}  // namespace simrun::cpu
