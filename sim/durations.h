#pragma once

#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "sim/exchange_costs.h"
#include "sim/topology.h"

namespace simrun {

// Durations of a plan's instructions, each different one priced once: most instructions of a plan have the
// opcode, the attributes and the shapes of another. The same numbers as kernel_time and communication_time.
class Durations {
 public:
  explicit Durations(const Plan& plan);  // the plan must outlive it

  // A communication: until its slowest instance over the stage's devices is done, all begun at once.
  Picoseconds of(std::int32_t pipeline_rank, const Instruction& instruction);

  // The same as one GPU of the stage sees it: its own instance, which shares links with the others of this
  // instruction. 0 where that GPU has no peer. A kernel takes equally long on all.
  Picoseconds instance_time(std::int32_t pipeline_rank, const Instruction& instruction,
                            std::int64_t local_index);

  // Whether all instances of each instruction priced so far take equally long, to the picosecond, alone on
  // the network (and all GPUs of the stage take part). Only then may one GPU stand for its stage, with the
  // times of of().
  bool uniform() const { return uniform_; }

  const Topology& topology() const { return topology_; }

 private:
  Picoseconds kernel(const Instruction& instruction);
  ExchangeCosts& exchange(std::int32_t pipeline_rank, const Instruction& instruction);

  const Plan& plan_;
  Topology topology_;
  bool uniform_ = true;
  std::vector<Index> shape_of_buffer_;  // equal for buffers of equal dims and dtype
  struct KeyHash {
    std::size_t operator()(const std::vector<Index>& key) const;
  };
  std::unordered_map<std::vector<Index>, Picoseconds, KeyHash> kernels_;
  std::vector<Index> key_;  // the last one looked up; kept for its memory
  // By what decides the costs: the same group or peer may serve many communications.
  using GroupKey = std::vector<std::int32_t>;
  std::map<GroupKey, ExchangeCosts> costs_;
  std::map<std::tuple<std::int32_t, Index, Opcode>, ExchangeCosts*> exchanges_;  // by rank and communication
};

}  // namespace simrun
