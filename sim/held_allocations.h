#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "configs/framework_memory.h"
#include "schedules/held_memory.h"
#include "sim/allocation_replay.h"
#include "sim/caching_allocator.h"

namespace simrun {

// Of PyTorch's caching allocator: what is freed on a stream is for that stream alone.
enum class StreamPool : std::uint8_t { compute, gather, reduce };
constexpr std::size_t stream_pool_count = 3;

struct Held {
  CachingAllocator::Block block = 0;
  std::int64_t bytes = 0;
  HeldTensor kind = HeldTensor::plan;
  StreamPool pool = StreamPool::compute;
};

// A caching allocator, or an arena in which tensors lie without waste but for their alignment.
class Allocations {
 public:
  Allocations(const FrameworkMemory& memory, CachingRules rules)
      : memory_(memory),
        capacity_(rules.capacity),
        pools_{CachingAllocator(rules), CachingAllocator(rules), CachingAllocator(rules)} {}

  Held take(std::int64_t bytes, HeldTensor kind, StreamPool pool = StreamPool::compute) {
    Held held{0, bytes, kind, pool};
    by_kind_[static_cast<std::size_t>(kind)] += bytes;
    if (memory_.allocator == AllocatorKind::arena)
      arena_ += aligned(bytes);
    else
      held.block = pools_[static_cast<std::size_t>(pool)].allocate(bytes);
    if (allocated() <= step_.allocated) return held;
    step_.allocated = allocated();
    step_.by_kind = by_kind_;
    return held;
  }

  void give_back(const Held& held) {
    by_kind_[static_cast<std::size_t>(held.kind)] -= held.bytes;
    if (memory_.allocator == AllocatorKind::arena)
      arena_ -= aligned(held.bytes);
    else
      pools_[static_cast<std::size_t>(held.pool)].release(held.block);
  }

  Held relabelled(const Held& held, HeldTensor kind) {
    by_kind_[static_cast<std::size_t>(held.kind)] -= held.bytes;
    by_kind_[static_cast<std::size_t>(kind)] += held.bytes;
    return {held.block, held.bytes, kind, held.pool};
  }

  ReplayedStep result() const {
    ReplayedStep step = step_;
    step.rounding = step.allocated;
    for (const std::int64_t bytes : step.by_kind) step.rounding -= bytes;
    const bool arena = memory_.allocator == AllocatorKind::arena;
    if (arena) {
      step.reserved = step.allocated;
      return step;
    }
    // Segments stay with their pool, so that each is as large as it ever was, until memory is short: then
    // free ones of all streams go back.
    std::int64_t sum = 0;
    for (const CachingAllocator& pool : pools_) sum += pool.peak_reserved();
    step.reserved = std::max({std::min(sum, capacity_), pools_.front().peak_reserved(), step.allocated});
    return step;
  }

 private:
  // XLA's buffer assignment aligns to 256 B on GPUs (kXlaAllocatedBufferAlignBytes).
  static std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }
  std::int64_t allocated() const {
    std::int64_t bytes = arena_;
    for (const CachingAllocator& pool : pools_) bytes += pool.allocated();
    return bytes;
  }

  const FrameworkMemory& memory_;
  const std::int64_t capacity_;
  std::array<CachingAllocator, stream_pool_count> pools_;
  std::int64_t arena_ = 0;
  std::array<std::int64_t, held_tensor_kinds> by_kind_{};
  ReplayedStep step_;
};

}  // namespace simrun
