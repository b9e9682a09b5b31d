#include "planner/starting_split.h"

#include <catch2/catch.hpp>
#include <string>

#include "configs/diagnostics.h"

namespace simrun {

// Of 6 GPUs no power of two splits a batch of 4 sequences.
TEST_CASE("a batch smaller than the GPUs starts from a split that is no power of two") {
  const std::string job =
      "simrun: 1\n"
      "model: {model_type: gpt, num_layers: 6, hidden_size: 256, num_attention_heads: 4, vocab_size: 4096}\n"
      "training: {seq_length: 128, global_batch_size: 4, precision: bf16}\n"
      "cluster: {from: dgx_a100, nodes: 1, gpus_per_node: 6, nics_per_node: 2}\n";
  LoadOptions load;
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  const LoadOptions split = with_starting_split(job, "test.yaml", load, WrittenSizes::give_way);
  CHECK_NOTHROW(load_job_text(job, "test.yaml", split));
}

// As many layers as GPUs: one layer each, or as many parts as fit the batch.
TEST_CASE("a search begins from any divisor of the GPUs, however odd") {
  for (const int gpus : {9, 17, 25}) {
    const std::string size = std::to_string(gpus);
    const std::string job =
        "simrun: 1\n"
        "model: {model_type: gpt, hidden_size: 256, num_attention_heads: 4, vocab_size: 4096, num_layers: " +
        size +
        "}\n"
        "training: {seq_length: 128, global_batch_size: 8, precision: bf16}\n"
        "cluster: {nodes: " +
        size +
        ", gpus_per_node: 1, gpu: l40s, intra_node: {bandwidth: 25 GB/s, latency: 5 us}, inter_node: "
        "{bandwidth: 100 Gb/s, latency: 10 us}}\n";
    CAPTURE(gpus);
    LoadOptions load;
    load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
    const LoadOptions split = with_starting_split(job, "test.yaml", load, WrittenSizes::give_way);
    CHECK_NOTHROW(load_job_text(job, "test.yaml", split));
  }
}

TEST_CASE("a search begins elsewhere where the written split does not divide; a limit does not give way") {
  const std::string job =
      "simrun: 1\n"
      "model: {model_type: gpt, num_layers: 6, hidden_size: 256, num_attention_heads: 4, vocab_size: 4096}\n"
      "training: {seq_length: 128, global_batch_size: 8, micro_batch_size: 3, precision: bf16}\n"
      "parallelism: {tensor_model_parallel_size: 16, pipeline_model_parallel_size: 4}\n"
      "cluster: {from: dgx_a100, nodes: 1}\n";
  LoadOptions load;
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  const auto start = [&](WrittenSizes written) {
    return load_job_text(job, "test.yaml", with_starting_split(job, "test.yaml", load, written)).job;
  };
  CHECK_THROWS_AS(start(WrittenSizes::stay), ConfigError);
  CHECK(start(WrittenSizes::give_way).parallelism.tensor_model_parallel_size == 1);
}

// Gathers of parameters overlap where gradients' reductions do.
TEST_CASE("a job that writes only that gathers overlap starts with reductions that do") {
  const std::string job =
      "simrun: 1\n"
      "model: {model_type: gpt, num_layers: 4, hidden_size: 256, num_attention_heads: 4, vocab_size: 4096}\n"
      "training: {seq_length: 128, global_batch_size: 8, precision: bf16}\n"
      "optimizer: {overlap_param_gather: true}\n"
      "cluster: {from: dgx_a100, nodes: 1}\n";
  LoadOptions load;
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  const LoadOptions split = with_starting_split(job, "test.yaml", load, WrittenSizes::give_way);
  CHECK(load_job_text(job, "test.yaml", split).job.optimizer.overlap_grad_reduce);
}

}  // namespace simrun
