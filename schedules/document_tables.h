#pragma once

#include "configs/job.h"
#include "models/graph.h"
#include "schedules/plan.h"

namespace simrun {

// Packed sequences: gives every fused attention of a compiled plan the share of its scores that lie within
// one document, by microbatch and by the rank's part of the batch (Instruction::work_table), and the job's
// facts what that is on average. Sequence n of a step is sample j of the micro batch of data-parallel rank d
// in microbatch m: n = (m dp + d) micro_batch_size + j.
//
// Unfused attention computes the whole matrix and masks it: its work stays as it is. Nothing that is kept
// depends on the documents, so memory does not.
void add_document_tables(Plan& plan, const Job& job, const Graph& graph);

}  // namespace simrun
