#pragma once

#include "configs/job.h"
#include "models/graph.h"
#include "schedules/plan.h"

namespace simrun {

// Streams of every plan, by index.
enum StreamIndex : std::uint8_t {
  compute,
  tp,
  cp,
  dp,
  forward_in,
  forward_out,
  backward_in,
  backward_out,
  lent_in,  // from here on only where ranks lend each other memory (bpipe)
  lent_out
};

// What of a plan follows from its job alone, before any stage is compiled.
std::vector<Stream> make_streams(bool lends_memory);
// Megatron-LM's default rank order: tp fastest, then cp, dp, pp.
std::vector<StageDevices> make_stages(const Parallelism& parallelism);
JobFacts make_facts(const Job& job, const Graph& graph);

}  // namespace simrun
