#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/rank_waits.h"
#include "backend/thread_fabric.h"

namespace simrun {

// Notices that no rank of any process can go on (Mattern 1987, "Algorithms for distributed termination
// detection", the four-counter method): all processes are asked twice, the second time when all have answered
// the first; if each time all were idle and as many messages had been delivered as sent, and none in between,
// then none is under way and nobody will ever move.
class StallWaves {
 public:
  explicit StallWaves(int processes) : answers_(static_cast<std::size_t>(processes)) {}

  using Answer = ThreadFabric::State;
  // What a process says of itself unasked; the last of each decides whether asking is worth while.
  void tell(int process, Answer answer);
  // The number of the wave to ask all processes with, if one should begin now.
  std::optional<std::int64_t> begin();
  // An answer to a wave; old waves' are passed over.
  void answer(std::int64_t wave, int process, Answer answer);

  // Between runs.
  void forget();

  bool stalled() const { return stalled_; }
  // By the last that was heard of each process but those: what one that is lost said last is long past.
  RankWaits waits(const std::vector<int>& without = {}) const;

 private:
  struct Process {
    Answer last;
    std::int64_t wave = 0;
  };
  bool all_idle_and_arrived() const;
  std::int64_t sent() const;

  std::vector<Process> answers_;
  std::int64_t wave_ = 0;  // the last that was begun
  bool under_way_ = false, stalled_ = false;
  std::int64_t quiet_at_ = -1;  // messages sent when the last wave was quiet; -1: it was not
};

}  // namespace simrun
