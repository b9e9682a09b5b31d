#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "schedules/recorded_rows.h"
#include "sim/memory.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/expert_job_check.h"
#include "tests/backend/expert_jobs.h"

// Mixtures of experts: the same training steps whatever ranks the experts are on, and memory as the simulator
// says of the routing that was.
namespace simrun {
namespace {

std::string experts_on(int ranks, const std::string& more = "") {
  return "{expert_model_parallel_size: " + std::to_string(ranks) + more + "}";
}

}  // namespace

TEST_CASE("experts on several ranks compute what they do on one", "[long]") {
  for (const char* model : {tiny_mixtral, tiny_qwen, tiny_deepseek, tiny_switch})
    for (const int ranks : {1, 2, 4})
      for (const int gpus : {2, 4})
        if (ranks <= gpus) check_expert_job({.model = model, .parallelism = experts_on(ranks), .gpus = gpus});
}

TEST_CASE("experts of a capacity drop the same tokens wherever they are", "[long]") {
  for (const char* model : {tiny_switch, tiny_mixtral})
    for (const char* factor : {"0.6", "1.25"})
      for (const char* parallelism :
           {"{expert_model_parallel_size: 2}", "{expert_model_parallel_size: 4}",
            "{expert_model_parallel_size: 2, tensor_model_parallel_size: 2, sequence_parallel: true}",
            "{expert_model_parallel_size: 2, expert_tensor_parallel_size: 1, tensor_model_parallel_size: 2}"})
        check_expert_job({.model = model,
                          .parallelism = parallelism,
                          .more = std::string("moe: {capacity_factor: ") + factor + "}\n",
                          .gpus = 4});
}

TEST_CASE("einsum: groups of tokens drop by themselves, on one rank as on several", "[long]") {
  for (const char* model : {tiny_switch, tiny_mixtral, tiny_deepseek})
    for (const char* group : {"", ", group_size: 4", ", group_size: 5"})  // a last group of fewer than 5
      for (const char* parallelism :
           {"{expert_model_parallel_size: 4}", "{expert_model_parallel_size: 2, context_parallel_size: 2}",
            "{expert_model_parallel_size: 2, tensor_model_parallel_size: 2, sequence_parallel: true}",
            "{expert_model_parallel_size: 2, expert_tensor_parallel_size: 1, tensor_model_parallel_size: 2}",
            "{expert_model_parallel_size: 2, pipeline_model_parallel_size: 2}"})
        check_expert_job(
            {.model = model,
             .parallelism = parallelism,
             .more = std::string("moe: {token_dispatcher: einsum, capacity_factor: 0.75") + group + "}\n",
             .gpus = 4,
             .micro_batch_size = 2});
}

TEST_CASE("einsum's masks are made again, kept elsewhere and left out of gradients as other activations are",
          "[long]") {
  const std::string masks = "moe: {token_dispatcher: einsum, capacity_factor: 0.75, group_size: 4}\n";
  struct Case {
    const char *parallelism, *optimizer, *training, *more;
  };
  for (const Case& c :
       {Case{"{expert_model_parallel_size: 2}", "{zero_stage: 3}", "", "recompute: {granularity: full}\n"},
        Case{"{expert_model_parallel_size: 4}", "{zero_stage: 2}", "",
             "recompute: {granularity: selective, modules: [moe]}\n"},
        Case{"{expert_model_parallel_size: 4}", "{zero_stage: 1}", "",
             "recompute: {granularity: selective, saved: [attention]}\n"},
        Case{"{pipeline_model_parallel_size: 4, pipeline_schedule: bpipe}", "{}", "", ""},
        Case{"{pipeline_model_parallel_size: 2, pipeline_schedule: zb_h1, expert_model_parallel_size: 2}",
             "{}", "", ""},
        Case{"{expert_model_parallel_size: 2}", "{}", ", lora: {rank: 3, targets: [qkv]}", ""},
        Case{"{expert_model_parallel_size: 2}", "{}", "", "offload: {activations: cpu}\n"}})
    check_expert_job({.model = tiny_mixtral,
                      .parallelism = c.parallelism,
                      .optimizer = c.optimizer,
                      .training = c.training,
                      .more = masks + c.more,
                      .gpus = 4,
                      .micro_batch_size = 2});
}

TEST_CASE("einsum with one mask for a rank's tokens computes what alltoall does, with several it does not") {
  const auto run = [](const std::string& moe) {
    return checked_run(compile(tiny_job({.model = tiny_mixtral,
                                         .parallelism = "{expert_model_parallel_size: 2}",
                                         .more = "moe: {capacity_factor: 1, " + moe + "}\n",
                                         .gpus = 2})));
  };
  const Execution rows = run("token_dispatcher: alltoall");
  check_equal(run("token_dispatcher: einsum"), rows, 1e-12);
  check_equal(run("token_dispatcher: einsum, group_size: 8"), rows, 1e-12);
  CHECK(run("token_dispatcher: einsum, group_size: 4").loss != rows.loss);
}

TEST_CASE("a decoder of another length has a capacity of its own") {
  const char* const model =
      "model: {model_type: switch_transformers, num_layers: 2, d_model: 24, d_kv: 5, d_ff: 40, num_heads: 4, "
      "vocab_size: 50, dropout_rate: 0, num_experts: 4, num_sparse_encoder_layers: 2, "
      "num_sparse_decoder_layers: 2, router_aux_loss_coef: 0.1}\n";
  for (const char* parallelism :
       {"{expert_model_parallel_size: 2}", "{tensor_model_parallel_size: 2, sequence_parallel: true}"})
    check_expert_job({.model = model,
                      .parallelism = parallelism,
                      .training = ", decoder_seq_length: 4",
                      .more = "moe: {capacity_factor: 0.6}\n",
                      .gpus = 2});
  for (const char* length : {", decoder_seq_length: 4", ", decoder_seq_length: 16"})
    for (const char* group : {"", ", group_size: 6"})
      check_expert_job(
          {.model = model,
           .parallelism = "{expert_model_parallel_size: 2}",
           .training = length,
           .more = std::string("moe: {capacity_factor: 0.6, token_dispatcher: einsum") + group + "}\n",
           .gpus = 2});
}

TEST_CASE("expert, tensor, expert tensor, data and pipeline parallelism together compute what one rank does",
          "[long]") {
  struct Case {
    const char *parallelism, *optimizer, *more;
    int gpus;
  };
  for (const char* model : {tiny_mixtral, tiny_deepseek, tiny_qwen})
    for (const Case& c :
         {Case{"{expert_model_parallel_size: 2, tensor_model_parallel_size: 2, "
               "expert_tensor_parallel_size: 1}",
               "{zero_stage: 1}", "", 4},
          // Tensor-parallel ranks with the same tokens share out an expert's rows.
          Case{"{tensor_model_parallel_size: 2, expert_tensor_parallel_size: 1}", "{}", "", 2},
          Case{"{expert_model_parallel_size: 2, tensor_model_parallel_size: 4, "
               "expert_tensor_parallel_size: 1}",
               "{zero_stage: 2}", "", 8},
          // They do so with rows that another rank has kept, too.
          Case{"{pipeline_model_parallel_size: 4, pipeline_schedule: bpipe, tensor_model_parallel_size: 2, "
               "expert_tensor_parallel_size: 1}",
               "{}", "", 8},
          Case{"{expert_model_parallel_size: 2, tensor_model_parallel_size: 4, "
               "expert_tensor_parallel_size: 1}",
               "{}", "moe: {capacity_factor: 1.25}\nrecompute: {granularity: full}\n", 4},
          Case{"{expert_model_parallel_size: 4, tensor_model_parallel_size: 2, sequence_parallel: true, "
               "expert_tensor_parallel_size: 1}",
               "{zero_stage: 2}", "", 4},
          Case{"{expert_model_parallel_size: 2, expert_tensor_parallel_size: 2, "
               "tensor_model_parallel_size: 2, sequence_parallel: true}",
               "{zero_stage: 3}", "", 8},
          Case{"{expert_model_parallel_size: 2, expert_tensor_parallel_size: 2, "
               "tensor_model_parallel_size: 2}",
               "{}", "", 4},
          Case{"{expert_model_parallel_size: 2, expert_tensor_parallel_size: 2}", "{zero_stage: 1}", "", 4},
          Case{"{expert_model_parallel_size: 2, pipeline_model_parallel_size: 2, "
               "tensor_model_parallel_size: 2, sequence_parallel: true}",
               "{overlap_grad_reduce: true}", "", 8},
          Case{"{expert_model_parallel_size: 4, tensor_model_parallel_size: 2, sequence_parallel: true, "
               "expert_tensor_parallel_size: 1}",
               "{zero_stage: 1}", "recompute: {granularity: selective, modules: [moe]}\n", 8},
          Case{"{expert_model_parallel_size: 2, tensor_model_parallel_size: 2, sequence_parallel: true}",
               "{zero_stage: 1}", "recompute: {granularity: selective, saved: [attention]}\n", 4}})
      check_expert_job({model, c.parallelism, c.optimizer, "", c.more, c.gpus});
}

// Adafactor moves GPT's key biases, whose gradients are zero but for rounding, by what rounding leaves.
TEST_CASE("adafactor and muon update an expert alone, whichever rank has the others", "[long]") {
  for (const char* ranks : {"{expert_model_parallel_size: 2}", "{expert_model_parallel_size: 4}"})
    for (const char* optimizer : {"{name: adafactor}", "{name: muon}"}) {
      check_expert_job({.model = tiny_mixtral, .parallelism = ranks, .optimizer = optimizer, .gpus = 4});
      check_expert_job({.model = tiny_switch, .parallelism = ranks, .optimizer = optimizer, .gpus = 4},
                       optimizer == std::string("{name: muon}") ? 1e-10 : 1e-5);
    }
}

TEST_CASE("tokens gathered for all experts give the same sums", "[long]") {
  for (const char* model : {tiny_mixtral, tiny_deepseek})
    for (const char* parallelism :
         {"{expert_model_parallel_size: 2}", "{expert_model_parallel_size: 4}",
          "{expert_model_parallel_size: 2, tensor_model_parallel_size: 2, sequence_parallel: true}",
          "{expert_model_parallel_size: 2, tensor_model_parallel_size: 2}",
          "{tensor_model_parallel_size: 4, expert_tensor_parallel_size: 2}",
          "{expert_model_parallel_size: 2, expert_tensor_parallel_size: 2, tensor_model_parallel_size: 2, "
          "sequence_parallel: true}"})
      check_expert_job({.model = model,
                        .parallelism = parallelism,
                        .more = "moe: {token_dispatcher: allgather}\n",
                        .gpus = 4});
}

TEST_CASE(
    "capacities and balance losses count over the tokens of a rank, whatever part of a sequence those are",
    "[long]") {
  for (const char* model : {tiny_mixtral, tiny_deepseek})
    for (const char* parallelism :
         {"{context_parallel_size: 2, expert_model_parallel_size: 2}",
          "{context_parallel_size: 2, context_parallel_layout: contiguous, expert_model_parallel_size: 4}",
          "{context_parallel_size: 2, tensor_model_parallel_size: 2, sequence_parallel: true, "
          "expert_tensor_parallel_size: 1, expert_model_parallel_size: 2}"})
      for (const char* capacity : {"", "moe: {capacity_factor: 0.8}\n"})
        check_expert_job({.model = model, .parallelism = parallelism, .more = capacity, .gpus = 4});
}

TEST_CASE("experts under every sharded optimizer and recompute compute what one rank does", "[long]") {
  for (const char* optimizer : {"{zero_stage: 1}", "{zero_stage: 2}", "{zero_stage: 3}",
                                "{zero_stage: 1, overlap_grad_reduce: true, overlap_param_gather: true}"})
    check_expert_job(
        {.model = tiny_deepseek, .parallelism = experts_on(2), .optimizer = optimizer, .gpus = 4});
  for (const char* recompute : {"{granularity: full}", "{granularity: selective, modules: [moe]}",
                                "{granularity: selective, modules: [moe_act, shared_experts]}"})
    check_expert_job({.model = tiny_deepseek,
                      .parallelism = experts_on(2,
                                                ", tensor_model_parallel_size: 2, "
                                                "expert_tensor_parallel_size: 1, sequence_parallel: true"),
                      .more = std::string("recompute: ") + recompute + "\n",
                      .gpus = 4});
}

TEST_CASE("memory follows the rows that experts had, to the byte, and with a capacity the plan alone") {
  for (const char* moe : {"", "moe: {zipf: 1}\n", "moe: {capacity_factor: 1}\n"}) {
    CAPTURE(moe);
    const TinyJob job{.model = tiny_mixtral, .parallelism = experts_on(4), .more = moe, .gpus = 4};
    const Plan plan = compile(tiny_job(job));
    const Execution run = checked_run(plan, ExecutionDevice::cpu_f32);
    check_memory(plan, run, true);
    const bool is_planned = std::string(moe).find("capacity") != std::string::npos;
    const Plan recorded = with_recorded_rows(plan, run.expert_rows.of_first_step);
    int apart = 0;
    for (const RankPlace& place : ranks_of(plan)) {
      const auto peak = [&](const Plan& of) {
        return walk_memory(of, of.programs[0], WhichStep::first, MemoryDetail::peak, {place.local})
            .peak.bytes;
      };
      apart += peak(plan) != peak(recorded) ? 1 : 0;
    }
    // Nobody has the mean: 8 tokens, 2 choices, 8 experts.
    CHECK((apart == 0) == is_planned);
  }
}

TEST_CASE("experts in every pipeline schedule compute what they do on one rank", "[long]") {
  for (const char* schedule : {"gpipe", "1f1b", "zb_h1", "chimera", "dualpipe",
                               "interleaved_1f1b, virtual_pipeline_model_parallel_size: 2",
                               "interleaved_1f1b_overlap, virtual_pipeline_model_parallel_size: 2",
                               "zb_v, virtual_pipeline_model_parallel_size: 2"})
    check_expert_job({.model = tiny_mixtral,
                      .parallelism = experts_on(2, ", pipeline_model_parallel_size: 2, pipeline_schedule: " +
                                                       std::string(schedule)),
                      .gpus = 4});
  // Two microbatches on the only stage.
  check_expert_job({.model = tiny_mixtral,
                    .parallelism = experts_on(2, ", pipeline_schedule: interleaved_1f1b_overlap"),
                    .gpus = 2});
}

}  // namespace simrun
