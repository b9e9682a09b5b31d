#include <catch2/catch.hpp>

#include "backend/execute.h"
#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/matrix_job_check.h"

// Muon of matrices of which ranks have parts: tensor-parallel ranks of each, sharded optimizers of a bucket.
namespace simrun {
namespace {

const std::string muon = "name: muon";

Plan muon_plan(const MatrixJob& job) {
  return compile(tiny_job({.model = job.model,
                           .parallelism = job.parallelism(),
                           .optimizer = job.optimizer(muon),
                           .more = job.more,
                           .gpus = job.gpus()}));
}

bool is_work_of_others(const Plan& plan, const Instruction& what) {
  return what.phase == Phase::optimizer && what.work_table >= 0 &&
         plan.extent_tables[static_cast<std::size_t>(what.work_table)].values == std::vector<std::int64_t>{0};
}

}  // namespace

TEST_CASE("muon makes the matrices of tensor-parallel ranks whole and keeps their parts") {
  for (const char* model : {tiny_gpt, tiny_llama})
    for (const bool sequence : {false, true})
      check_matrix_jobs(muon, {{.model = model, .tp = 2, .sequence_parallel = sequence},
                               {.model = model, .tp = 4, .sequence_parallel = sequence}});
  const char* const six_heads =
      "model: {model_type: llama, num_hidden_layers: 2, hidden_size: 36, intermediate_size: 42, "
      "num_attention_heads: 6, num_key_value_heads: 3, vocab_size: 50, max_position_embeddings: 12}\n";
  check_matrix_jobs(muon, {{.model = six_heads, .tp = 3}, {.model = six_heads, .tp = 3, .dp = 2, .zero = 2}});
}

TEST_CASE("muon gathers what sharded optimizers have of a matrix, under every ZeRO stage") {
  for (const int zero : {1, 2, 3})
    check_matrix_jobs(muon, {{.model = tiny_gpt, .dp = 2, .zero = zero},
                             {.model = tiny_llama, .dp = 4, .zero = zero},
                             {.model = tiny_llama, .tp = 2, .dp = 2, .zero = zero, .sequence_parallel = true},
                             {.model = tiny_gpt, .pp = 2, .dp = 2, .zero = zero}});
}

TEST_CASE("muon is the same on every small layout of tensor, data and pipeline parallelism", "[long]") {
  for (const char* model : {tiny_gpt, tiny_llama}) check_matrix_jobs(muon, small_layouts(model));
}

TEST_CASE("muon is the same in buckets of any size, with overlap, and where replicas have equal shards") {
  check_matrix_jobs(
      muon, {{.model = tiny_llama, .dp = 8, .zero = 1, .further = ", bucket_size: 3000"},
             {.model = tiny_llama, .tp = 2, .dp = 4, .zero = 1, .further = ", bucket_size: 700"},
             {.model = tiny_gpt,
              .dp = 2,
              .zero = 1,
              .further = ", overlap_grad_reduce: true, overlap_param_gather: true"},
             {.model = tiny_gpt, .dp = 4, .zero = 2, .further = ", num_distributed_optimizer_instances: 2"}});
}

TEST_CASE("muon updates experts whole, whichever ranks have parts of them", "[long]") {
  check_expert_matrices(muon);
}

// An update of a bucket whose less busy shards do nothing is another.
TEST_CASE(
    "every rank of a sharded muon makes the matrices that its shard touches, not only the fullest one's") {
  const MatrixJob job{.model = tiny_gpt, .dp = 4, .zero = 1};
  Plan plan = muon_plan(job);
  const Execution whole = checked_run(plan, ExecutionDevice::cpu_f64, 1);
  std::size_t left_out = 0;
  for (Segment& segment : plan.segments)
    left_out += std::erase_if(segment.instructions, [&](const Instruction& what) {
      return is_work_of_others(plan, what) && what.label == "muon keep part";
    });
  CHECK(left_out > 0);
  const Execution partly = checked_run(plan, ExecutionDevice::cpu_f64, 1);
  CHECK(compare(whole.gradients, partly.gradients, 1e-10).first == "");
  CHECK(compare(whole.parameters, partly.parameters, 1e-10).first != "");
}

TEST_CASE("muon's parts in a plan of an earlier simrun, which do not say whose they are, are refused") {
  for (const auto& [job, words] :
       {std::pair{MatrixJob{.model = tiny_gpt, .tp = 2}, "muon over tensor-parallel ranks"},
        std::pair{MatrixJob{.model = tiny_gpt, .dp = 2, .zero = 1}, "muon with optimizer.zero_stage"}}) {
    Plan plan = muon_plan(job);
    for (Buffer& buffer : plan.buffers) {
      if (buffer.name.find(" muon ") == std::string::npos) continue;
      buffer.split.clear();
      buffer.dims = {{buffer.dims.front().name, -1, buffer.elements()}};
    }
    const std::vector<std::string> said = execution_refusals(plan, ExecutionDevice::cpu_f64);
    REQUIRE(!said.empty());
    CHECK(said.front().find(words) != std::string::npos);
    CHECK(said.front().find("compile the job again") != std::string::npos);
  }
}

}  // namespace simrun
