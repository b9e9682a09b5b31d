#pragma once

#include "schedules/chunk_code.h"

// Ring attention (Liu et al. 2023, arXiv 2310.01889), as Transformer Engine runs it for Megatron-LM's
// cp_comm_type p2p (AttnFuncWithCPAndKVP2P). Of n ranks, rank r has the queries of its part of the sequence.
//
//   forward   In step i of 0..n-1 it attends to the keys and values of rank r - i, which it meanwhile sends
//   on to
//             rank r + 1 while the next ones arrive from rank r - 1. A row kernel behind every step but the
//             first joins its output to the earlier ones' by their log-sum-exps; it reads and writes whole
//             outputs (the correction is not fused with the attention).
//   backward  The other way round, from the block that came last, which is what is kept beside q, output and
//             log-sum-exp: step i is on the block of rank r - (n-1) + i. Gradients of keys and values follow
//             their block one step behind, each rank adding its own, and arrive at its owner in the last
//             step. They and the gradient of q are summed in the type of the activations' gradients.
//
// So n - 1 blocks of k and v go forward, n - 1 of k and v and n - 1 of their gradients backward, on two
// streams (one for what goes out, one for what comes in: a single FIFO stream would wait for itself around
// the ring), each while the step's attention runs. Steps of which the mask leaves a rank nothing are not
// launched there.
namespace simrun {

// `attention`: inputs q and k, v (one value or two); outputs context and log-sum-exp.
void add_ring_forward(const ChunkContext& context, ChunkCode& code, const CodeStep& attention);

// `attention`: inputs gradient, q, k and v of the last block, context, log-sum-exp; outputs the gradients
// of q and of k, v.
void add_ring_backward(const ChunkContext& context, ChunkCode& code, const CodeStep& attention);

// The keys and values that a rank has when the forward ring is over, by its own.
ValueId last_block(const ChunkCode& code, ValueId own);

}  // namespace simrun
