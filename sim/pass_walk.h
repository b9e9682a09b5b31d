#pragma once

#include <cstdint>
#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "sim/compute_stretch.h"
#include "sim/durations.h"
#include "sim/stream_walk.h"

namespace simrun {

// One pass after the other on a rank that waits for no other pipeline rank, with what the framework makes
// kernels take. Data-parallel collectives are left out.
class PassWalk {
 public:
  PassWalk(const Plan& plan, Durations& durations, std::int32_t pipeline_rank)
      : plan_(plan), durations_(durations), rank_(pipeline_rank), streams_(plan) {}

  // The instructions of the steps that follow.
  void begin_pass(const std::vector<Instruction>& pass) {
    streams_.begin_pass();
    const FrameworkKernels& framework = plan_.framework.kernels;
    const bool is_stretched = framework.compute_slowdown > 1 || framework.host_dispatch_s > 0 ||
                              framework.copies_gathered_shards || plan_.framework.memory.fsdp == 2;
    stretch_ = is_stretched ? compute_stretch(durations_, rank_, pass) : 1;
  }
  void step(const Instruction& instruction) {
    if (plan_.streams[instruction.stream].traffic == Traffic::data) return;
    if (instruction.opcode == Opcode::free) return;
    const Picoseconds alone = durations_.of(rank_, instruction);
    streams_.step(instruction, computes(instruction) ? stretched(alone, stretch_) : alone);
  }
  Picoseconds computed() const { return streams_.computed(); }

 private:
  static bool computes(const Instruction& instruction) {
    return instruction.stream == compute_stream && instruction.opcode != Opcode::init;
  }

  const Plan& plan_;
  Durations& durations_;
  std::int32_t rank_;
  StreamWalk<Picoseconds> streams_;
  double stretch_ = 1;
};

}  // namespace simrun
