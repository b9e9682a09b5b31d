#include <fmt/format.h>

#include <array>
#include <catch2/catch.hpp>

#include "configs/node_groups.h"
#include "schedules/compile.h"
#include "schedules/lint.h"
#include "schedules/plan_file.h"
#include "schedules/summary.h"
#include "sim/simulate.h"
#include "sim/topology.h"
#include "tests/jobs.h"

// Clusters with several kinds of GPU: every GPU has its own times, memory and peak.
namespace simrun {
namespace {

// A GPT of 4 layers on nodes of one GPU each, so that every pair of GPUs is equally far apart.
std::string gpt_on(const std::string& cluster, const std::string& parallelism = "{}") {
  return "simrun: 1\n"
         "model: {model_type: gpt, num_layers: 4, hidden_size: 1024, num_attention_heads: 16, vocab_size: "
         "51200, max_position_embeddings: 512}\n"
         "training: {seq_length: 512, micro_batch_size: 2, global_batch_size: 16, precision: fp16}\n"
         "parallelism: " +
         parallelism + "\ncluster: {gpus_per_node: 1, inter_node: {bandwidth: 50 Gb/s, latency: 5 us}, " +
         cluster + "}\n";
}
const std::string fast_and_slow =
    "node_groups: {fast: {nodes: 1, gpu: v100_sxm2_32gb}, slow: {nodes: 1, gpu: p100_sxm2}}";

Timeline timeline_of(const std::string& yaml, const std::vector<Override>& overrides = {}) {
  return simulate(compile(job_from(yaml, overrides)));
}

}  // namespace

TEST_CASE("groups of equal nodes are the cluster without groups: the very same timeline") {
  const std::vector<Override> groups = {{"cluster", "{from: dgx_a100}"},
                                        {"cluster.node_groups", "{a: {nodes: 1}, b: {nodes: 1}}"}};
  for (const int tp : {1, 4})
    for (const int pp : {1, 2}) {
      CAPTURE(tp, pp);
      const Plan whole = compile(job_from(small_gpt(4, tp, pp, 2)));
      const Plan grouped = compile(job_from(small_gpt(4, tp, pp, 2), groups));
      REQUIRE(grouped.cluster.node_groups.size() == 2);
      const SimulateOptions alone{Detail::instructions, EngineChoice::fast};
      CHECK((simulate(whole, alone) == simulate(grouped, alone)));
      const SimulateOptions flows{Detail::instructions, EngineChoice::simgrid};
      CHECK((simulate(whole, flows) == simulate(grouped, flows)));
    }
}

TEST_CASE("which kind of GPU is listed first changes neither the step nor what shared links may cost") {
  const auto timeline = [](const char* first, const char* second, const char* sequence) {
    return simulate(
        compile(job_from(fmt::format(
            "simrun: 1\n"
            "model: {{model_type: llama, num_hidden_layers: 8, hidden_size: 1024, intermediate_size: 2048, "
            "num_attention_heads: 8, vocab_size: 8192}}\n"
            "training: {{seq_length: {}, micro_batch_size: 1, global_batch_size: 8, precision: fp16}}\n"
            "parallelism: {{context_parallel_size: 2}}\noptimizer: {{zero_stage: 3}}\n"
            "cluster: {{gpus_per_node: 4, nics_per_node: 4, node_groups: {{a: {{nodes: 1, gpu: {}}}, b: "
            "{{nodes: "
            "1, gpu: {}}}}}, intra_node: {{bandwidth: 200 GB/s, latency: 2 us}}, inter_node: {{bandwidth: 25 "
            "GB/s, latency: 5 us}}}}\n",
            sequence, first, second))),
        {.engine = EngineChoice::fast});
  };
  for (const char* sequence : {"1024", "2048"}) {
    CAPTURE(sequence);
    const Timeline one = timeline("a100_sxm_80gb", "v100_sxm2_32gb", sequence);
    const Timeline other = timeline("v100_sxm2_32gb", "a100_sxm_80gb", sequence);
    CHECK(one.step == other.step);
    CHECK(one.contention_bound == Approx(other.contention_bound));
    CHECK(one.contention_bound > 0.02);
  }
}

TEST_CASE("data parallel over a fast and a slow GPU takes as long as over two slow ones") {
  for (const char* more : {"0", "1"}) {
    const std::vector<Override> zero = {{"optimizer.zero_stage", more}};
    const Timeline slow = timeline_of(gpt_on("nodes: 2, gpu: p100_sxm2"), zero);
    const Timeline fast = timeline_of(gpt_on("nodes: 2, gpu: v100_sxm2_32gb"), zero);
    const Timeline mixed = timeline_of(gpt_on(fast_and_slow), zero);
    CHECK(mixed.step == slow.step);
    CHECK(mixed.step > fast.step);
    REQUIRE(mixed.ranks.size() == 2);
    CHECK(mixed.ranks[0].totals.compute == fast.ranks[0].totals.compute);
    CHECK(mixed.ranks[1].totals.compute == slow.ranks[0].totals.compute);
  }
}

TEST_CASE("of a pipeline over two kinds each stage computes at the rate of its own") {
  const std::string two = "{pipeline_model_parallel_size: 2}";
  const Timeline fast = timeline_of(gpt_on("nodes: 2, gpu: v100_sxm2_32gb", two));
  const Timeline slow = timeline_of(gpt_on("nodes: 2, gpu: p100_sxm2", two));
  const Timeline mixed = timeline_of(gpt_on(fast_and_slow, two));
  CHECK(mixed.ranks[0].totals.compute == fast.ranks[0].totals.compute);
  CHECK(mixed.ranks[1].totals.compute == slow.ranks[1].totals.compute);
  CHECK(mixed.step < slow.step);
}

// The V100's efficiencies are of training steps, the P100's of nothing.
TEST_CASE("a framework slows the P100 of two kinds and not the V100, whichever comes first") {
  for (const bool fast_first : {true, false}) {
    CAPTURE(fast_first);
    const std::string groups =
        fast_first ? fast_and_slow
                   : "node_groups: {slow: {nodes: 1, gpu: p100_sxm2}, fast: {nodes: 1, gpu: v100_sxm2_32gb}}";
    const auto computed = [&](const char* parallelism, const char* slowdown) {
      const Timeline timeline =
          timeline_of(gpt_on(groups, parallelism), {{"framework.kernels.compute_slowdown", slowdown}});
      const std::size_t fast = fast_first ? 0 : 1;
      return std::array{static_cast<double>(timeline.ranks.at(fast).totals.compute),
                        static_cast<double>(timeline.ranks.at(1 - fast).totals.compute)};
    };
    for (const char* parallelism : {"{}", "{pipeline_model_parallel_size: 2}"}) {
      const auto [v100, p100] = computed(parallelism, "1");
      const auto [slowed_v100, slowed_p100] = computed(parallelism, "1.25");
      CHECK(slowed_v100 == v100);
      CHECK(slowed_p100 == Approx(1.25 * p100).epsilon(1e-6));
    }
  }
}

TEST_CASE("both engines agree about a cluster of two kinds where no link is shared") {
  const Plan plan = compile(job_from(gpt_on(fast_and_slow)));
  const Picoseconds fast = simulate(plan, {Detail::totals, EngineChoice::fast}).step;
  const Picoseconds flows = simulate(plan, {Detail::totals, EngineChoice::simgrid}).step;
  CHECK(static_cast<double>(flows) == Approx(static_cast<double>(fast)).epsilon(1e-3));
}

TEST_CASE("utilisation is of the sum of peaks: 125 + 21.2 TFLOP/s of a V100 and a P100 in fp16") {
  const Plan plan = compile(job_from(gpt_on(fast_and_slow)));
  const Summary summary = summarize(plan, simulate(plan));
  CHECK(summary.mfu ==
        Approx(summary.model_flops_per_step / (summary.step_time_s * 146.2e12)).epsilon(1e-12));
}

TEST_CASE("a plan fits if it fits every kind, each less the reserve; the tightest is named") {
  // 4 layers of 4096: 12 x 4096^2 x 4 = 805 M parameters and 210 M of the embedding. At 18 bytes each 17 GiB.
  const std::vector<Override> larger = {{"model.hidden_size", "4096"}};
  const Plan plan = compile(job_from(gpt_on(fast_and_slow), larger));
  const Summary summary = summarize(plan, simulate(plan));
  CHECK_FALSE(summary.fits);
  CHECK(summary.peak_gpu == "p100_sxm2");
  CHECK(summary.memory_limit_bytes == (std::int64_t{14} << 30));
  const Plan roomy = compile(job_from(gpt_on("nodes: 2, gpu: v100_sxm2_32gb"), larger));
  CHECK(summarize(roomy, simulate(roomy)).fits);
  CHECK(summarize(roomy, simulate(roomy)).peak_memory_bytes == summary.peak_memory_bytes);
}

TEST_CASE("a Plan file keeps node groups, unlike batches, and the same timeline") {
  const Plan plan =
      compile(job_from(gpt_on(fast_and_slow), {{"training.replica_micro_batch_sizes", "[3, 1]"}}));
  const std::string bytes = serialize(plan);
  CHECK(bytes[8] == 9);  // readers of version 8 know of neither
  const Plan read = parse_plan(bytes, "mixed.plan");
  CHECK(read == plan);
  CHECK((simulate(read) == simulate(plan)));
}

TEST_CASE("three of four sequences on the fast GPU: both compute nearly as long, and the step is shorter") {
  // Products in fp32: 15.7 / 10.6 TFLOP/s = 1.48; 5 of 8 sequences on the faster are 1.67 times those of the
  // other.
  const std::vector<Override> full = {{"training.precision", "fp32"}, {"training.micro_batch_size", "4"}};
  std::vector<Override> uneven = full;
  uneven.push_back({"training.replica_micro_batch_sizes", "[5, 3]"});
  const Plan plan = compile(job_from(gpt_on(fast_and_slow), uneven));
  REQUIRE(lint(plan) == std::vector<std::string>{});
  const Timeline even = timeline_of(gpt_on(fast_and_slow), full), shifted = simulate(plan);
  CHECK(shifted.step < even.step);
  const auto compute = [](const Timeline& of, std::size_t rank) {
    return static_cast<double>(of.ranks[rank].totals.compute);
  };
  CHECK(compute(shifted, 0) / compute(shifted, 1) == Approx(5 / 3.0 / 1.48).epsilon(0.1));
  CHECK(shifted.ranks[0].peak.bytes > even.ranks[0].peak.bytes);
  CHECK(shifted.ranks[1].peak.bytes < even.ranks[1].peak.bytes);
}

TEST_CASE("unlike batches change no FLOP: a job's sum is that of equal ones") {
  const Plan even = compile(job_from(gpt_on(fast_and_slow)));
  const Plan uneven =
      compile(job_from(gpt_on(fast_and_slow), {{"training.replica_micro_batch_sizes", "[3, 1]"}}));
  CHECK(uneven.job.model_flops_per_step == even.job.model_flops_per_step);
  CHECK(uneven.job.hardware_flops_per_step == Approx(even.job.hardware_flops_per_step).epsilon(1e-12));
  CHECK(uneven.job.tokens_per_step == even.job.tokens_per_step);
}

TEST_CASE("links inside a node are those of its group") {
  const Job job = job_from(
      "simrun: 1\n"
      "model: {model_type: gpt, num_layers: 4, hidden_size: 256, num_attention_heads: 4, "
      "vocab_size: 1024}\n"
      "training: {seq_length: 128, micro_batch_size: 1, global_batch_size: 16, precision: "
      "fp16}\n"
      "cluster: {from: whale_v100_p100}\n");
  const Topology topology(job.cluster);
  // NVLinks of 150 and 80 GB/s at 0.8.
  CHECK(topology.bandwidth(topology.route(0, 1).link.front()) == Approx(120e9));
  CHECK(topology.bandwidth(topology.route(8, 9).link.front()) == Approx(64e9));
  CHECK(gpu_at(job.cluster, 7).name == "v100_sxm2_32gb");
  CHECK(gpu_at(job.cluster, 8).name == "p100_sxm2");
  CHECK(gpus_text(job.cluster) == "8 v100_sxm2_32gb + 8 p100_sxm2");
}

}  // namespace simrun
