#pragma once

#include <vector>

#include "schedules/emit_segments.h"

namespace simrun {

// Within one pass: in front of which step each weight is cast to fp8, and behind which the copies are freed.
// Copies of weights that a rank keeps are cast by the first microbatch of a step and stay; those of weights
// that are gathered (ZeRO-3) live and die with them: a pass that gathers and frees for itself casts what it
// reads, one that leaves them to a later pass both copies. Refers to its arguments.
class WeightCasts {
 public:
  WeightCasts(const ChunkEmission& emission, const ChunkCode& code, const WeightGathers& weights,
              WeightUse use);

  // The pass runs steps[order[place]] for every place in [begin, end).
  void find(const std::vector<CodeStep>& steps, const std::vector<std::size_t>& order, std::size_t begin,
            std::size_t end);
  void before(std::size_t place, Phase phase, std::vector<Instruction>& instructions) const;
  void behind(std::size_t place, Phase phase, std::vector<Instruction>& instructions) const;

 private:
  struct Made {
    std::size_t parameter = 0;  // into ChunkCode::quantised
    std::vector<Index> copies;
  };
  void cast(const Made& made, Phase phase, std::vector<Instruction>& instructions) const;

  const ChunkEmission& emission_;
  const ChunkCode& code_;
  const WeightUse use_;
  std::vector<bool> gathered_;  // by quantised parameter
  std::vector<std::vector<Made>> cast_before_;
  std::vector<std::vector<Index>> freed_behind_;  // by place
};

}  // namespace simrun
