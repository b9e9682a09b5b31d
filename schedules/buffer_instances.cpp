#include "schedules/buffer_instances.h"

namespace simrun {

Index owner_of(const Plan& plan, Index buffer) {
  while (plan.buffers[buffer].parent != no_index) buffer = plan.buffers[buffer].parent;
  return buffer;
}

std::int64_t instance_bytes(const Plan& plan, const Buffer& buffer, const TablePlace& place) {
  if (plan.extent_tables.empty()) return buffer.bytes();
  const bool one_microbatch = buffer.scope == Scope::microbatch || buffer.scope == Scope::pass;
  std::int64_t elements = 1;
  for (const BufferDim& dim : buffer.dims)
    elements *= one_microbatch ? extent_at(plan, dim, place) : largest_extent(plan, dim, place);
  return buffer.stored_bytes(elements);
}

}  // namespace simrun
