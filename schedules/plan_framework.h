#pragma once

#include "configs/framework_config.h"

namespace simrun {

namespace proto {
class Framework;
}

// The software that runs a plan, in a plan file. Throws MalformedPlan for numbers that are not finite, and
// for bytes below 0.
void encode_framework(const Framework& framework, proto::Framework& out);
Framework decode_framework(const proto::Framework& in);

}  // namespace simrun
