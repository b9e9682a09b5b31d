#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "traces/write_chakra.h"

namespace simrun {

// A plan's steady step as execution traces, one per GPU; GPU numbers are the devices'.
struct ChakraTraces {
  // Members of each communicator, ascending; its number is its name.
  std::vector<std::vector<std::int64_t>> groups;
  // Nodes by pipeline rank, of the GPU with local index 0: groups and ranks are filled in by nodes_of().
  std::vector<std::vector<ChakraNode>> of_pipeline_rank;
  // By pipeline rank and node: the communication that it is; no_index: none.
  std::vector<std::vector<Index>> communications;
  // By pipeline rank: of each of its collectives the communicator that every GPU, by local index, is in.
  std::vector<std::map<Index, std::vector<std::size_t>>> group_of_gpu;
};

// Nodes are the instructions that take time, in the order of issue. One waits for the one before it on its
// stream (`control`; other streams than compute also for the compute issued before), and for what other
// streams write of what it reads (`data`). Times are those of the GPU that the timeline recorded of each
// pipeline rank, rounded down to microseconds. Bytes of an exchange: what one rank puts in (an all-gather's
// part, the whole of others; of the rank that has most, where ranks differ), or takes out of a receive.
// Throws std::invalid_argument for plans with parameter servers, which Chakra has no nodes for, and timelines
// without instructions.
ChakraTraces chakra_traces(const Plan& plan, const Timeline& timeline);

// The nodes of one GPU.
std::vector<ChakraNode> nodes_of(const Plan& plan, const ChakraTraces& traces, std::int32_t pipeline_rank,
                                 std::int64_t local_index);

// The file of communicators that ASTRA-sim takes: {"0": [0, 1], ...}.
std::string chakra_groups_json(const ChakraTraces& traces);

}  // namespace simrun
