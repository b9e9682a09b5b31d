#pragma once

#include "configs/framework_memory.h"
#include "plan.pb.h"

namespace simrun {

// A framework's memory as the Plan file holds it. Throws MalformedPlan for what no loader accepts.
void encode_framework_memory(const FrameworkMemory& memory, proto::Framework::Memory& out);
FrameworkMemory decode_framework_memory(const proto::Framework::Memory& in);

}  // namespace simrun
