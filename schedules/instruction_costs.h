#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// What the instructions of a plan took where it was run: mean over a pipeline rank's devices and over the
// entries that run a segment. An engine may be given these in the place of its own prices
// (sim/simulate.h).
class InstructionCosts {
 public:
  struct Key {
    std::int32_t pipeline_rank = 0;
    Index segment = 0, instruction = 0;
    bool operator<(const Key& other) const {
      return std::tie(pipeline_rank, segment, instruction) <
             std::tie(other.pipeline_rank, other.segment, other.instruction);
    }
  };
  void add(const Key& key, Picoseconds duration) {
    Sum& sum = sums_[key];
    sum.total += duration;
    ++sum.count;
  }
  // Nothing where it never ran.
  std::optional<Picoseconds> of(const Key& key) const {
    const auto found = sums_.find(key);
    if (found == sums_.end()) return std::nullopt;
    return found->second.total / found->second.count;
  }
  bool empty() const { return sums_.empty(); }

 private:
  struct Sum {
    Picoseconds total = 0;
    std::int64_t count = 0;
  };
  std::map<Key, Sum> sums_;
};

}  // namespace simrun
