#include <catch2/catch.hpp>

#include "configs/load_job.h"
#include "small_job.h"
#include "tests/jobs.h"

// parallelism.stage_tensor_model_parallel_sizes and stage_data_parallel_sizes.
namespace simrun {
namespace {

std::string text(const std::string& parallelism, const std::string& training = "micro_batch_size: 2",
                 int gpus = 8) {
  return "simrun: 1\nmodel: {model_type: llama, num_hidden_layers: 4, hidden_size: 64, num_attention_heads: "
         "8, "
         "num_key_value_heads: 4, intermediate_size: 128, vocab_size: 512}\ntraining: {seq_length: 16, "
         "global_batch_size: 24, precision: bf16, " +
         training + "}\nparallelism: {" + parallelism +
         "}\ncluster: {from: dgx_h100, nodes: 1, gpus_per_node: " + std::to_string(gpus) + "}\n";
}

std::vector<std::string> problems(const std::string& yaml) {
  std::vector<std::string> messages;
  try {
    (void)job_from(yaml);
  } catch (const ConfigError& error) {
    for (const Diagnostic& problem : error.diagnostics()) messages.push_back(problem.message);
  }
  return messages;
}

using Messages = std::vector<std::string>;
using Sizes = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("stages of 2 x 1 and 2 x 3 ranks fill 8 GPUs; the first stage's sizes stand for the job's") {
  const Job job =
      job_from(text("pipeline_model_parallel_size: 2, tensor_model_parallel_size: 2, "
                    "stage_data_parallel_sizes: [1, 3]",
                    "micro_batch_size: 6"));
  CHECK(job.parallelism.stage_tensor_sizes == Sizes{2, 2});
  CHECK(job.parallelism.stage_data_sizes == Sizes{1, 3});
  CHECK(job.parallelism.data_parallel_size == 1);
  CHECK(job.microbatches() == 4);
}

TEST_CASE("the effective config of unlike stages is a job of them") {
  const LoadedJob loaded =
      load_job_text(text("pipeline_model_parallel_size: 2, stage_tensor_model_parallel_sizes: [1, 4], "
                         "stage_broadcast_chunks: 3, sequence_parallel: true"),
                    "job.yaml", with_presets());
  CHECK(loaded.job.parallelism.stage_broadcast_chunks == 3);
  CHECK(load_job_text(loaded.effective_yaml, "job.yaml", with_presets()).job == loaded.job);
}

TEST_CASE("data-parallel sizes follow from the tensor-parallel ones where stages are equally large") {
  const Job job =
      job_from(text("pipeline_model_parallel_size: 2, stage_tensor_model_parallel_sizes: [1, 4]"));
  CHECK(job.parallelism.tensor_model_parallel_size == 1);
  CHECK(job.parallelism.stage_data_sizes == Sizes{4, 1});
  CHECK(job_from(text("pipeline_model_parallel_size: 2, stage_tensor_model_parallel_sizes: [1, 4], "
                      "sequence_parallel: true"))
            .parallelism.sequence_parallel);
}

TEST_CASE("what stages of unlike size cannot be is said, all of it at once") {
  CHECK(problems(text("pipeline_model_parallel_size: 3, stage_data_parallel_sizes: [4, 4]")) ==
        Messages{"4 layers do not split into pipeline 3", "2 sizes for 3 pipeline ranks"});
  CHECK(problems(text("pipeline_model_parallel_size: 2, stage_data_parallel_sizes: [2, 4]")) ==
        Messages{"the stages have 1 x 2 + 1 x 4 = 6 GPUs, but the cluster has 8 (1 nodes x 8)"});
  CHECK(
      problems(text("pipeline_model_parallel_size: 2, stage_data_parallel_sizes: [2, 6], "
                    "virtual_pipeline_model_parallel_size: 2")) ==
      Messages{"a microbatch of 4 sequences (micro_batch_size 2 on the first stage's 2 data-parallel ranks) "
               "does not split over 6",
               "virtual stages need pipeline ranks of one size"});
  CHECK(
      problems(text("pipeline_model_parallel_size: 2, stage_data_parallel_sizes: [2, 3]",
                    "micro_batch_size: 2", 5)) ==
      Messages{"stages of size 2 and of size 3 cut each other's parts",
               "a microbatch of 4 sequences (micro_batch_size 2 on the first stage's 2 data-parallel ranks) "
               "does not split over 3"});
  CHECK(problems(text("pipeline_model_parallel_size: 2, stage_tensor_model_parallel_sizes: [8, 2], "
                      "stage_data_parallel_sizes: [1, 2], tensor_model_parallel_size: 2",
                      "micro_batch_size: 2", 12)) ==
        Messages{"tensor parallel 8 beyond the 4 key-value heads needs pipeline ranks of one size",
                 "parallelism.tensor_model_parallel_size is 2 here, but stage_tensor_model_parallel_sizes "
                 "begins with 8"});
  CHECK(problems(text("pipeline_model_parallel_size: 2, stage_broadcast_chunks: 4")) ==
        Messages{"nothing is broadcast between stages of one size"});
  CHECK(problems(text("pipeline_model_parallel_size: 2, stage_data_parallel_sizes: [2, 6], "
                      "stage_broadcast_chunks: 65",
                      "micro_batch_size: 3")) ==
        Messages{"'parallelism.stage_broadcast_chunks': must be at most 64, not '65'"});
  CHECK(problems(text("pipeline_model_parallel_size: 2, stage_data_parallel_sizes: [2, 6], "
                      "context_parallel_size: 2, pipeline_schedule: dualpipe",
                      "micro_batch_size: 3"))
            .size() >= 2);
}

// The last stage reads the word table of the first to predict further tokens, as a tied head does.
TEST_CASE("multi-token prediction ties the ends of a pipeline as tied embeddings do") {
  const auto problems_with = [](const std::string& model) {
    return problems(
        "simrun: 1\nmodel: {model_type: gpt, num_layers: 4, hidden_size: 24, num_attention_heads: 4, "
        "vocab_size: 64, " +
        model +
        "}\ntraining: {seq_length: 16, micro_batch_size: 2, global_batch_size: 16, precision: fp32}\n"
        "parallelism: {pipeline_model_parallel_size: 2, stage_data_parallel_sizes: [4, 2]}\n"
        "cluster: {from: dgx_a100, nodes: 1, gpus_per_node: 6}\n");
  };
  const std::string never = " are not supported together", sizes = "pipeline ranks of unlike size and ";
  CHECK(problems_with("untie_embeddings_and_output_weights: true").empty());
  CHECK(problems_with("untie_embeddings_and_output_weights: true, mtp_num_layers: 1") ==
        Messages{sizes + "multi-token prediction on a last rank that differs from the first" + never});
  CHECK(problems_with("untie_embeddings_and_output_weights: false") ==
        Messages{sizes + "word embeddings tied between a first and a last rank that differ" + never});
}

}  // namespace simrun
