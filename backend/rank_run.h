#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/bucket_views.h"
#include "backend/checkpoint.h"
#include "backend/device.h"
#include "backend/exchange.h"
#include "backend/observations.h"
#include "backend/rank_clock.h"
#include "backend/rank_memory.h"
#include "backend/transport.h"

namespace simrun {

// One rank of a run: takes the instructions of its program in the order of issue, finds their operands in its
// memory and hands them to its device, or exchanges them with its partners. All it knows of a plan is what
// schedules/plan.h and backend/operations.h say.
class RankRun {
 public:
  struct Shared {  // by all ranks of a run
    const Plan& plan;
    const BucketViews& buckets;
    const Hyperparameters& training;
    int steps = 1;
    Observations& observed;
    const ResumedParameters* start = nullptr;
    bool compares = true;  // gradients and parameters are told
  };
  // `clock`: times every instruction; the transport, then, is the clock.
  RankRun(const Shared& shared, Device& device, Transport& transport, const RankPlace& place,
          RankClock* clock = nullptr);

  // All steps. Throws ExecutionError or TransportError that says at which entry and instruction.
  void run();

  std::int64_t planned_peak_bytes() const { return memory_.planned_peak_bytes(); }
  std::int64_t instructions() const { return instructions_; }

 private:
  // An instruction on its way: where it stands in the program, and for which microbatch.
  struct Place {
    std::size_t entry = 0, instruction = 0;
    std::int32_t microbatch = 0;
  };

  void initialise();
  void copy(const Argument& from, const Argument& to);
  void initialise_optimizer(const Instruction& what);
  std::int64_t global_step() const { return step_ + (shared_.start == nullptr ? 0 : shared_.start->steps()); }
  void end_step(RankMemory::Step memory);
  void run_entry(std::size_t entry);
  void run(const Place& at, const Instruction& what);
  void compute(const Place& at, const Instruction& what, const std::vector<Argument>& inputs,
               const std::vector<Argument>& outputs);
  SharedRows rows_of_output(const Place& at, const Instruction& what, const std::vector<Argument>& inputs,
                            std::size_t output);
  void begin_clock();
  void end_clock(const Place& at);
  void observe(const Instruction& what, const std::vector<Argument>& outputs);
  void record(ParameterValues& values, Index flat, const Argument& argument);
  // Of a flat buffer whose elements are parameters as in the buffer `like`: value_of(parameter, whole index).
  template <class ValueOf>
  void fill(Index flat, Index like, ValueOf value_of);
  std::vector<Index> buffers_touched() const;
  std::string describe(const Place& at, const Instruction& what) const;

  const Shared& shared_;
  const Plan& plan_;
  const Program& program_;
  Device& device_;
  const RankPlace place_;
  RankMemory memory_;
  RankExchange exchange_;
  RankClock* const clock_;
  std::int64_t step_ = 0;
  RoutedRows rows_;
  std::int64_t fullest_ = -1;
  std::int64_t instructions_ = 0;
};

}  // namespace simrun
