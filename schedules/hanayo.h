#pragma once

#include "schedules/pipeline_schedule.h"

namespace simrun {

// Hanayo's wave pipeline (Liu et al. 2023, arXiv 2308.15762) with w = virtual_stages / 2 waves: every wave
// runs there and back over the ranks, so a turn costs no transfer.
//
// Rank r starts with min(ranks - r, microbatches) forwards of its first chunk. Then it takes the forwards of
// the odd chunks (on the way back) in order, each followed by the next forward of an even chunk while there
// is one, then by the next backward of an odd chunk from the last; then the backwards of the even chunks,
// each followed by the next one of an odd chunk.
//
// Idle per rank with uniform chunks and B >= F: 2 (ranks - 1) B, whatever the number of waves (whose chunks
// are shorter). Alive on rank r: 2 w microbatches - ranks + 1 + r (chunk, microbatch) pairs: it grows with
// the microbatches.
//
// REQUIRES: virtual_stages even, microbatches >= ranks.
// Source: topal-team/elf elf/scheduling/schedulers.py generate_hanayo_schedule, which is not by the authors
// of the paper; theirs was not found in public.
Schedule hanayo(const PipelineShape& shape);

// "" if the shape obeys the REQUIRES.
std::string hanayo_refusal(const PipelineShape& shape);

}  // namespace simrun
