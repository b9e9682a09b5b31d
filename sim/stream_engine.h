#pragma once

#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "sim/compiled_program.h"
#include "sim/meetings.h"
#include "sim/memory.h"

namespace simrun {

class KernelSlowdowns;
class Network;

// One execution of an exchange on the network, without the waiting.
struct Flight {
  Index exchange = 0;  // into CompiledPlan::exchanges
  Picoseconds start = 0, end = 0;
};

// What one run of a compiled plan gives.
struct EngineRun {
  Picoseconds step = 0;
  std::int64_t instructions = 0;
  std::int64_t communications = 0;
  std::vector<RankTimeline>
      ranks;  // the recorded GPUs first, without peaks and memory events; see Timeline::ranks
  std::vector<std::vector<IssueTimes>>
      issue_times;              // by program and entry of the plan; from Detail::passes on
  std::vector<Flight> flights;  // of watched exchanges, by the first GPU of each pipeline rank
  // Likewise, by the first of each of up to seven further classes of GPUs: of another kind, with other work,
  // or slower.
  std::vector<std::vector<Flight>> flights_of_others;
};

struct EngineInput {
  const Plan& plan;
  const CompiledPlan& compiled;
  const Meetings& meetings;
  Detail detail = Detail::totals;
  const std::vector<bool>& watched;  // exchanges whose flights are wanted; empty: none
  Network* network = nullptr;        // none: every exchange takes its fixed duration
  // Where GPUs compute at unequal speeds: `meetings` are then of every GPU.
  const KernelSlowdowns* slowdowns = nullptr;
};

// Runs every simulated GPU's streams. A GPU consumes its compute instructions without any event until one
// needs data that another stream has yet to deliver; other streams' instructions queue behind their inputs
// and their stream. Times do not depend on the order in which GPUs are served.
EngineRun run_streams(const EngineInput& input);

}  // namespace simrun
