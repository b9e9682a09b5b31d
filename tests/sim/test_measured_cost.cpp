#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "schedules/plan_file.h"
#include "sim/collective_cost.h"
#include "sim/core_replay.h"
#include "sim/measured_cost.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

// Prices from measured rates, devices that wait for their communication, and replays of measured times.
namespace simrun {
namespace {

Job job_on(const std::string& parallelism, const std::string& cluster, int gpus) {
  return job_from(
      "simrun: 1\nmodel: {model_type: gpt, num_layers: 4, hidden_size: 64, num_attention_heads: 4, "
      "vocab_size: 128, max_position_embeddings: 64, hidden_dropout: 0, attention_dropout: 0}\n"
      "training: {seq_length: 64, micro_batch_size: 1, global_batch_size: 4, precision: fp32}\n"
      "parallelism: " +
      parallelism + "\ncluster: {from: dgx_a100, nodes: 1, gpus_per_node: " + std::to_string(gpus) + cluster +
      "}\n");
}

GemmShape shape(std::int64_t m, std::int64_t n, std::int64_t k) { return {.m = m, .n = n, .k = k}; }

double wait_of(const Timeline& timeline) {
  Picoseconds bubble = 0;
  for (const RankTimeline& rank : timeline.ranks) bubble += rank.totals.bubble_total();
  return static_cast<double>(bubble);
}

// Costs of every instruction as the simulator has them, times `factor`; communication included.
InstructionCosts costs_of(const Plan& plan, const Timeline& timeline, std::int64_t factor) {
  InstructionCosts costs;
  for (const RankTimeline& rank : timeline.ranks) {
    const Program& program = plan.programs[static_cast<std::size_t>(rank.pipeline_rank)];
    for (const Lane& lane : rank.lanes)
      for (const Interval& interval : lane.intervals)
        costs.add({rank.pipeline_rank, program.entries[interval.entry].segment, interval.instruction},
                  interval.duration * factor);
  }
  return costs;
}

}  // namespace

TEST_CASE("a product's rate lies between those of its neighbours, along logarithms, and stays beyond them") {
  MeasuredKernels measured;
  for (const std::int64_t m : {16, 64})
    for (const std::int64_t n : {16, 64})
      measured.products.push_back({m, n, 8, m == 16 ? 1e9 : 4e9});  // n makes no difference
  CHECK(measured_product_rate(measured, shape(16, 16, 8)) == Approx(1e9));
  CHECK(measured_product_rate(measured, shape(32, 16, 8)) == Approx(2e9));  // half way: sqrt(1 x 4)
  CHECK(measured_product_rate(measured, shape(32, 40, 100)) == Approx(2e9));
  CHECK(measured_product_rate(measured, shape(1, 1, 1)) == Approx(1e9));
  CHECK(measured_product_rate(measured, shape(4096, 16, 8)) == Approx(4e9));
  measured.products.pop_back();  // (64, 64): its nearest is a neighbour
  CHECK(measured_product_rate(measured, shape(64, 64, 8)) > 0);
}

TEST_CASE("an exchange between two measured numbers of ranks is between them; beyond, latency grows") {
  const MeasuredExchanges measured{{"all_reduce", {{2, 10e-6, 2e9}, {4, 30e-6, 1e9}}}};
  CHECK(measured_exchange(measured, Opcode::all_reduce, 2) == MeasuredExchange{2, 10e-6, 2e9});
  const MeasuredExchange three = *measured_exchange(measured, Opcode::all_reduce, 3);
  CHECK(three.latency_s == Approx(20e-6));
  CHECK(three.bandwidth == Approx(1e9 / 0.75));  // (0.5 + 1) / 2 ns per byte
  CHECK(measured_exchange(measured, Opcode::all_reduce, 8)->latency_s == Approx(60e-6));
  CHECK_FALSE(measured_exchange(measured, Opcode::all_gather, 2));
}

TEST_CASE("kernels and exchanges take what was measured, the others what the model of kernels says") {
  const std::string profile =
      ", measured: {all_reduce: {2: {latency: 1 ms, bandwidth: 1 GB/s}}}"
      ", gpu: {from: a100_sxm_80gb, kernel_launch: 0 us, measured: {products: {1x1x1: 1 GFLOP/s}, "
      "kernels: {map_gelu: 1 MB/s}}}";
  const Plan plan = compile(job_on("{tensor_model_parallel_size: 2}", profile, 2));
  int gemms = 0, gelus = 0, reduces = 0;
  for (const Segment& segment : plan.segments)
    for (const Instruction& what : segment.instructions) {
      if (what.opcode == Opcode::gemm) {
        ++gemms;
        CHECK(kernel_time(plan, what) == to_picoseconds(kernel_work(plan, what).flops / 1e9));
      } else if (what.opcode == Opcode::map && what.function == Function::gelu) {
        ++gelus;
        CHECK(kernel_time(plan, what) == to_picoseconds(kernel_work(plan, what).bytes / 1e6));
      } else if (what.opcode == Opcode::all_reduce) {
        ++reduces;
        CHECK(communication_time(plan, 0, what) ==
              to_picoseconds(1e-3 + communicated_bytes(plan, what) / 1e9));
      }
    }
  CHECK(gemms > 0);
  CHECK(gelus > 0);
  CHECK(reduces > 0);
  const Plan again = parse_plan(serialize(plan), "plan");
  CHECK(again.cluster == plan.cluster);
}

TEST_CASE("a device that waits for its communication hides none of it, and is no faster") {
  const std::string parallelism =
      GENERATE("{tensor_model_parallel_size: 2}", "{pipeline_model_parallel_size: 2}", "{}",
               "{tensor_model_parallel_size: 2, sequence_parallel: true, pipeline_model_parallel_size: 2, "
               "pipeline_schedule: zb_h1}");
  CAPTURE(parallelism);
  const int gpus = parallelism.find("zb") != std::string::npos ? 4 : 2;
  const Plan overlapped = compile(job_on(parallelism, "", gpus));
  Plan blocking = overlapped;
  blocking.cluster.communication = CommunicationMode::blocking;
  const Timeline before = simulate(overlapped), after = simulate(blocking);
  CHECK(after.step >= before.step);
  for (const RankTimeline& rank : after.ranks)
    for (const Traffic traffic : {Traffic::tensor, Traffic::data})
      CHECK(rank.totals.hidden[static_cast<std::size_t>(traffic)] == 0);
}

TEST_CASE("a replay with the simulator's own times is the simulation; with twice of all, twice the step") {
  const Plan plan =
      compile(job_on(GENERATE("{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}",
                              "{pipeline_model_parallel_size: 4}", "{}"),
                     "", 4));
  const Timeline own = simulate(plan, {.detail = Detail::instructions});
  const InstructionCosts once = costs_of(plan, own, 1), twice = costs_of(plan, own, 2);
  CHECK(simulate(plan, {.measured = &once}).step == own.step);
  CHECK(simulate(plan, {.measured = &twice}).step == 2 * own.step);
}

TEST_CASE("on one core a replay is the sum of all ranks' work; on more no longer, and not below its share") {
  const std::string parallelism = GENERATE("{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}",
                                           "{pipeline_model_parallel_size: 4}", "{}",
                                           "{tensor_model_parallel_size: 4, sequence_parallel: true}");
  const Plan plan = compile(job_on(parallelism, "", 4));
  const InstructionCosts costs = costs_of(plan, simulate(plan, {.detail = Detail::instructions}), 1);
  Picoseconds sum = 0, longest = 0;
  for (const Program& program : plan.programs) {
    Picoseconds own = 0;
    for (const Entry& entry : program.entries)
      for (Index i = 0; i < plan.segments[entry.segment].instructions.size(); ++i)
        own += costs.of({program.pipeline_rank, entry.segment, i}).value_or(0);
    sum += own * plan.stages[static_cast<std::size_t>(program.pipeline_rank)].devices.front().count;
    longest = std::max(longest, own);
  }
  CHECK(replay_on_cores(plan, costs, 1) == sum);
  const Picoseconds two = replay_on_cores(plan, costs, 2), four = replay_on_cores(plan, costs, 4);
  CHECK(two <= sum);
  CHECK(two >= sum / 2);
  CHECK(four <= sum);
  CHECK(four >= longest);
}

TEST_CASE("without parallelism a replay on cores is the blocking simulation") {
  Plan plan = compile(job_on("{}", "", 1));
  plan.cluster.communication = CommunicationMode::blocking;
  const Timeline own = simulate(plan, {.detail = Detail::instructions});
  CHECK(replay_on_cores(plan, costs_of(plan, own, 1), 1) == own.step);
  CHECK(wait_of(own) == 0);
}

}  // namespace simrun
