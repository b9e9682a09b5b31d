#pragma once

#include "schedules/pipeline_schedule.h"
#include "schedules/send_recv.h"

namespace simrun {

// BPipe (Kim et al. 2023, "BPipe: memory-balanced pipeline parallelism for training large language models";
// studied in arXiv 2401.02088): 1F1B whose ranks exchange activations. Ranks x and ranks - 1 - x are paired;
// the one with more activations alive sends the excess to the other and fetches each back before its
// backward.
//
// The order of passes is one_f_one_b's and so are its idle times. The exchange is traffic between passes and
// no op.
//
// REQUIRES: ranks even.
Schedule bpipe(int ranks, int microbatches);

std::string bpipe_refusal(const PipelineShape& shape);

// Activations, its own and its partner's, that a rank holds at most: no more than ceil((ranks + 2) / 2). Of
// 1F1B's min(microbatches, ranks - rank) a rank keeps that many and its partner takes the rest.
int bpipe_resident_peak(int ranks, int microbatches, int rank);

// Which activations move, and when, is the implementation's choice; ours: a rank that holds the limit lends
// the newest, which it needs last, before its next forward; after every backward the oldest comes back.
std::vector<ActivationMove> bpipe_moves(const Schedule& schedule);

}  // namespace simrun
