#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simrun {

enum class ChakraKind : std::uint8_t { compute, load, store, send, receive, collective };

// A node of an execution trace, as far as ASTRA-sim reads it (astra-sim/workload/Workload.cc).
struct ChakraNode {
  std::uint64_t id = 0;
  std::string name, phase;
  ChakraKind kind = ChakraKind::compute;
  std::vector<std::uint64_t> control, data;  // nodes that must be over: of its stream, of what it reads
  std::int64_t start_ns = 0, duration_ns = 0;
  std::int64_t stream = 0;
  std::int64_t flops = 0;         // compute
  std::int64_t bytes = 0;         // compute, copies: read and written; exchanges: what one rank puts in
  std::int64_t collective = -1;   // number of chakra::CollectiveCommType
  std::string group;              // collectives: its number in the file of groups
  std::int64_t from = 0, to = 0;  // send, receive: ranks
  std::int64_t tag = 0;           // equal on both ends
};

// Numbers of the schema's CollectiveCommType (traces/chakra.proto).
constexpr std::int64_t chakra_all_reduce = 0, chakra_all_gather = 2, chakra_broadcast = 5,
                       chakra_all_to_all = 6, chakra_reduce_scatter = 7;

// Attributes of a node beside the schema's own times, which are whole microseconds.
constexpr const char* chakra_start_ns = "start_time_ns";
constexpr const char* chakra_duration_ns = "duration_ns";
constexpr const char* chakra_phase = "phase";             // of a step, as the Plan calls it
constexpr const char* chakra_step_ns = "simrun_step_ns";  // of the metadata

// One rank's trace of a step that takes so long: GlobalMetadata, then the nodes, each message behind its
// length.
std::string chakra_trace(std::int64_t rank, std::int64_t step_ns, const std::vector<ChakraNode>& nodes);

}  // namespace simrun
