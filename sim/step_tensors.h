#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "schedules/plan.h"
#include "sim/held_allocations.h"

namespace simrun {

// One tensor of the step: of a microbatch (the slice in the upper half) or, with -1, of all.
struct TensorKey {
  std::int64_t microbatch = -1;
  Index buffer = 0;
  bool operator==(const TensorKey&) const = default;
};
struct TensorHash {
  std::size_t operator()(const TensorKey& key) const {
    return (static_cast<std::size_t>(key.microbatch) << 24) * 0x9e3779b97f4a7c15u ^ key.buffer;
  }
};

using Tensors = std::unordered_map<TensorKey, Held, TensorHash>;

}  // namespace simrun
