#pragma once

#include "configs/collectives_config.h"
#include "configs/measured_config.h"

namespace simrun::proto {
class Cluster;
class Collectives;
}  // namespace simrun::proto

namespace simrun {

// The parts of plan.proto about what collectives cost and what was measured of them (plan_message.h).
void encode(const CollectivesConfig& config, proto::Collectives& out);
// These throw MalformedPlan.
CollectivesConfig decode_collectives(const proto::Collectives& in);
MeasuredExchanges decode_measured_exchanges(const proto::Cluster& in);

}  // namespace simrun
