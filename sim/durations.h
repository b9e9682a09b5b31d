#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "sim/collective_cost.h"

namespace simrun {

// Durations of a plan's instructions, each different one priced once: most instructions of a plan have the
// opcode, the attributes and the shapes of another. The same numbers as kernel_time and communication_time.
class Durations {
 public:
  explicit Durations(const Plan& plan);  // the plan must outlive it
  Picoseconds of(std::int32_t pipeline_rank, const Instruction& instruction);

 private:
  Picoseconds kernel(const Instruction& instruction);
  Picoseconds collective(std::int32_t pipeline_rank, const Instruction& instruction);

  const Plan& plan_;
  std::vector<Index> shape_of_buffer_;  // equal for buffers of equal dims and dtype
  struct KeyHash {
    std::size_t operator()(const std::vector<Index>& key) const;
  };
  std::unordered_map<std::vector<Index>, Picoseconds, KeyHash> kernels_;
  std::vector<Index> key_;  // the last one looked up; kept for its memory
  using GroupKey = std::pair<std::int32_t, std::vector<std::int32_t>>;
  std::map<GroupKey, std::vector<GroupShape>> groups_;
  std::map<std::pair<std::int32_t, Index>, bool> crosses_nodes_;  // by (rank, communication)
};

}  // namespace simrun
