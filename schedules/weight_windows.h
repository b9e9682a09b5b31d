#pragma once

#include <vector>

#include "schedules/emit_segments.h"

namespace simrun {

// ZeRO-3 within one pass: in front of which step each bucket's weights are gathered and behind which they are
// freed, as far as the pass gathers and releases them. Does nothing where `weights` has no gathers. Refers to
// its arguments.
class WeightWindows {
 public:
  WeightWindows(const ChunkEmission& emission, const ChunkCode& code, const WeightGathers& weights,
                WeightUse use);

  // The pass runs steps[order[place]] for every place in [begin, end).
  void find(const std::vector<CodeStep>& steps, const std::vector<std::size_t>& order, std::size_t begin,
            std::size_t end);
  // Adds what is issued before and behind the step at a place.
  void before(std::size_t place, std::vector<Instruction>& instructions) const;
  void behind(std::size_t place, Phase phase, std::vector<Instruction>& instructions) const;

 private:
  bool are_one_unit(std::size_t bucket, std::size_t next) const;

  const ChunkEmission& emission_;
  const WeightGathers& weights_;
  const WeightUse use_;
  std::vector<std::size_t> bucket_of_;                                    // by value
  std::vector<std::vector<std::size_t>> gathered_before_, freed_behind_;  // by place: buckets
};

}  // namespace simrun
