#pragma once

#include "schedules/extent_tables.h"
#include "schedules/plan.h"

namespace simrun {

// The buffer that owns the bytes of a view, through all views between; of another buffer itself.
Index owner_of(const Plan& plan, Index buffer);

// Of one instance of a buffer that is no view, on the GPU and in the microbatch of `place`. Buffers of wider
// scopes have the extents of the GPU's largest microbatch.
std::int64_t instance_bytes(const Plan& plan, const Buffer& buffer, const TablePlace& place);

}  // namespace simrun
