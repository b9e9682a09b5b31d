#include <catch2/catch.hpp>

#include "models/expert_scope.h"
#include "schedules/compile.h"
#include "schedules/recorded_rows.h"
#include "sim/memory.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/expert_jobs.h"

// Mixtures of experts: the same training steps whatever ranks the experts are on, and memory as the simulator
// says of the routing that was.
namespace simrun {
namespace {

// One rank that counts capacities and balance losses over the same tokens as the job's ranks do.
Plan plan_on_one_rank(const TinyJob& job) {
  Job alone = tiny_job({.model = job.model, .training = job.training});
  const Job of = tiny_job(job);
  alone.moe.capacity_factor = of.moe.capacity_factor;
  alone.moe.scope = expert_scope(of);
  return compile(alone);
}

void check_expert_job(const TinyJob& job) {
  CAPTURE(job.model, job.parallelism, job.optimizer, job.training, job.more, job.gpus);
  const Plan plan = compile(tiny_job(job));
  const Execution run = checked_run(plan);
  check_equal(run, checked_run(plan_on_one_rank(job)), 1e-10);
  check_memory(plan, run, false);
}

std::string experts_on(int ranks, const std::string& more = "") {
  return "{expert_model_parallel_size: " + std::to_string(ranks) + more + "}";
}

}  // namespace

TEST_CASE("experts on several ranks compute what they do on one") {
  for (const char* model : {tiny_mixtral, tiny_qwen, tiny_deepseek, tiny_switch})
    for (const int ranks : {1, 2, 4})
      for (const int gpus : {2, 4})
        if (ranks <= gpus) check_expert_job({.model = model, .parallelism = experts_on(ranks), .gpus = gpus});
}

TEST_CASE("experts of a capacity drop the same tokens wherever they are") {
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

TEST_CASE(
    "expert, tensor, expert tensor, data and pipeline parallelism together compute what one rank does") {
  struct Case {
    const char *parallelism, *optimizer, *more;
    int gpus;
  };
  for (const char* model : {tiny_mixtral, tiny_deepseek, tiny_qwen})
    for (const Case& c :
         {Case{"{expert_model_parallel_size: 2, tensor_model_parallel_size: 2, "
               "expert_tensor_parallel_size: 1}",
               "{zero_stage: 1}", "", 4},
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
               "{zero_stage: 1}", "recompute: {granularity: selective, modules: [moe]}\n", 8}})
      check_expert_job({model, c.parallelism, c.optimizer, "", c.more, c.gpus});
}

TEST_CASE("tokens gathered for all experts give the same sums") {
  for (const char* model : {tiny_mixtral, tiny_deepseek})
    for (const char* parallelism :
         {"{expert_model_parallel_size: 2}", "{expert_model_parallel_size: 4}",
          "{expert_model_parallel_size: 2, tensor_model_parallel_size: 2, sequence_parallel: true}",
          "{expert_model_parallel_size: 2, tensor_model_parallel_size: 2}",
          "{expert_model_parallel_size: 2, expert_tensor_parallel_size: 2, tensor_model_parallel_size: 2, "
          "sequence_parallel: true}"})
      check_expert_job({.model = model,
                        .parallelism = parallelism,
                        .more = "moe: {token_dispatcher: allgather}\n",
                        .gpus = 4});
}

TEST_CASE("experts in every pipeline schedule compute what they do on one rank") {
  for (const char* schedule : {"gpipe", "1f1b", "zb_h1", "chimera", "dualpipe",
                               "interleaved_1f1b, virtual_pipeline_model_parallel_size: 2",
                               "zb_v, virtual_pipeline_model_parallel_size: 2"})
    check_expert_job({.model = tiny_mixtral,
                      .parallelism = experts_on(2, ", pipeline_model_parallel_size: 2, pipeline_schedule: " +
                                                       std::string(schedule)),
                      .gpus = 4});
}

}  // namespace simrun
