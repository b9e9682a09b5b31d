#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "schedules/summary.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

TEST_CASE("layers of multi-token prediction are shown beside a rank's others, on the rank of the loss") {
  const Job job = job_from(
      "simrun: 1\nmodel: {from: models/deepseek-v3.yaml, num_hidden_layers: 4, hidden_size: 512, "
      "num_nextn_predict_layers: 1, n_routed_experts: 8, n_group: 1, topk_group: 1}\n"
      "training: {seq_length: 256, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
      "parallelism: {pipeline_model_parallel_size: 2}\n"
      "cluster: {from: dgx_h100, nodes: 1, gpus_per_node: 2}\n");
  const Plan plan = compile(job);
  const Summary summary = summarize(plan, simulate(plan));
  REQUIRE(summary.stages.size() == 2);
  for (const StageSummary& stage : summary.stages) CHECK(stage.layers == 2);
  CHECK(summary.stages[0].mtp_layers == 0);
  CHECK(summary.stages[1].mtp_layers == 1);
  CHECK(plan.chunks.back().mtp_layers == 1);
}

TEST_CASE("throughput of a model that reads images counts those") {
  const auto counts_images = [](const std::string& model, const std::string& sequence) {
    const Plan plan = compile(job_from("simrun: 1\nmodel: {from: " + model + "}\ntraining: {" + sequence +
                                       "micro_batch_size: 1, global_batch_size: 4, precision: bf16}\n"
                                       "cluster: {from: dgx_h100, nodes: 1, gpus_per_node: 2}\n"));
    return summarize(plan, simulate(plan)).counts_images;
  };
  CHECK(counts_images("resnet-50", ""));
  CHECK(counts_images("vit-base-16", ""));
  CHECK_FALSE(counts_images("gpt2", "seq_length: 512, "));
}

}  // namespace
}  // namespace simrun
