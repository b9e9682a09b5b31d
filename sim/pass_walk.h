#pragma once

#include <map>
#include <utility>
#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "sim/compute_stretch.h"
#include "sim/durations.h"

namespace simrun {

// One pass after the other on a rank that waits for nobody else, under the plan's rules of streams and with
// what the framework makes kernels take. Data-parallel collectives are left out.
class PassWalk {
 public:
  PassWalk(const Plan& plan, Durations& durations, std::int32_t pipeline_rank)
      : plan_(plan), durations_(durations), rank_(pipeline_rank), streams_(plan.streams.size(), 0) {}

  // The instructions of the steps that follow.
  void begin_pass(const std::vector<Instruction>& pass) {
    written_.clear();
    const FrameworkKernels& framework = plan_.framework.kernels;
    const bool is_stretched = framework.compute_slowdown > 1 || framework.host_dispatch_s > 0 ||
                              framework.copies_gathered_shards || plan_.framework.memory.fsdp == 2;
    stretch_ = is_stretched ? compute_stretch(durations_, rank_, pass) : 1;
  }
  void step(const Instruction& instruction) {
    if (plan_.streams[instruction.stream].traffic == Traffic::data) return;
    // What other streams do waits for all compute issued before it.
    Picoseconds start = std::max(streams_[instruction.stream], streams_[compute_stream]);
    for (const auto* needed : {&instruction.inputs, &instruction.waits_for})
      for (const Index buffer : *needed)
        if (const auto at = written_.find({instruction.binding, buffer}); at != written_.end())
          start = std::max(start, at->second);
    const Picoseconds end =
        start + (computes(instruction) ? stretched(durations_.of(rank_, instruction), stretch_)
                                       : durations_.of(rank_, instruction));
    if (instruction.opcode == Opcode::free) return;
    streams_[instruction.stream] = end;
    for (const Index buffer : instruction.outputs) written_[{instruction.binding, buffer}] = end;
  }
  // When compute is done with what was issued so far.
  Picoseconds computed() const { return streams_[compute_stream]; }

 private:
  static bool computes(const Instruction& instruction) {
    return instruction.stream == compute_stream && instruction.opcode != Opcode::free &&
           instruction.opcode != Opcode::init;
  }

  const Plan& plan_;
  Durations& durations_;
  std::int32_t rank_;
  std::vector<Picoseconds> streams_;
  double stretch_ = 1;
  std::map<std::pair<std::uint8_t, Index>, Picoseconds> written_;  // by binding and buffer, in this pass
};

}  // namespace simrun
