#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backend/device.h"
#include "backend/tensor_part.h"
#include "backend/transport.h"
#include "schedules/recorded_rows.h"

namespace simrun {

// The plan does what no plan may: says which rank and instruction.
class ExecutionError : public Disagreement {
 public:
  using Disagreement::Disagreement;
};

// The buffers of one rank, instance by instance: made by their first writer, gone with their FREE. Run-scope
// buffers are there from the start and zero; so are other flat buckets zero when they are made.
class RankMemory {
 public:
  // Makes the run-scope buffers that the rank's program touches.
  RankMemory(const Plan& plan, Device& device, const RankPlace& place);
  ~RankMemory();
  RankMemory(const RankMemory&) = delete;
  RankMemory& operator=(const RankMemory&) = delete;

  // Which instance of a buffer an instruction means: `microbatch` for those that every microbatch has of its
  // own (scopes microbatch and pass).
  struct Instance {
    Index buffer = 0;
    std::int32_t microbatch = 0;
  };
  Argument read(Instance instance);  // throws ExecutionError if it is not there
  // Makes it if it is not there; `rows`: of an experts' buffer on a device with memory.
  Argument write(Instance instance, SharedRows rows = nullptr);
  void release(Instance instance);  // throws ExecutionError if it is not there
  // The owners that are neither freed nor of run scope.
  std::vector<std::string> left_over() const;

  // By the plan's types, whatever the device's are.
  std::int64_t planned_peak_bytes() const { return planned_peak_; }

  // Of the step that ends: its most bytes, as the device stores them, and the rows that experts' buffers had.
  struct Step {
    std::int64_t peak_bytes = 0;
    RecordedRows rows;
  };
  Step end_step();

 private:
  struct Allocation {
    void* memory = nullptr;
    std::int64_t bytes = 0, planned_bytes = 0;
    SharedRows rows = nullptr;
  };
  using Key = std::pair<Index, std::int32_t>;
  void give_back(const Buffer& owner, const Allocation& allocation);
  Key key_of(Instance instance) const;
  Index owner_of(Index buffer) const;
  Allocation& make(const Key& key, SharedRows rows = nullptr);
  Argument argument(Instance instance, const Allocation& allocation) const;

  const Plan& plan_;
  Device& device_;
  const RankPlace place_;
  std::map<Key, Allocation> live_;
  std::int64_t planned_ = 0, planned_peak_ = 0;
  std::int64_t stored_ = 0;  // as the device stores them
  Step recorded_;
};

}  // namespace simrun
