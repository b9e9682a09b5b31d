#pragma once

#include "schedules/pipeline_schedule.h"

namespace simrun {

// DualPipe (DeepSeek-AI 2024, arXiv 2412.19437, section 3.2.1): two pipelines in opposite directions over the
// same ranks, each with half the microbatches; in the steady state a forward of one and a backward of the
// other run as one step, the communication of each behind the compute of the other.
//
// A rank that is h hops from the nearer end starts with the pipeline that reaches it first: forwards of that
// one, forwards of both, then backwards of the other with their W apart (in the fill and in the drain, where
// the gradient must leave early), between them overlapped pairs. W's wait in one queue for both directions.
// Rank ranks - 1 - r runs rank r's list with the directions exchanged. Every stage's weights live on two
// ranks, whose gradients must be summed.
//
// Alive: at most ranks + 1 (stage, microbatch) pairs. Idle: at most (ranks / 2 - 1)(FB + B - 3 W) with FB the
// time of an overlapped pair, exact for F = I >= W.
//
// REQUIRES: ranks even, microbatches (of both directions together) even and >= 2 x ranks.
// Source: deepseek-ai/DualPipe dualpipe/dualpipe.py.
Schedule dualpipe(int ranks, int microbatches);

// The list of one rank of it.
RankOps dualpipe_rank(int rank, int ranks, int microbatches);

// DualPipeV: the V of half the ranks, twice the stages: rank r < ranks runs the list of rank r of dualpipe(2
// x ranks, 2 x microbatches), its own down stage r and up stage 2 x ranks - 1 - r being the two ends of one
// pipeline. No stage lives twice.
//
// Alive: at most 2 x ranks + 1 (stage, microbatch) pairs. Idle: at most (ranks - 1)(FB + B - 3 W), exact for
// F = I >= W.
//
// Sources: deepseek-ai/DualPipe dualpipe/dualpipev.py; PyTorch ScheduleDualPipeV emits the same lists.
Schedule dualpipe_v(int ranks, int microbatches);

// "" if the shape obeys the REQUIRES; of dualpipe_v: 2 virtual stages, microbatches >= 2 x ranks.
std::string dualpipe_refusal(const PipelineShape& shape);
std::string dualpipe_v_refusal(const PipelineShape& shape);

}  // namespace simrun
