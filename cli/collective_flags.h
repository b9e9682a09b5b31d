#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/opcode.h"

namespace simrun {

// The flags of a collective without a job, as they were written.
struct CollectiveFlags {
  std::optional<std::string> collective;
  std::optional<std::string> bytes;
  std::optional<std::string> cluster;
  std::optional<std::string> nodes;
  std::optional<std::string> gpus_per_node;
  std::optional<std::string> algorithm;
  std::optional<std::string> protocol;
};

// What they ask for.
struct CollectiveRequest {
  std::string collective;  // as in configs/collectives_config.h, or send_recv
  Opcode opcode = Opcode::all_reduce;
  std::vector<std::int64_t> bytes, nodes;
  std::string cluster;              // a preset or a file
  std::int64_t gpus_per_node = 0;   // 0: all of a node
  std::string algorithm, protocol;  // "": not forced
};

// Throws ConfigError with everything that is wrong.
CollectiveRequest read_collective_flags(const CollectiveFlags& flags);

// "1M..1G" (powers of two from the first, and the last), "4096", "1k,1.5M,16G"; binary k, M, G, T as
// nccl-tests take them. Nothing if it is none of these, or a size is not a whole number of bytes from 1 to
// 2^50.
std::optional<std::vector<std::int64_t>> sizes_in_bytes(const std::string& text);

}  // namespace simrun
