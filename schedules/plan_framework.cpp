#include "schedules/plan_framework.h"

#include "plan.pb.h"
#include "schedules/plan_fields.h"
#include "schedules/plan_framework_memory.h"
#include "schedules/plan_kernels.h"

namespace simrun {

void encode_framework(const Framework& framework, proto::Framework& out) {
  out.set_name(framework.name);
  if (framework.kernels != FrameworkKernels{}) encode_kernels(framework.kernels, *out.mutable_kernels());
  if (framework.memory != FrameworkMemory{}) encode_framework_memory(framework.memory, *out.mutable_memory());
}

Framework decode_framework(const proto::Framework& in) {
  Framework framework;
  framework.name = in.name();
  if (in.has_kernels()) framework.kernels = decode_kernels(in.kernels());
  framework.memory = decode_framework_memory(in.memory());
  return framework;
}

}  // namespace simrun
