#pragma once

#include <deque>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "configs/node_groups.h"
#include "schedules/extent_tables.h"
#include "schedules/instruction_costs.h"
#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "sim/exchange_costs.h"
#include "sim/sized_plan.h"
#include "sim/topology.h"

namespace simrun {

// Durations of a plan's instructions, each different one priced once: most instructions of a plan have the
// opcode, the attributes and the shapes of another. The same numbers as kernel_time and communication_time.
//
// Where a plan has extent tables, a kernel's time is that of the extents and the share of the work of one GPU
// in one microbatch; a kernel whose outputs all have no elements there, or whose share is 0, is not launched
// and takes no time.
//
// Where the cluster has several kinds of GPU, a kernel's time is that of the GPU's own kind.
class Durations {
 public:
  // `measured`: in place of prices for kernels, and for communications as every instance's time; where an
  // instruction has none its price stays. The plan must outlive it.
  //
  // `prices`: of another plan on the same devices and meshes of the same cluster, which must outlive it; what
  // exchanges cost by their bytes is not worked out again.
  explicit Durations(const Plan& plan, const InstructionCosts* measured = nullptr,
                     Durations* prices = nullptr);

  // A communication: until its slowest instance over the stage's devices is done, all begun at once. With
  // tables: the mean over microbatches, of the GPU on which it is longest.
  Picoseconds of(std::int32_t pipeline_rank, const Instruction& instruction);

  // No communication.
  Picoseconds kernel_at(const TablePlace& place, const Instruction& instruction);

  // Bytes of a communication as one GPU would have them (communicated_bytes, times its share of the work);
  // negative: none of it takes place. An instance takes the time of the largest of its members.
  double bytes_at(const TablePlace& place, const Instruction& instruction);

  // As of(), for a communication of so many bytes; negative: no time.
  Picoseconds exchange_time(std::int32_t pipeline_rank, const Instruction& instruction, double bytes);

  // The same as one GPU of the stage sees it: its own instance, which shares links with the others of this
  // instruction, each of as many bytes. 0 where that GPU has no peer.
  struct OwnInstance {
    std::int64_t local_index = 0;
    double bytes = 0;
  };
  Picoseconds instance_time(std::int32_t pipeline_rank, const Instruction& instruction,
                            const OwnInstance& instance);

  // Whether all instances of each instruction priced so far take equally long, to the picosecond, alone on
  // the network (and all GPUs of the stage take part). Only then may one GPU stand for its stage, with the
  // times of of().
  bool uniform() const { return uniform_; }

  // Whether an instruction's extents or work may differ by GPU or microbatch.
  bool varies(const Instruction& instruction) const;
  bool has_gpu_kinds() const { return kinds_.count() > 1; }
  // The plan as the GPU there sees it: cluster.gpu is its kind.
  const Plan& plan_at(const TablePlace& place) const { return plan_of(kind_at(place)); }

  const Topology& topology() const { return topology_; }

 private:
  void take_measured(const InstructionCosts& costs);
  // nullptr: it was not measured.
  const Picoseconds* measured(std::int32_t pipeline_rank, const Instruction& instruction) const;
  std::size_t kind_at(const TablePlace& place) const;
  const Plan& plan_of(std::size_t kind) const { return kind == 0 ? plan_ : of_other_kinds_[kind - 1]; }
  Picoseconds kernel(std::size_t kind, const Plan& sized, const Instruction& instruction);
  Picoseconds mean_time(std::int32_t pipeline_rank, const Instruction& instruction);
  bool is_launched(const Plan& sized, const Instruction& instruction) const;
  Index shape_of(const Plan& sized, Index buffer);
  Index new_shape(const Buffer& buffer);
  ExchangeCosts& exchange(std::int32_t pipeline_rank, const Instruction& instruction);

  const Plan& plan_;
  std::map<std::pair<std::int32_t, const Instruction*>, Picoseconds> measured_;  // by pipeline rank
  Topology topology_;
  GpuKinds kinds_;
  std::deque<Plan> of_other_kinds_;  // the plan as GPUs of kind 1, 2, ... see it: cluster.gpu is theirs
  std::deque<SizedPlan> sized_;      // by kind
  bool uniform_ = true;
  struct KeyHash {
    std::size_t operator()(const std::vector<Index>& key) const;
  };
  std::unordered_map<std::vector<Index>, Index, KeyHash> shapes_;
  std::vector<Index> shape_of_buffer_;  // equal for buffers of equal dims and dtype; at their bounds
  std::vector<bool> buffer_varies_;     // has extents from tables; empty: none has
  std::map<std::int32_t, TableClasses> classes_;  // by pipeline rank, where they were needed
  std::unordered_map<std::vector<Index>, Picoseconds, KeyHash> kernels_;
  std::vector<Index> key_, shape_key_;  // the last ones looked up; kept for their memory
  // By what decides the costs: the same group or peer may serve many communications.
  using GroupKey = std::vector<std::int32_t>;
  std::map<GroupKey, ExchangeCosts> costs_;
  std::map<std::tuple<std::int32_t, Index, Opcode>, ExchangeCosts*> exchanges_;  // by rank and communication
  Durations* const prices_;  // of another plan, that are known already; nullptr: none
};

}  // namespace simrun
