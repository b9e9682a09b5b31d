#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/core_gate.h"
#include "backend/transport.h"
#include "schedules/plan.h"

namespace simrun {

// One instruction of one step as a rank ran it, in nanoseconds. Places are of CLOCK_MONOTONIC, which all
// ranks of a machine share; `busy` is of CLOCK_THREAD_CPUTIME_ID, which stands still while the thread waits
// or another runs in its place, or of the device's own clock.
struct MeasuredInstruction {
  Index entry = 0, instruction = 0;
  std::int64_t begin_ns = 0, end_ns = 0;
  std::int64_t busy_ns = 0;    // work of its own
  std::int64_t waited_ns = 0;  // for other ranks, and then for a core
};

struct MeasuredStep {
  std::int64_t begin_ns = 0, end_ns = 0;
  std::vector<MeasuredInstruction> instructions;  // in the order of issue, FREE included
};

// What a rank's instructions take, and when: the hook that RankRun calls where it is there. It also stands
// between the rank and its transport, to know waits and to give back the rank's core for as long as they
// last. It holds a permit of the gate from its first step on.
class RankClock final : public Transport {
 public:
  // Rank `rank` of `ranks` that all have a clock: every step begins when the last of them is there.
  RankClock(Transport& transport, CoreGate& gate, std::int64_t rank, std::int64_t ranks)
      : transport_(transport), gate_(gate), rank_(rank), ranks_(ranks) {}

  void begin_step();
  void end_step();
  void begin();
  // `worked_ns`: on the rank's device (Device::worked_ns()).
  void end(Index entry, Index instruction, std::int64_t worked_ns = -1);

  void send(std::int64_t to, const MessageTag& tag, Message message) override;
  Message receive(std::int64_t from, const MessageTag& tag, const std::string& waiting_for) override;

  std::vector<MeasuredStep> take_steps() { return std::move(steps_); }

 private:
  void meet();

  Transport& transport_;
  CoreGate& gate_;
  const std::int64_t rank_, ranks_;
  std::optional<CoreGate::Hold> permit_;
  std::vector<MeasuredStep> steps_;
  std::int64_t begin_ns_ = 0, begin_busy_ns_ = 0, waited_ns_ = 0;
};

}  // namespace simrun
