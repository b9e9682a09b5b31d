#pragma once

#include <cstdint>

#include "configs/job.h"

namespace simrun {

// Rows of all experts' buffers of one kind by expert, over a data-parallel microbatch: `copies` of each
// token, times the capacity factor, in equal parts for the ranks that divide the tokens.
struct ExpertRowCount {
  std::int64_t expected = 0;  // by expert, without a factor
  std::int64_t planned = 0;
};
ExpertRowCount expert_row_count(const Job& job, double copies);

// The dispatcher einsum: tokens of a rank that share a mask, and the rows that each expert has for them
// (GShard, arXiv 2006.16668, appendix A: S and C).
struct MaskGroup {
  std::int64_t tokens = 0, rows = 0;
};
MaskGroup mask_group(const Job& job);

// Over which tokens the job's ranks count an expert's capacity and the balance loss: those of one rank in one
// microbatch, a part of each sequence where context or sequence parallelism divides it. The same model on
// fewer ranks computes the same if it has this scope.
ExpertScope expert_scope(const Job& job);

}  // namespace simrun
