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
  common  // number of these; others follow where a job needs them
};

// What of a plan follows from its job alone, before any stage is compiled.
std::vector<Stream> make_streams(const Job& job);
// Number of a stream of make_streams. REQUIRES: the job has it.
std::uint8_t stream_named(const std::vector<Stream>& streams, const std::string& name);
// Of what expert-parallel ranks exchange; the data-parallel stream where there are none.
std::uint8_t expert_stream(const Job& job);
// Of the largest values that fp8's delayed scaling looks for on all ranks; likewise.
std::uint8_t scale_stream(const Job& job);
// Megatron-LM's default rank order: tp fastest, then cp, dp, pp.
std::vector<StageDevices> make_stages(const Job& job);
// Whether ranks hold activations for one another (bpipe).
bool lends_memory(const Job& job);
JobFacts make_facts(const Job& job, const Graph& graph);

}  // namespace simrun
