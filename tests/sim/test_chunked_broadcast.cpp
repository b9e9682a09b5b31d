#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <string>

#include "schedules/compile.h"
#include "sim/collective_cost.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

// What one rank sends to two that are on nodes of their own, as a whole and in chunks.
namespace simrun {
namespace {

Plan plan_of(const std::string& chunks) {
  return compile(
      job_from("simrun: 1\n"
               "model: {model_type: llama, num_hidden_layers: 2, hidden_size: 1024, num_attention_heads: 8, "
               "intermediate_size: 4096, vocab_size: 1024}\n"
               "training: {seq_length: 2048, micro_batch_size: 4, global_batch_size: 4, precision: bf16}\n"
               "parallelism: {pipeline_model_parallel_size: 2, stage_data_parallel_sizes: [1, 2], "
               "stage_broadcast_chunks: " +
               chunks +
               "}\n"
               "cluster: {gpu: h100_sxm, nodes: 3, gpus_per_node: 1, intra_node: {bandwidth: 100 GB/s, "
               "latency: 2 us}, "
               "inter_node: {bandwidth: 10 GB/s, latency: 5 us}}\n"));
}

Picoseconds time_of(const Plan& plan, std::int32_t rank, Opcode opcode) {
  for (const Entry& entry : plan.programs[static_cast<std::size_t>(rank)].entries)
    for (const Instruction& of : plan.segments[entry.segment].instructions)
      if (of.opcode == opcode) return communication_time(plan, rank, of);
  return 0;
}

// From the first transfer's start on the second stage to its first kernel.
Picoseconds until_compute(const Plan& plan) {
  const Timeline timeline = simulate(plan, {Detail::instructions});
  std::optional<Picoseconds> received, computes;
  for (const RankTimeline& rank : timeline.ranks) {
    if (rank.pipeline_rank != 1) continue;
    for (const Lane& lane : rank.lanes) {
      if (lane.intervals.empty()) continue;
      const Picoseconds first = lane.intervals.front().start;
      if (lane.stream == compute_stream) computes = std::min(computes.value_or(first), first);
      if (plan.streams[lane.stream].name == "pp_forward_in")
        received = std::min(received.value_or(first), first);
    }
  }
  return computes.value() - received.value();
}

}  // namespace

TEST_CASE("a chunk is broadcast while the next one crosses the border: both take little longer than one") {
  // 4 x 2,048 tokens, 1,024 wide, in bf16: 16.8 MB over 10 GB/s are 1.68 ms over the border and as much again
  // from rank to rank.
  const Plan whole = plan_of("1");
  CHECK(time_of(whole, 1, Opcode::recv) == Approx(1.68e9).epsilon(0.02));
  CHECK(until_compute(whole) == time_of(whole, 1, Opcode::recv) + time_of(whole, 1, Opcode::broadcast));
  for (const int chunks : {2, 4, 8}) {
    const Plan plan = plan_of(std::to_string(chunks));
    const Picoseconds transfer = time_of(plan, 1, Opcode::recv),
                      broadcast = time_of(plan, 1, Opcode::broadcast);
    CHECK(until_compute(plan) == transfer + broadcast + (chunks - 1) * std::max(transfer, broadcast));
    CHECK(static_cast<double>(until_compute(plan)) <
          static_cast<double>(until_compute(whole)) * (0.53 + 0.5 / chunks));
    CHECK(simulate(plan).ranks.front().peak.bytes == simulate(whole).ranks.front().peak.bytes);
  }
}

}  // namespace simrun
