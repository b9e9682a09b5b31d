#include "planner/starting_split.h"

#include <catch2/catch.hpp>
#include <string>

#include "configs/diagnostics.h"

namespace simrun {
namespace {

Job started(const std::string& job, WrittenSizes written = WrittenSizes::give_way) {
  LoadOptions load;
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  return load_job_text(job, "test.yaml", with_starting_split(job, "test.yaml", load, written)).job;
}

std::string small_job(int layers, const std::string& training, const std::string& rest) {
  return "simrun: 1\n"
         "model: {model_type: gpt, hidden_size: 256, num_attention_heads: 4, vocab_size: 4096, num_layers: " +
         std::to_string(layers) + "}\ntraining: {seq_length: 128, precision: bf16, " + training + "}\n" +
         rest;
}

}  // namespace

// Of 6 GPUs no power of two splits a batch of 4 sequences.
TEST_CASE("a batch smaller than the GPUs starts from a split that is no power of two") {
  CHECK_NOTHROW(
      started(small_job(6, "global_batch_size: 4",
                        "cluster: {from: dgx_a100, nodes: 1, gpus_per_node: 6, nics_per_node: 2}\n")));
}

// As many layers as GPUs: one layer each, or as many parts as fit the batch.
TEST_CASE("a search begins from any divisor of the GPUs, however odd") {
  for (const int gpus : {9, 17, 25}) {
    CAPTURE(gpus);
    CHECK_NOTHROW(started(small_job(
        gpus, "global_batch_size: 8",
        "cluster: {nodes: " + std::to_string(gpus) +
            ", gpus_per_node: 1, gpu: l40s, intra_node: {bandwidth: 25 GB/s, latency: 5 us}, inter_node: "
            "{bandwidth: 100 Gb/s, latency: 10 us}}\n")));
  }
}

TEST_CASE("a search begins elsewhere where the written split does not divide; a limit does not give way") {
  const std::string job =
      small_job(6, "global_batch_size: 8, micro_batch_size: 3",
                "parallelism: {tensor_model_parallel_size: 16, pipeline_model_parallel_size: 4}\n"
                "cluster: {from: dgx_a100, nodes: 1}\n");
  CHECK_THROWS_AS(started(job, WrittenSizes::stay), ConfigError);
  CHECK(started(job).parallelism.tensor_model_parallel_size == 1);
}

// Gathers of parameters overlap where gradients' reductions do.
TEST_CASE("a job that writes only that gathers overlap starts with reductions that do") {
  CHECK(started(small_job(4, "global_batch_size: 8",
                          "optimizer: {overlap_param_gather: true}\ncluster: {from: dgx_a100, nodes: 1}\n"))
            .optimizer.overlap_grad_reduce);
}

}  // namespace simrun
