#include <catch2/catch.hpp>

#include "backend/reference_job.h"
#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/tiny_jobs.h"

// Data-parallel ranks with unlike numbers of sequences of the same microbatch: every sequence weighs the same
// in the mean, whichever rank has it.
namespace simrun {
namespace {

void check_uneven(TinyJob of, const std::string& sizes) {
  of.training += ", replica_micro_batch_sizes: " + sizes;
  CAPTURE(of.model, of.parallelism, of.optimizer, of.training, of.gpus);
  const Job job = tiny_job(of);
  REQUIRE(job.training.replica_micro_batch_sizes.size() > 1);
  const Plan plan = compile(job);
  const Execution run = checked_run(plan);
  check_equal(run, checked_run(compile(reference_job(job))), 1e-10);
  check_memory(plan, run, /*by_device=*/false);
}

}  // namespace

TEST_CASE("replicas with 3 and 1 of four sequences compute what one rank does") {
  for (const char* model : {tiny_gpt, tiny_llama})
    for (const char* optimizer :
         {"{}", "{zero_stage: 1}", "{zero_stage: 2}", "{zero_stage: 3}", "{overlap_grad_reduce: true}"})
      check_uneven({.model = model, .optimizer = optimizer, .gpus = 2, .micro_batch_size = 2}, "[3, 1]");
}

TEST_CASE(
    "unlike replicas of tensor-, sequence-, context- and pipeline-parallel ranks compute what one rank "
    "does") {
  for (const char* model : {tiny_gpt, tiny_llama}) {
    for (const char* parallelism :
         {"{tensor_model_parallel_size: 2}", "{tensor_model_parallel_size: 2, sequence_parallel: true}",
          "{pipeline_model_parallel_size: 2}", "{pipeline_model_parallel_size: 2, pipeline_schedule: zb_h1}"})
      check_uneven({.model = model, .parallelism = parallelism, .gpus = 4, .micro_batch_size = 2}, "[1, 3]");
    check_uneven({.model = model,
                  .parallelism = "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, "
                                 "sequence_parallel: true}",
                  .optimizer = "{zero_stage: 1}",
                  .gpus = 8,
                  .micro_batch_size = 2},
                 "[3, 1]");
  }
  for (const char* exchange : {"p2p", "all_gather"})
    check_uneven({.model = tiny_llama,
                  .parallelism = "{context_parallel_size: 2, cp_comm_type: " + std::string(exchange) + "}",
                  .gpus = 4,
                  .micro_batch_size = 2},
                 "[3, 1]");
}

TEST_CASE("four replicas may all be unlike, and keep or recompute their activations") {
  for (const char* recompute :
       {"", "recompute: {granularity: selective}\n", "recompute: {granularity: full}\n"})
    check_uneven({.more = recompute, .gpus = 4, .micro_batch_size = 2}, "[1, 4, 2, 1]");
}

}  // namespace simrun
