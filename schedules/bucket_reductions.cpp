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
    const auto later = std::find_if(all.begin(), all.end(), computes);
    instructions.insert(instructions.end(), all.begin(), later);
    flush(instructions);
    waiting_.assign(later, all.end());
  }
}

void BucketReductions::flush(std::vector<Instruction>& instructions) {
  instructions.insert(instructions.end(), waiting_.begin(), waiting_.end());
  waiting_.clear();
}

}  // namespace simrun
