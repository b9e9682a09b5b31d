#include "schedules/plan_framework.h"

#include "plan.pb.h"
#include "schedules/plan_fields.h"
#include "schedules/plan_kernels.h"

namespace simrun {

void encode_framework(const Framework& framework, proto::Framework& out) {
  out.set_name(framework.name);
  if (framework.kernels != FrameworkKernels{}) encode_kernels(framework.kernels, *out.mutable_kernels());
  if (framework.memory != FrameworkMemory{})
    out.mutable_memory()->set_context_bytes(framework.memory.context_bytes);
}

Framework decode_framework(const proto::Framework& in) {
  Framework framework;
  framework.name = in.name();
  if (in.has_kernels()) framework.kernels = decode_kernels(in.kernels());
  framework.memory.context_bytes = in.memory().context_bytes();
  if (framework.memory.context_bytes < 0) throw MalformedPlan("a framework's context has less than 0 bytes");
  return framework;
}

}  // namespace simrun
