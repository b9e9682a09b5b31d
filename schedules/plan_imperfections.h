#pragma once

#include "configs/imperfections.h"

namespace simrun {

namespace proto {
class Imperfections;
}

// A cluster's imperfections in a plan file. Throws MalformedPlan for numbers that are not finite and for an
// unknown distribution.
void encode_imperfections(const Imperfections& imperfections, proto::Imperfections& out);
Imperfections decode_imperfections(const proto::Imperfections& in);

}  // namespace simrun
