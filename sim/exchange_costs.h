#pragma once

#include <map>
#include <span>
#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "sim/collective_tuner.h"

namespace simrun {

// Seconds by bytes, along a line.
struct LinearCost {
  double latency_s = 0;
  double seconds_per_byte = 0;
  double at(double bytes) const { return latency_s + bytes * seconds_per_byte; }
  bool operator==(const LinearCost&) const = default;
};

// Exchanges that begin at once, the i-th phase of one with the i-th phases of the others.
struct LockstepCosts {
  LinearCost together;  // until the last is done, phase by phase: lockstep_seconds
  // One exchange's own phases, on links that the others load too; a single one if all are equal.
  std::vector<LinearCost> each;
  const LinearCost& of(std::size_t exchange) const { return each[each.size() == 1 ? 0 : exchange]; }
};
LockstepCosts lockstep_costs(const Topology& topology, std::span<const ExchangeFlows> exchanges);

// By flow of a phase on idle links: seconds per byte until each of its links has carried all that the phase
// puts there.
std::vector<double> busy_seconds_per_byte(const Topology& topology, const FlowPhase& phase);

// The cost of one communication instruction as a pipeline rank issues it: all instances of its group, or all
// its transfers, at once. Links are loaded once per choice of algorithms; after that every byte count is
// O(1).
class ExchangeCosts {
 public:
  // Topology, plan and communication must outlive it.
  ExchangeCosts(const Topology& topology, const Plan& plan, std::int32_t pipeline_rank, Opcode opcode,
                const Communication& communication);

  // Until the slowest is done.
  Picoseconds together(double bytes);
  // The exchange of one device, which shares links with the others; 0 for one that has no peer.
  Picoseconds of_device(std::int32_t pipeline_rank, std::int64_t local_index, double bytes);
  // All take equally long, to the picosecond, each alone on the network, and every device has one.
  bool is_uniform(double bytes) const;

 private:
  // Instances of a collective that cost the same alone in each of their ways, or transfers that do: these
  // have one. Not empty.
  struct Way {
    CollectiveChoice choice;
    LinearCost cost;
    bool operator==(const Way&) const = default;
  };
  using Class = std::vector<Way>;
  using Choice = std::vector<std::uint8_t>;  // by class: which of its ways
  bool is_transfer() const { return opcode_ == Opcode::send || opcode_ == Opcode::recv; }
  // Each device has an exchange of its own.
  bool is_by_device() const { return is_transfer() || communication_.servers.one_sided; }
  void classify_collectives();
  void classify_transfers();
  void add(const Class& instance);
  Choice choice(double bytes) const;
  ExchangeFlows transfer_of(std::int64_t local_index) const;
  Class class_of(std::span<const std::int64_t> devices) const;
  std::vector<ExchangeFlows> flows(const Choice& choice) const;
  const LockstepCosts& costs(double bytes);

  const Topology& topology_;
  const Plan& plan_;
  const Communication& communication_;
  std::int32_t pipeline_rank_;
  Opcode opcode_;
  bool inside_nodes_ = true;     // every instance of the collective, over switches, all links alike
  std::vector<Class> classes_;   // different ones
  std::vector<Index> class_of_;  // by instance of the group, or by local index of the device
  std::vector<std::vector<std::int64_t>> one_sided_;  // by local index: the device and its servers
  std::map<Choice, LockstepCosts> costs_;
  std::map<std::int32_t, std::vector<Index>> instances_;  // instance_of_devices by pipeline rank
};

}  // namespace simrun
