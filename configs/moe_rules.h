#pragma once

#include "configs/job.h"
#include "configs/section_reader.h"

namespace simrun {

// The rules of configs/job_rules.h that are about experts: experts split over expert-parallel ranks, their
// feed-forward size over expert-tensor ranks, and both together over the ranks of a pipeline stage; a
// histogram has a row per expert. After the data parallel size is known.
void apply_moe_rules(Reading& reading, const Job& job);

}  // namespace simrun
