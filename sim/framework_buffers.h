#pragma once

#include <set>
#include <vector>

#include "schedules/held_memory.h"
#include "schedules/plan.h"

namespace simrun {

// Buffers of a plan that its framework treats otherwise than the plan, by Plan::buffers; views count as their
// owners.
struct FrameworkBuffers {
  // By buffer: what it is from its FREE in a forward pass to the backward pass; plan: nothing.
  std::vector<HeldTensor> kept_as;
  std::set<Index> cast_logits;           // fp32 logits that are a copy, as a cross entropy reads them
  std::set<Index> logits;                // a head's, what is made of them, and the gradients of those
  std::set<Index> made_by_first_update;  // moments, under lazy_optimizer_state
  std::set<Index> copies;                // weights of which there are main parameters
  // Under FrameworkMemory::fsdp: shards of weights that are gathered in passes, and their gradients' shards,
  // which a step's first reduce-scatter makes.
  std::set<Index> weight_shards, gradient_shards;
  bool keeps_attention_mask = false;  // for backward passes

  // What is there at one time of a buffer of so many bytes, under cross_entropy_chunks.
  std::int64_t bytes_at_once(const FrameworkMemory& memory, Index buffer, std::int64_t bytes) const;
  // What the framework allocates for it: of logits that are cast alone, half as much.
  std::int64_t held_bytes(const FrameworkMemory& memory, Index buffer, std::int64_t bytes) const;
};
FrameworkBuffers framework_buffers(const Plan& plan);

}  // namespace simrun
