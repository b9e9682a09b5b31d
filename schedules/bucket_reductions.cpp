#include "schedules/bucket_reductions.h"

#include <algorithm>

namespace simrun {

static bool computes(const Instruction& instruction) {
  return instruction.stream == compute_stream && instruction.opcode != Opcode::free;
}

BucketReductions::BucketReductions(const ChunkEmission& emission, const BucketInstructions& reductions)
    : emission_(emission),
      reductions_(reductions),
      done_(reductions.empty() ? 0 : emission.buckets.size(), false) {}

void BucketReductions::complete(std::size_t step, std::vector<Instruction>& instructions) {
  for (std::size_t b = 0; b < done_.size(); ++b) {
    if (done_[b] || emission_.buckets[b].complete_after > step) continue;
    done_[b] = true;
    const std::vector<Instruction>& all = reductions_[b];
    // What computes in front of the reduction (a cast) does not wait.
    const auto reduction = std::find_if_not(all.begin(), all.end(), computes);
    const auto later = std::find_if(reduction, all.end(), computes);
    instructions.insert(instructions.end(), all.begin(), later);
    // A small bucket beside a large one is no reason to wait for the large one's reduction.
    if (!emission_.buckets[b].written_early) flush(instructions);
    waiting_.insert(waiting_.end(), later, all.end());
  }
}

void BucketReductions::flush(std::vector<Instruction>& instructions) {
  instructions.insert(instructions.end(), waiting_.begin(), waiting_.end());
  waiting_.clear();
}

}  // namespace simrun
