#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simrun {

// Collectives of a plan that go over groups of one kind and are carried out alike (sim/choose_collectives.h).
struct ChosenCollective {
  std::string collective;  // "all_reduce"
  std::string group;       // the axes, "dp" or "tp-dp"
  std::int64_t ranks = 0;
  std::string algorithm, protocol;               // "nvls_tree", "ll128"
  std::int64_t times = 0;                        // in a step, of the pipeline rank that has most
  std::int64_t least_bytes = 0, most_bytes = 0;  // of the whole tensor
};

}  // namespace simrun
