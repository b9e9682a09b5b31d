#include <catch2/catch.hpp>

#include "schedules/stage_sizes.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/tiny_jobs.h"

// Pipeline ranks with tensor- and data-parallel sizes of their own.
namespace simrun {
namespace {

// Four layers on two or three pipeline ranks, a microbatch of four sequences.
struct Sizes {
  std::vector<int> tensor, data;
};
void check_stages(const char* model, const Sizes& sizes, const std::string& more = "",
                  const std::string& optimizer = "{}", const std::string& sections = "") {
  const auto& [tensor, data] = sizes;
  int gpus = 0;
  std::string tensor_list, data_list;
  for (std::size_t s = 0; s < tensor.size(); ++s) {
    gpus += tensor[s] * data[s];
    tensor_list += (s == 0 ? "[" : ", ") + std::to_string(tensor[s]);
    data_list += (s == 0 ? "[" : ", ") + std::to_string(data[s]);
  }
  TinyJob job{.model = model};
  job.parallelism = "{pipeline_model_parallel_size: " + std::to_string(tensor.size()) +
                    ", pipeline_model_parallel_layout: '" + (tensor.size() == 2 ? "Et|tttL" : "Ett|t|tL") +
                    "', stage_tensor_model_parallel_sizes: " + tensor_list +
                    "], stage_data_parallel_sizes: " + data_list + "]" + more + "}";
  job.optimizer = optimizer;
  job.more = sections;
  job.gpus = gpus;
  job.micro_batch_size = 4 / data.front();
  CAPTURE(job.parallelism, job.optimizer, job.more);
  check_job(job);
}

}  // namespace

TEST_CASE(
    "two stages of any sizes of 1, 2 and 4 data-parallel by 1 and 2 tensor-parallel ranks compute what one "
    "rank does",
    "[long]") {
  for (const int tensor_0 : {1, 2})
    for (const int tensor_1 : {1, 2})
      for (const int data_0 : {1, 2, 4})
        for (const int data_1 : {1, 2, 4}) {
          if (tensor_0 == tensor_1 && data_0 == data_1) continue;
          check_stages(tiny_llama, {{tensor_0, tensor_1}, {data_0, data_1}});
          if (tensor_0 * tensor_1 == 1) continue;  // no sequence parallelism: below
          check_stages(tiny_llama, {{tensor_0, tensor_1}, {data_0, data_1}}, ", sequence_parallel: true",
                       "{zero_stage: 1}");
        }
  check_stages(tiny_llama, {{1, 1}, {2, 4}}, "", "{zero_stage: 1}");
}

TEST_CASE("chunked broadcasts bring what whole ones do") {
  for (const auto& sizes : {Sizes{{1, 1}, {1, 2}}, Sizes{{1, 1}, {4, 1}}, Sizes{{1, 2}, {1, 4}},
                            Sizes{{2, 1}, {2, 1}}, Sizes{{1, 2, 1}, {1, 2, 4}}})
    for (const char* more :
         {", stage_broadcast_chunks: 3", ", stage_broadcast_chunks: 5, sequence_parallel: true",
          ", stage_broadcast_chunks: 2, pipeline_schedule: zb_h1"})
      check_stages(tiny_llama, sizes, more);
  check_stages(tiny_llama, {{1, 2, 1}, {1, 2, 4}}, ", stage_broadcast_chunks: 4", "{zero_stage: 1}",
               "recompute: {granularity: full}\n");
}

TEST_CASE("stages that split only the batch and stages that split only tensors, four ranks each") {
  const char* const model =
      "model: {model_type: llama, num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, "
      "num_attention_heads: 4, num_key_value_heads: 4, vocab_size: 52, max_position_embeddings: 12}\n";
  for (const char* more : {"", ", sequence_parallel: true"})
    for (const char* optimizer : {"{}", "{zero_stage: 1}"}) {
      check_stages(model, {{1, 4}, {4, 1}}, more, optimizer);
      check_stages(model, {{4, 1}, {1, 4}}, more, optimizer);
    }
  check_stages(model, {{4, 1, 4}, {1, 4, 2}}, ", sequence_parallel: true");
}

TEST_CASE(
    "three unlike stages compute what one rank does, sharded, recomputed and with split backward passes") {
  const Sizes sizes{{1, 2, 1}, {4, 1, 2}};
  for (const char* optimizer :
       {"{}", "{zero_stage: 1}", "{zero_stage: 2}", "{zero_stage: 3}", "{overlap_grad_reduce: true}",
        "{zero_stage: 1, overlap_grad_reduce: true, overlap_param_gather: true}"})
    check_stages(tiny_llama, sizes, "", optimizer);
  for (const char* schedule : {"gpipe", "1f1b", "zb_h1"})
    check_stages(tiny_llama, sizes, std::string(", pipeline_schedule: ") + schedule);
  for (const char* recompute : {"recompute: {granularity: selective}\n", "recompute: {granularity: full}\n"})
    check_stages(tiny_llama, sizes, ", sequence_parallel: true", "{zero_stage: 1}", recompute);
}

TEST_CASE("tied word embeddings are summed over alike first and last stages around an unlike one") {
  check_stages(tiny_gpt, {{2, 1, 2}, {2, 4, 2}});
  check_stages(tiny_gpt, {{1, 2, 1}, {2, 1, 2}}, ", sequence_parallel: true", "{zero_stage: 1}");
}

}  // namespace simrun
