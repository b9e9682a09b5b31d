#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>

#include "planner/galvatron_outcome.h"
#include "planner/layerwise_search.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

JobLoader loader_for(const std::string& yaml) {
  return [yaml](const std::vector<Override>& overrides) { return job_from(yaml, overrides); };
}

// 16 heads; sequences of 1,024 tokens.
std::string gpt_on(const std::string& cluster, int layers, int hidden, int batch) {
  return "simrun: 1\nmodel: {model_type: gpt, num_layers: " + std::to_string(layers) +
         ", hidden_size: " + std::to_string(hidden) +
         ", num_attention_heads: 16, vocab_size: 51200, max_position_embeddings: 1024, attention_dropout: 0, "
         "hidden_dropout: 0}\n"
         "training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: " +
         std::to_string(batch) + ", precision: bf16}\ncluster: " + cluster + "\n";
}

constexpr const char* eight_a100 = "{from: dgx_a100, nodes: 1}";

// All layers alike: tensor and data parallel, ZeRO stage, recompute, sequences of a microbatch per rank.
std::vector<SimulatedPlan> plans_alike(const Job& job, const JobLoader& load) {
  std::vector<SimulatedPlan> plans;
  for (std::int64_t tensor = 1; tensor <= job.cluster.gpus_per_node; tensor *= 2)
    for (const char* zero_stage : {"1", "2", "3"})
      for (const char* recompute : {"none", "full"})
        for (std::int64_t sequences = 1; sequences <= job.training.global_batch_size; sequences *= 2) {
          const std::int64_t data = job.world_size() / tensor;
          if (job.training.global_batch_size % (data * sequences) != 0) continue;
          const std::string t = std::to_string(tensor), s = std::to_string(sequences);
          plans.push_back(simulate_plan(
              "tensor " + t + " ZeRO-" + zero_stage + " recompute " + recompute + ", " + s,
              {{"parallelism.tensor_model_parallel_size", t},
               {"parallelism.sequence_parallel", tensor > 1 ? "true" : "false"},
               {"optimizer.zero_stage", zero_stage},
               {"optimizer.overlap_grad_reduce", "true"},
               {"optimizer.overlap_param_gather", "true"},
               {"recompute.granularity", recompute},
               {"training.micro_batch_size", s}},
              load));
        }
  return plans;
}

const SimulatedPlan* best_within(const std::vector<SimulatedPlan>& plans, std::int64_t memory) {
  const SimulatedPlan* best = nullptr;
  for (const SimulatedPlan& plan : plans)
    if (plan.refusal.empty() && plan.peak_bytes <= memory && (best == nullptr || plan.step_s < best->step_s))
      best = &plan;
  return best;
}

}  // namespace

TEST_CASE("experiment", "[.]") {
  for (const char* cluster : {"{from: dgx_a100, nodes: 1}", "{from: aws_p3_16xlarge, nodes: 2}"})
    for (const int hidden : {1024, 2048}) {
      std::string yaml = gpt_on(cluster, 8, hidden, 64);
      if (cluster[7] == 'a') yaml.replace(yaml.find("bf16"), 4, "fp16");
      const JobLoader load = loader_for(yaml);
      const Job job = load({});
      const auto alike = plans_alike(job, load);
      for (const std::int64_t gib : {1, 2, 3, 4, 6, 8, 14}) {
        const std::int64_t memory = gib << 30;
        const GalvatronOutcome outcome = plan_by_galvatron(load, {.max_memory = memory});
        const SimulatedPlan* best = best_within(alike, memory);
        std::printf("%s %d %ld GiB: ", cluster, hidden, gib);
        if (best) std::printf("alike %s %.6f %.2f | ", best->name.c_str(), best->step_s, double(best->peak_bytes) / 0x1p30);
        if (outcome.best) {
          const auto& found = outcome.plans[*outcome.best];
          std::printf("found %s %.6f (est %.6f) %.2f (est %.2f) of %zu %s", found.simulated.name.c_str(), found.simulated.step_s,
                      found.plan.estimate_s, double(found.simulated.peak_bytes) / 0x1p30, found.plan.bytes / 0x1p30, outcome.plans.size(),
                      !best || found.simulated.step_s <= best->step_s ? "" : "WORSE");
        }
        std::printf("\n");
      }
    }
}

TEST_CASE("timing", "[.]") {
  const std::string yaml = gpt_on("{from: dgx_a100, nodes: 8}", 48, 4096, 512);
  const JobLoader load = loader_for(yaml);
  for (const std::int64_t gib : {60, 24, 14}) {
    const auto t0 = std::chrono::steady_clock::now();
    const Job job = load({});
    LayerPrices prices(job);
    const GalvatronOptions options{.max_memory = gib << 30};
    const auto proposals = galvatron_plans(job, prices, options);
    const auto t1 = std::chrono::steady_clock::now();
    const GalvatronOutcome outcome = plan_by_galvatron(load, options);
    const auto t2 = std::chrono::steady_clock::now();
    std::printf("%ld GiB: search %.2f s (%ld probes, %ld points, %ld feasible), with simulation %.2f s, %zu plans\n", gib,
                std::chrono::duration<double>(t1 - t0).count(), prices.probes(), proposals.points, proposals.feasible,
                std::chrono::duration<double>(t2 - t1).count(), outcome.plans.size());
    std::printf("%s\n", galvatron_text(outcome).c_str());
  }
}

TEST_CASE("published", "[.]") {
  struct Row { const char* name; int layers, hidden, heads, seq, batch; const char* zero; };
  for (const Row& row : {Row{"1.5B", 48, 1600, 25, 1024, 144, "2"}, Row{"2.7B", 32, 2560, 32, 2048, 64, "2"}, Row{"6.7B", 32, 4096, 32, 2048, 48, "3"}}) {
    const std::string yaml = "simrun: 1\nmodel: {model_type: gpt, num_layers: " + std::to_string(row.layers) + ", hidden_size: " + std::to_string(row.hidden) +
       ", num_attention_heads: " + std::to_string(row.heads) + ", vocab_size: 50257, max_position_embeddings: " + std::to_string(row.seq) + ", attention_dropout: 0, hidden_dropout: 0}\n"
       "training: {seq_length: " + std::to_string(row.seq) + ", micro_batch_size: " + std::to_string(row.batch / 16) + ", global_batch_size: " + std::to_string(row.batch) + ", precision: bf16}\n"
       "optimizer: {zero_stage: " + row.zero + ", overlap_param_gather: true}\ncluster: {from: aws_p4d_24xlarge, nodes: 2}\n";
    const JobLoader load = loader_for(yaml);
    for (const char* recompute : {"none", "full"}) {
      const SimulatedPlan theirs = simulate_plan("theirs", {{"recompute.granularity", recompute}}, load);
      std::printf("%s theirs %s: %.4f s %.2f GiB fits %d\n", row.name, recompute, theirs.step_s, double(theirs.peak_bytes) / 0x1p30, theirs.fits);
    }
    const GalvatronOutcome outcome = plan_by_galvatron(load, {});
    std::printf("%s\n", galvatron_text(outcome).c_str());
  }
}

}  // namespace simrun
