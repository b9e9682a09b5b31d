#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "backend/reference_job.h"
#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/jobs.h"

// Plans in fp8 and fp4, whose numbers are not rounded here: what is cast, kept, gathered and read gives what
// one rank computes that casts nothing.
namespace simrun {
namespace {

constexpr const char* dense_in_8_bits =
    "{model_type: llama, num_hidden_layers: 4, hidden_size: 64, intermediate_size: 128, num_attention_heads: "
    "4, num_key_value_heads: 2, vocab_size: 64}";
constexpr const char* experts_in_8_bits =
    "{model_type: mixtral, num_hidden_layers: 2, hidden_size: 64, intermediate_size: 64, "
    "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 64, num_local_experts: 4, "
    "num_experts_per_tok: 2}";

// Four GPUs, 8 sequences of 32 tokens.
Job job_in(const std::string& precision, const char* model, const std::vector<Override>& overrides) {
  const bool is_small = precision == "mxfp8" || precision == "nvfp4";
  const std::string training =
      precision == "nvfp4" ? "precision: nvfp4" : "precision: fp8, fp8_recipe: " + precision;
  return job_from("simrun: 1\nmodel: " + std::string(model) +
                      "\ntraining: {seq_length: 32, micro_batch_size: 1, global_batch_size: 8, " + training +
                      "}\ncluster: {from: " + (is_small ? "dgx_b200" : "dgx_h100") +
                      ", nodes: 1, gpus_per_node: 4}\n",
                  overrides);
}

void check_job(const std::string& precision, const char* model, const std::vector<Override>& overrides) {
  CAPTURE(precision, model);
  for (const auto& [key, value] : overrides) UNSCOPED_INFO(key << ": " << value);
  const Job job = job_in(precision, model, overrides);
  const Job alone = reference_job(job);
  REQUIRE_FALSE(alone.training.fp8.has_value());
  const Plan plan = compile(job);
  const Execution run = checked_run(plan);
  check_equal(run, checked_run(compile(alone)), 1e-10);
  check_memory(plan, run, false);
}

const std::vector<std::string> precisions{"delayed", "tensorwise", "blockwise", "mxfp8", "nvfp4"};

}  // namespace

TEST_CASE("a plan in fp8 or fp4 computes what one rank does without casts, under every recipe", "[long]") {
  const std::vector<std::vector<Override>> layouts{
      {},
      {{"parallelism.tensor_model_parallel_size", "2"}},
      {{"parallelism.tensor_model_parallel_size", "2"}, {"parallelism.sequence_parallel", "true"}},
      {{"parallelism.context_parallel_size", "2"}},
      {{"parallelism.pipeline_model_parallel_size", "2"}, {"parallelism.pipeline_schedule", "zb_h1"}},
      {{"parallelism.pipeline_model_parallel_size", "2"},
       {"parallelism.virtual_pipeline_model_parallel_size", "2"},
       {"optimizer.zero_stage", "1"}},
      {{"recompute.granularity", "full"}},
      {{"recompute.granularity", "selective"}, {"recompute.modules", "[mlp]"}}};
  for (const std::string& precision : precisions)
    for (const std::vector<Override>& layout : layouts) check_job(precision, dense_in_8_bits, layout);
  check_job("blockwise", dense_in_8_bits, {{"offload.activations", "cpu"}});
}

TEST_CASE("weights that are gathered, in fp8 or cast behind it, are those that one rank has", "[long]") {
  for (const std::string& precision : precisions)
    for (const char* zero : {"1", "2", "3"}) {
      const std::vector<Override> wide{{"optimizer.zero_stage", zero}};
      check_job(precision, dense_in_8_bits, wide);
      if (precision == "nvfp4" || precision == "mxfp8") continue;
      std::vector<Override> narrow = wide;
      narrow.push_back({"training.fp8_param_gather", "true"});
      check_job(precision, dense_in_8_bits, narrow);
    }
}

TEST_CASE("experts in fp8, whichever way their tokens come", "[long]") {
  for (const std::string& precision : precisions)
    for (const char* dispatcher : {"alltoall", "allgather", "deepep"})
      check_job(precision, experts_in_8_bits,
                {{"parallelism.expert_model_parallel_size", "2"}, {"moe.token_dispatcher", dispatcher}});
}

TEST_CASE("moments and exchanged gradients in fp8 are run unrounded, too") {
  check_job("tensorwise", dense_in_8_bits, {{"optimizer.exp_avg_dtype", "fp8"}});
  check_job("tensorwise", dense_in_8_bits, {{"optimizer.grad_reduce_dtype", "fp8"}});
}

// Of a frozen weight's gradient nothing is gathered for.
TEST_CASE("adapters beside weights in fp8 and fp4, over tensor-parallel ranks that gather") {
  for (const std::string& precision : precisions)
    check_job(precision, dense_in_8_bits,
              {{"training.lora", "{rank: 16, alpha: 32, targets: [fc1]}"},
               {"parallelism.tensor_model_parallel_size", "2"},
               {"parallelism.sequence_parallel", "true"}});
  check_job("blockwise", dense_in_8_bits, {{"training.lora", "{rank: 16, alpha: 32}"}});
}

// A weight's matrix is known by the product that reads it, or reads a copy of it.
TEST_CASE("muon and adafactor update matrices that products read in fp8 and fp4", "[long]") {
  for (const std::string& precision : precisions)
    for (const char* optimizer : {"muon", "adafactor"}) {
      check_job(precision, dense_in_8_bits, {{"optimizer.name", optimizer}});
      check_job(precision, dense_in_8_bits,
                {{"optimizer.name", optimizer},
                 {"optimizer.zero_stage", "1"},
                 {"parallelism.tensor_model_parallel_size", "2"}});
    }
}

}  // namespace simrun
