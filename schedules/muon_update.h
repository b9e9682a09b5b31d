#pragma once

#include <vector>

#include "schedules/optimizer_update.h"

namespace simrun {

// Muon (Jordan et al. 2024) over a bucket of hidden matrices; embeddings, head, norms and biases are adamw's.
//   1  momentum: the gradients' shard and the momentum buffer make an update in the type of the weights
//   2  each matrix whole: under ZeRO updates are all-gathered over the data-parallel ranks, and where tensor
//      parallelism cuts a matrix, its parts over those. This is Distributed Muon (Liu et al. 2025, arXiv
//      2502.16982, section 2.3, algorithm 1), whose traffic is at most 1.25 times that of adamw under ZeRO-1
//      with fp32 gradients and parameters.
//   3  5 Newton-Schulz iterations per matrix of m <= n: A = X X', B = b A + c A A, X = a X + B X, so
//      5 (4 m^2 n + 2 m^3) FLOPs, which the polynomials' elementwise terms, fused into the products, do not
//      change. A rank needs this of the matrices of which its shard has a part, and tensor-parallel ranks
//      all do it. One program serves all shards: it has every matrix of the bucket, and those of which the
//      shard with most to do has no part are no work (Instruction::work_table) and take no time. A device
//      that runs the plan makes them all on every rank.
//   4  the rank's part is kept, the rest discarded, and the parameters updated
std::vector<Instruction> muon_update(const UpdateContext& context, const ParameterBucket& bucket);

// FLOPs of 5 Newton-Schulz iterations of a rows x columns matrix.
double newton_schulz_flops(std::int64_t rows, std::int64_t columns);

}  // namespace simrun
