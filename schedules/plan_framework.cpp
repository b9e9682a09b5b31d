#include "schedules/plan_framework.h"

#include "plan.pb.h"
#include "schedules/plan_fields.h"
#include "schedules/plan_framework_memory.h"

namespace simrun {

void encode_framework(const Framework& framework, proto::Framework& out) {
  out.set_name(framework.name);
  if (framework.kernels != FrameworkKernels{})
    out.mutable_kernels()->set_host_dispatch_s(framework.kernels.host_dispatch_s);
  if (framework.memory != FrameworkMemory{}) encode_framework_memory(framework.memory, *out.mutable_memory());
}

Framework decode_framework(const proto::Framework& in) {
  Framework framework;
  framework.name = in.name();
  framework.kernels.host_dispatch_s = finite(in.kernels().host_dispatch_s(), "host dispatch");
  framework.memory = decode_framework_memory(in.memory());
  return framework;
}

}  // namespace simrun
