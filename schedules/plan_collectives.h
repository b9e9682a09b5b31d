#pragma once

#include "configs/collectives_config.h"

namespace simrun::proto {
class Collectives;
}

namespace simrun {

// The part of plan.proto about what collectives cost (plan_message.h).
void encode(const CollectivesConfig& config, proto::Collectives& out);
// Throws MalformedPlan.
CollectivesConfig decode_collectives(const proto::Collectives& in);

}  // namespace simrun
