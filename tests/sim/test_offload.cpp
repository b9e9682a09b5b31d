#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "schedules/compile.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

// What offloading costs in time and saves in memory.
namespace simrun {
namespace {

using Overrides = std::vector<Override>;
constexpr auto offload = static_cast<std::size_t>(Traffic::offload);

Overrides operator+(Overrides a, const Overrides& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// One GPU in its node: 25.2 GB/s of PCIe (31.5 x 0.8), 204.8 GB/s of host memory (409.6 x 0.5), 56 and 30.4
// GB/s of NVMe. No norm, one bucket.
const Overrides alone = {{"cluster.gpus_per_node", "1"}, {"optimizer.clip_grad", "0"}};

RankTimeline run(const Overrides& overrides) {
  return simulate(compile(job_from(small_gpt(4, 1, 1, 1), alone + overrides))).ranks[0];
}

double parameters() {
  return static_cast<double>(compile(job_from(small_gpt(4, 1, 1, 1), alone)).job.parameters);
}

double seconds(Picoseconds time) { return static_cast<double>(time) * 1e-12; }

}  // namespace

TEST_CASE("an offloaded optimizer without overlap exposes its copies and the host's Adam") {
  const RankTimeline plain = run({});
  const RankTimeline cpu = run({{"offload.optimizer", "cpu"}});
  // Gradients 4 B out, weights 2 B back; Adam reads 4 + 12 and writes 2 + 12 bytes per parameter.
  const double expected = parameters() * ((4 + 2) / 25.2e9 + (16 + 14) / 204.8e9);
  CHECK(seconds(cpu.totals.exposed[offload]) == Approx(expected).epsilon(1e-6));
  CHECK(plain.totals.exposed[offload] == 0);
  // 12 bytes of state per parameter leave the GPU.
  CHECK(static_cast<double>(plain.peak.bytes - cpu.peak.bytes) == Approx(12 * parameters()).epsilon(1e-6));
  CHECK(static_cast<double>(cpu.host_bytes) == Approx(18 * parameters()).epsilon(1e-6));
}

TEST_CASE("with overlap_grad_reduce the gradients leave while the backward pass goes on") {
  const auto exposed = [](const char* overlap) {
    return run({{"offload.optimizer", "cpu"},
                {"optimizer.bucket_size", "1000000"},
                {"optimizer.overlap_grad_reduce", overlap}})
        .totals.exposed[offload];
  };
  CHECK(exposed("true") < exposed("false"));
}

TEST_CASE("the host works on a fraction of the state while the GPU works on the rest") {
  const auto exposed = [](const char* fraction) {
    return seconds(run({{"offload.optimizer", "cpu"}, {"offload.optimizer_fraction", fraction}})
                       .totals.exposed[offload]);
  };
  // The copies and the host's part halve; the GPU's own Adam hides some of it.
  CHECK(exposed("0.5") <= 0.5 * exposed("1.0") * 1.0001);
}

TEST_CASE("eight GPUs of a node share its memory bandwidth and its drives") {
  // 409.6 x 0.5 / 8 = 25.6 GB/s of host memory each; the drives give 7 and 3.8 GB/s.
  const Overrides eight = {{"optimizer.clip_grad", "0"}, {"offload.optimizer", "nvme"}};
  const Plan plan = compile(job_from(small_gpt(4, 1, 1, 1), eight));
  const double n = static_cast<double>(plan.job.parameters);
  const RankTimeline rank = simulate(plan).ranks[0];
  // One bucket: gradients out, beside them the state is read; Adam; the state is written, beside it weights
  // back.
  const double expected =
      n * (std::max(4 / 25.2e9, 12 / 7e9) + 30 / 25.6e9 + std::max(2 / 25.2e9, 12 / 3.8e9));
  // The state's read begins with the gradients' copy, behind the reduction.
  CHECK(seconds(rank.totals.exposed[offload]) == Approx(expected).epsilon(0.02));
  CHECK(static_cast<double>(rank.nvme_bytes) == Approx(12 * n).epsilon(1e-6));
}

TEST_CASE(
    "offloaded activations leave two layers of them on the GPU, and every step is still all accounted for") {
  // 512 tokens x 2 per microbatch of 8 layers, 4 GPUs in a pipeline: rank 0 holds 4 microbatches.
  const auto peak = [](const Overrides& overrides) {
    const Timeline timeline = simulate(compile(job_from(small_gpt(8, 1, 4, 1), overrides)));
    const RankTotals& totals = timeline.ranks[0].totals;
    CHECK(totals.compute + totals.exposed_total() + totals.bubble_total() == timeline.step);
    return timeline.ranks[0];
  };
  const RankTimeline kept = peak({}), offloaded = peak({{"offload.activations", "cpu"}});
  const auto activations = static_cast<std::size_t>(Category::activations);
  // Stage 0 has 2 of 8 layers: all 4 microbatches in flight but for what the running pass needs.
  CHECK(20 * offloaded.peak.live[activations] < 9 * kept.peak.live[activations]);
  CHECK(offloaded.host_bytes > 0);
  CHECK(offloaded.totals.exposed[offload] > 0);  // 25 GB/s cannot keep up with unfused attention's scores
}

TEST_CASE("copies of the first layers' activations have the time of all layers") {
  // Of 8 layers on one GPU, 2 leave: each copy may last as long as 4 layers run.
  const auto of_layers = [](const char* layers, const char* bandwidth) {
    const Plan plan =
        compile(job_from(small_gpt(8, 1, 1, 1), {{"offload", std::string("{activations: cpu") + layers + "}"},
                                                 {"cluster.gpus_per_node", "1"},
                                                 {"cluster.fabric.topology", "non_blocking"},
                                                 {"training.global_batch_size", "4"},
                                                 {"cluster.host.pcie_bandwidth", bandwidth}}));
    return simulate(plan).ranks[0];
  };
  const char* const fast = "100 GB/s";
  const RankTimeline all = of_layers("", fast), two = of_layers(", activation_layers: 2", fast);
  CHECK(all.totals.exposed[offload] > 0);
  CHECK(two.totals.exposed[offload] == 0);
  CHECK(two.host_bytes < all.host_bytes / 3);
  CHECK(two.peak.bytes > all.peak.bytes);
  // On a slower link they have to be waited for as well.
  CHECK(of_layers(", activation_layers: 2", "2 GB/s").totals.exposed[offload] > 0);
}

TEST_CASE("activations of all layers leave, however that is written, and the logits stay") {
  const auto on_host = [](const char* layers, const char* vocabulary) {
    return run({{"offload.activations", "cpu"},
                {"offload.activation_layers", layers},
                {"model.vocab_size", vocabulary}})
        .host_bytes;
  };
  for (const char* vocabulary : {"1024", "131072"}) {
    CHECK(on_host("null", vocabulary) == on_host("4", "1024"));
    CHECK(on_host("4", vocabulary) == on_host("4", "1024"));
  }
}

TEST_CASE("weights on the host make every gather wait for PCIe") {
  const Overrides zero3 = {{"optimizer.zero_stage", "3"}, {"offload.optimizer", "cpu"}};
  const auto step = [&](const Overrides& overrides) {
    return simulate(compile(job_from(small_gpt(4, 1, 1, 1), zero3 + overrides))).step;
  };
  CHECK(step({{"offload.parameters", "cpu"}}) > step({}));
  CHECK(step({{"offload.parameters", "nvme"}}) > step({{"offload.parameters", "cpu"}}));
}

TEST_CASE("every way to shard and offload simulates under every schedule, and each rank's step adds up") {
  const std::vector<std::pair<const char*, const char*>> schedules = {
      {"1f1b", "1"}, {"zb_h1", "1"}, {"interleaved_1f1b", "2"}, {"dualpipe_v", "2"}};
  const std::vector<Overrides> options = {
      {{"optimizer.zero_stage", "3"}, {"optimizer.reshard_after_forward", "false"}},
      {{"optimizer.zero_stage", "3"},
       {"optimizer.reshard_after_forward", "false"},
       {"optimizer.reshard_after_backward", "false"},
       {"optimizer.no_sync", "true"}},
      {{"optimizer.zero_stage", "2"}, {"optimizer.num_distributed_optimizer_instances", "2"}},
      {{"optimizer.zero_stage", "1"}, {"offload.optimizer", "nvme"}, {"offload.optimizer_fraction", "0.7"}},
      {{"optimizer.zero_stage", "3"},
       {"offload.optimizer", "cpu"},
       {"offload.parameters", "nvme"},
       {"offload.activations", "cpu"}},
      {{"optimizer.all_reduce", "hierarchical"}, {"offload.activations", "cpu"}}};
  for (const auto& [schedule, virtual_stages] : schedules)
    for (std::size_t o = 0; o < options.size(); ++o) {
      CAPTURE(schedule, o);
      const Timeline timeline = simulate(compile(job_from(
          small_gpt(8, 2, 2, 4),
          options[o] + Overrides{{"parallelism.pipeline_schedule", schedule},
                                 {"parallelism.virtual_pipeline_model_parallel_size", virtual_stages},
                                 {"training.global_batch_size", "128"},
                                 {"model.untie_embeddings_and_output_weights", "true"}})));
      for (const RankTimeline& rank : timeline.ranks)
        CHECK(rank.totals.compute + rank.totals.exposed_total() + rank.totals.bubble_total() ==
              timeline.step);
    }
}

}  // namespace simrun
