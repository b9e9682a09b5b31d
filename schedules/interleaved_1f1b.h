#pragma once

#include "schedules/pipeline_schedule.h"

namespace simrun {

// Interleaved 1F1B (Narayanan et al. 2021, figure 4 bottom; Megatron-LM's virtual pipeline).
//
// The passes of a rank are the rows of virtual_microbatches() with group size g, backwards with the chunks
// counted from the end; n = microbatches x virtual_stages of each. Rank r warms up with w = min(n, 2 (ranks -
// 1 - r) + (virtual_stages - 1) g) forwards, then alternates one forward with one backward, then drains. At
// most min(n, w + 1) (chunk, microbatch) pairs are alive on rank r. Idle per rank with uniform chunks: (ranks
// - 1)(F + B) where F, B are the times of one chunk; fewer microbatches than ranks add (virtual_stages - 1)
// (ranks - microbatches)(F + B).
//
// Sources: Megatron-LM core/pipeline_parallel/schedules.py, get_pp_rank_microbatches and get_schedule_table;
// PyTorch ScheduleInterleaved1F1B emits the same lists for the same g.
Schedule interleaved_1f1b(const PipelineShape& shape);

// Megatron-LM's overlap_moe_expert_parallel_comm: one forward more before the steady state, in which each
// forward and the backward behind it run as one step, the all-to-all of one behind the compute of the other.
// At most min(n, w + 2) pairs are alive on rank r. On one rank also with one stage: w = 0, each microbatch's
// forward beside the backward of the one before it.
//
// Source: Megatron-LM core/pipeline_parallel/combined_1f1b.py.
Schedule interleaved_1f1b_overlap(const PipelineShape& shape);

// At least 2 virtual stages per rank (of the overlapped variant, where there are several ranks), and the
// group rules of virtual_microbatches.h: Megatron-LM's or PyTorch's; of the overlapped variant Megatron-LM's
// alone. "" if the shape obeys them.
std::string interleaved_refusal(const PipelineShape& shape);
std::string interleaved_overlap_refusal(const PipelineShape& shape);

}  // namespace simrun
