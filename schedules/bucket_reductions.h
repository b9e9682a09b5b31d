#pragma once

#include <vector>

#include "schedules/emit_segments.h"

namespace simrun {

// Issues the reduction of every bucket of a backward pass once its gradients are complete. Compute that
// follows a reduction in its list (the sum over microbatches) waits for it, so it is issued behind the
// compute of the next bucket. Refers to its arguments.
class BucketReductions {
 public:
  // `reductions`: by bucket; empty: this pass reduces nothing.
  BucketReductions(const ChunkEmission& emission, const BucketInstructions& reductions);

  // All backward steps up to this one have been issued.
  void complete(std::size_t step, std::vector<Instruction>& instructions);
  void flush(std::vector<Instruction>& instructions);

 private:
  const ChunkEmission& emission_;
  const BucketInstructions& reductions_;
  std::vector<bool> done_;
  std::vector<Instruction> waiting_;
};

}  // namespace simrun
