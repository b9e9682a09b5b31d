#pragma once

#include <vector>

#include "sim/compiled_program.h"
#include "sim/topology.h"

namespace simrun {

// Which GPUs are simulated: one for each pipeline rank, on whose times all others' are equal, or all.
enum class Instantiation : std::uint8_t { representatives, every_gpu };

// Where the ends of one exchange meet. A group of GPUs that communicate together (a pair, an instance of a
// collective's group) is one position of the exchange.
struct Meeting {
  Index first = 0;  // number of the rendezvous of position 0
  Index positions = 1;
  bool per_instance = false;    // a channel has one rendezvous per bound instance; other exchanges reuse
                                // theirs, for a stream does not get to the next before it is over
  std::vector<Index> position;  // by local GPU; no_index: has no partner (the end of an axis)
  std::vector<Index> expected;  // by position: ends
  std::vector<Picoseconds> durations;              // by position, alone on its links; empty: the step's
  std::vector<double> bytes;                       // by position, of the member that has most; every_gpu only
  std::vector<std::vector<std::int64_t>> members;  // by position: devices (a transfer: from, to; one-sided:
                                                   // the worker, the servers); every_gpu only
  ServerGroup servers;                             // PUSH, PULL
};

// GPUs of one pipeline rank that one stands for, itself among them.
struct GpuClass {
  Index first = 0;  // local index: the one that is simulated
  Index gpus = 1;
};

struct Meetings {
  Instantiation instantiation = Instantiation::representatives;
  std::vector<Meeting> of_exchange;  // by CompiledPlan::exchanges
  std::vector<Index> gpus;           // simulated, by pipeline rank
  Index rendezvous = 0;
  // Of a folded run (sim/symmetry.h), by pipeline rank: the simulated GPUs, whose numbers here take the place
  // of local indices, and which of them every GPU is like, by local index. Empty: each is simulated.
  std::vector<std::vector<GpuClass>> classes;
  std::vector<std::vector<Index>> class_of_gpu;

  GpuClass gpus_like(std::int32_t pipeline_rank, Index simulated) const {
    return classes.empty() ? GpuClass{simulated, 1}
                           : classes[static_cast<std::size_t>(pipeline_rank)][simulated];
  }
  Index rendezvous_of(const Meeting& meeting, Index position, Index instance) const {
    return meeting.first + position + (meeting.per_instance ? instance * meeting.positions : 0);
  }
};

Meetings find_meetings(const Plan& plan, const CompiledPlan& compiled, Instantiation instantiation,
                       Durations& durations);

}  // namespace simrun
