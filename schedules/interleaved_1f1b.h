#pragma once

#include "schedules/pipeline_schedule.h"

namespace simrun {

// Interleaved 1F1B (Narayanan et al. 2021, figure 4 bottom; Megatron-LM's virtual pipeline).
//
// Virtual microbatch k of n = microbatches x virtual_stages is row k of a table: groups of g microbatches, in
// each group chunk after chunk, in each chunk the group's microbatches (the last group may be short). The
// k-th backward is the k-th row with the chunks counted from the end. Rank r warms up with w = min(n, 2
// (ranks - 1 - r) + (virtual_stages - 1) g) forwards, then alternates one forward with one backward, then
// drains. At most min(n, w + 1) (chunk, microbatch) pairs are alive on rank r. Idle per rank with uniform
// chunks: (ranks - 1)(F + B) where F, B are the times of one chunk, for microbatches >= ranks.
//
// Source: Megatron-LM core/pipeline_parallel/schedules.py, get_pp_rank_microbatches and get_schedule_table.
Schedule interleaved_1f1b(const PipelineShape& shape);

// Megatron-LM's rule for g: ranks <= g <= microbatches, and the last group is empty or holds at least
// `ranks`.
// "" if the shape obeys it, else a sentence with the nearest microbatch counts that do.
std::string interleaved_refusal(const PipelineShape& shape);

}  // namespace simrun
