#include "backend/execute.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/tiny_jobs.h"

// The same training steps whatever the layout: loss, every gradient and the parameters behind two Adam steps
// are those of one rank.
namespace simrun {

TEST_CASE("an untrained model is as surprised as a die: the loss is near log 50") {
  for (const char* model : {tiny_gpt, tiny_llama}) {
    const Execution& run = one_rank({model});
    CHECK(run.loss[0] == Approx(std::log(50)).epsilon(0.01));
    CHECK(run.gradients.tensors().size() == (model == tiny_gpt ? 4 * 12 + 4 : 4 * 6 + 3));
  }
}

TEST_CASE("data-parallel ranks compute what one rank does") {
  for (const char* model : {tiny_gpt, tiny_llama})
    for (const char* optimizer :
         {"{}", "{zero_stage: 1}", "{zero_stage: 2}", "{zero_stage: 3}", "{overlap_grad_reduce: true}"}) {
      check_job({.model = model, .optimizer = optimizer, .gpus = 2, .micro_batch_size = 2});
      check_job({.model = model, .optimizer = optimizer, .gpus = 4});
    }
}

TEST_CASE("tensor-parallel ranks compute what one rank does") {
  for (const char* model : {tiny_gpt, tiny_llama})
    for (const char* parallelism :
         {"{tensor_model_parallel_size: 2}", "{tensor_model_parallel_size: 2, sequence_parallel: true}"})
      for (const int gpus : {2, 4}) check_job({.model = model, .parallelism = parallelism, .gpus = gpus});
}

TEST_CASE("pipeline ranks compute what one rank does") {
  for (const char* model : {tiny_gpt, tiny_llama})
    for (const char* schedule : {"gpipe", "1f1b", "zb_h1", "chimera", "dualpipe"})
      check_job({.model = model,
                 .parallelism =
                     "{pipeline_model_parallel_size: 2, pipeline_schedule: " + std::string(schedule) + "}",
                 .gpus = 2});
}

TEST_CASE("axes together compute what one rank does") {
  struct Case {
    const char *parallelism, *optimizer, *more;
    int gpus;
  };
  for (const char* model : {tiny_gpt, tiny_llama})
    for (const Case& c :
         {Case{"{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, sequence_parallel: true}",
               "{zero_stage: 1}", "", 8},
          Case{"{pipeline_model_parallel_size: 2, pipeline_schedule: zb_h1}", "{zero_stage: 2}", "", 4},
          Case{"{pipeline_model_parallel_size: 2, pipeline_schedule: interleaved_1f1b, "
               "virtual_pipeline_model_parallel_size: 2}",
               "{zero_stage: 3}", "", 4},
          Case{"{pipeline_model_parallel_size: 2, pipeline_schedule: zb_v, "
               "virtual_pipeline_model_parallel_size: 2}",
               "{overlap_grad_reduce: true}", "", 2},
          Case{"{tensor_model_parallel_size: 2}",
               "{zero_stage: 1, overlap_grad_reduce: true, overlap_param_gather: true}",
               "recompute: {granularity: full}\n", 4},
          Case{"{tensor_model_parallel_size: 2, sequence_parallel: true}", "{zero_stage: 3}",
               "recompute: {granularity: selective}\n", 4},
          Case{"{tensor_model_parallel_size: 2, sequence_parallel: true}", "{zero_stage: 3}",
               "recompute: {granularity: selective, saved: [qkv, fc1]}\n", 4},
          Case{"{pipeline_model_parallel_size: 2, pipeline_schedule: zb_h1}", "{zero_stage: 1}",
               "recompute: {granularity: selective, saved: [core_attn, attention_projection]}\n", 4}})
      check_job({model, c.parallelism, c.optimizer, "", c.more, c.gpus});
}

TEST_CASE("dropout and unfused attention draw by place in the model, whoever computes it") {
  const std::string training = ", attention: unfused";
  const std::string dropping =
      "model: {model_type: gpt, num_layers: 4, hidden_size: 24, num_attention_heads: 4, ffn_hidden_size: 40, "
      "vocab_size: 50, max_position_embeddings: 12, hidden_dropout: 0.2, attention_dropout: 0.1}\n";
  check_job({.model = dropping.c_str(),
             .parallelism = "{tensor_model_parallel_size: 2, sequence_parallel: true}",
             .training = training,
             .more = "recompute: {granularity: selective}\n",
             .gpus = 4});
  check_job({.model = dropping.c_str(),
             .parallelism = "{tensor_model_parallel_size: 2}",
             .training = training,
             .more = "recompute: {granularity: selective, saved: [qkv]}\n",
             .gpus = 2});
  check_job({.model = dropping.c_str(),
             .parallelism = "{pipeline_model_parallel_size: 2}",
             .training = training,
             .gpus = 4,
             .micro_batch_size = 2});
}

TEST_CASE(
    "in f32 a device allocates to the byte what the simulator predicts, and computes the same to 1e-5") {
  for (const char* model : {tiny_gpt, tiny_llama}) {
    const TinyJob job{
        model, "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}", "{zero_stage: 1}", "", "",
        8};
    const Plan plan = compile(tiny_job(job));
    const Execution run = checked_run(plan, ExecutionDevice::cpu_f32);
    check_memory(plan, run, true);
    CHECK(compare(run.gradients, one_rank(job).gradients, 1e-5).first == "");
  }
}

TEST_CASE("two runs of one plan have the same bits") {
  const Plan plan = compile(tiny_job({tiny_llama, "{tensor_model_parallel_size: 2}", "{}", "", "", 4}));
  const Execution a = checked_run(plan), b = checked_run(plan);
  CHECK(a.loss == b.loss);
  CHECK(compare(a.parameters, b.parameters, 0).error == 0);
}

TEST_CASE("what the CPU cannot run yet is refused before anything runs, by operator and key") {
  const auto refusals = [](const std::string& preset, const std::vector<Override>& overrides) {
    return execution_refusals(compile(job_from(preset, overrides)), ExecutionDevice::cpu_f64);
  };
  const std::string mixtral =
      "simrun: 1\n"
      "model: {model_type: mixtral, num_hidden_layers: 2, hidden_size: 64, intermediate_size: 128, "
      "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 512, num_local_experts: 8, "
      "num_experts_per_tok: 2}\n"
      "training: {seq_length: 64, micro_batch_size: 1, global_batch_size: 16, precision: bf16}\n"
      "cluster: {from: dgx_h100, nodes: 1}\n";
  CHECK(refusals(mixtral, {}).empty());
  CHECK(
      refusals(mixtral, {{"parallelism.expert_model_parallel_size", "8"}, {"moe.token_dispatcher", "deepep"}})
          .empty());
  CHECK(refusals(mixtral, {{"moe.token_dispatcher", "einsum"}, {"moe.capacity_factor", "1"}}).empty());
  // Of a plan that says nothing of a mask's places.
  Plan masks = compile(job_from(mixtral, {{"moe.token_dispatcher", "einsum"}, {"moe.capacity_factor", "1"}}));
  for (Segment& segment : masks.segments)
    for (Instruction& what : segment.instructions)
      if (what.function == Function::dispatch_masks) what.constants.clear();
  const std::vector<std::string> early = execution_refusals(masks, ExecutionDevice::cpu_f64);
  REQUIRE(early.size() == 1);
  CHECK(
      early.front() ==
      "'dispatch_masks' (map) is of moe.token_dispatcher: einsum in a plan of an earlier simrun, which lacks "
      "what its kernels need: compile the job again");
  // Rounding everything else to what the plan says, this device has neither 8 nor 4 bits.
  Job fp8 = job_from(small_gpt(2, 1, 1, 1));
  fp8.training.fp8 = Fp8Config{};
  for (const Fp8Recipe recipe : {Fp8Recipe::delayed, Fp8Recipe::nvfp4}) {
    fp8.training.fp8->recipe = recipe;
    CHECK(execution_refusals(compile(fp8), ExecutionDevice::cpu_f64).empty());
    const std::vector<std::string> rounded = execution_refusals(compile(fp8), ExecutionDevice::cpu_half);
    REQUIRE(!rounded.empty());
    CHECK(rounded.front().find("training.precision: fp8 or nvfp4") != std::string::npos);
  }
  const std::vector<std::string> wide =
      refusals(mixtral, {{"cluster.nodes", "16"}, {"training.global_batch_size", "128"}});
  CHECK(wide.front() == "the plan has 128 ranks; threads run up to 64: fewer nodes or gpus_per_node");
}

}  // namespace simrun
