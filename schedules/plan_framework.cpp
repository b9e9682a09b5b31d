#include "schedules/plan_framework.h"

#include "plan.pb.h"
#include "schedules/plan_fields.h"

namespace simrun {

void encode_framework(const Framework& framework, proto::Framework& out) {
  out.set_name(framework.name);
  if (framework.kernels != FrameworkKernels{})
    out.mutable_kernels()->set_host_dispatch_s(framework.kernels.host_dispatch_s);
  if (framework.memory != FrameworkMemory{})
    out.mutable_memory()->set_context_bytes(framework.memory.context_bytes);
}

Framework decode_framework(const proto::Framework& in) {
  Framework framework;
  framework.name = in.name();
  framework.kernels.host_dispatch_s = finite(in.kernels().host_dispatch_s(), "host dispatch");
  framework.memory.context_bytes = in.memory().context_bytes();
  if (framework.memory.context_bytes < 0) throw MalformedPlan("a framework's context has less than 0 bytes");
  return framework;
}

}  // namespace simrun
