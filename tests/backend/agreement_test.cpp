#include "backend/agreement.h"

#include <catch2/catch.hpp>

#include "backend/reference_job.h"
#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/tiny_jobs.h"

namespace simrun {

TEST_CASE("the reference of a job is what its file says with no parallelism on one GPU") {
  for (const char* model : {tiny_gpt, tiny_llama})
    for (const TinyJob& job :
         {TinyJob{model,
                  "{tensor_model_parallel_size: 2, sequence_parallel: true, pipeline_model_parallel_size: 2}",
                  "{zero_stage: 1, overlap_grad_reduce: true}", "", "recompute: {granularity: full}\n", 8, 2},
          TinyJob{model,
                  "{pipeline_model_parallel_size: 2, virtual_pipeline_model_parallel_size: 2, "
                  "pipeline_schedule: zb_v}",
                  "{zero_stage: 2}", "", "", 4, 1}}) {
      const TinyJob alone{.model = model, .micro_batch_size = job.micro_batch_size};
      Plan reference = compile(reference_job(tiny_job(job))), written = compile(tiny_job(alone));
      CHECK(reference.job.microbatches == 8 / job.micro_batch_size);
      // Another name for an equal plan, and the file's own fabric.
      reference.job.config_sha256 = written.job.config_sha256;
      reference.cluster = written.cluster;
      CHECK(reference == written);
    }
}

TEST_CASE(
    "agreement: one gradient that is off is named, the first in backward order too, and so is a wrong loss") {
  const Plan plan = compile(tiny_job({}));
  const Execution right = one_rank({});
  const AgreementTolerance within = tolerance_of(ExecutionDevice::cpu_f64);
  CHECK(agreement(right, right, within).fault == "");

  Execution wrong = right;
  wrong.loss[1] *= 1 + 1e-9;
  CHECK(agreement(wrong, right, within).loss_error == Approx(1e-9).epsilon(1e-3));
  CHECK(agreement(wrong, right, within).fault == "the loss differs by 1e-09");

  // Gradients of another seed's model: every tensor differs, the output's first.
  ExecuteOptions other;
  other.steps = 2;
  other.training.seed = 1;
  const Agreement differs = agreement(execute(plan, other), right, within);
  CHECK(differs.gradients.error > 0.1);
  CHECK(differs.gradients.first == "final_norm_bias");
  CHECK(differs.fault.starts_with("the gradient of 'final_norm_bias' differs, the first in backward order"));

  // A plan that updates by Adafactor is held to its first loss, and to its parameters within 1e-4.
  const AgreementTolerance of_adafactor =
      tolerance_of(ExecutionDevice::cpu_f64, compile(tiny_job({.optimizer = "{name: adafactor}"})));
  CHECK(agreement(wrong, right, of_adafactor).fault == "");
  wrong.loss[0] *= 1 + 1e-9;
  CHECK(agreement(wrong, right, of_adafactor).fault == "the loss differs by 1e-09");
  Execution moved = right;
  moved.parameters = execute(plan, other).parameters;
  CHECK(agreement(moved, right, of_adafactor).fault.starts_with("the updated parameter"));

  // One with moments in blocks of 8 bits, which shards cut otherwise, to its parameters within 2 %.
  const AgreementTolerance of_blocks =
      tolerance_of(ExecutionDevice::cpu_f64, compile(tiny_job({.optimizer = "{exp_avg_dtype: uint8}"})));
  CHECK(of_blocks.parameters == 0.02);
  CHECK(of_blocks.gradients == within.gradients);

  Execution nothing = right;
  nothing.gradients = ParameterValues(plan);
  CHECK(agreement(nothing, right, within).fault.find("are on no rank") != std::string::npos);
}

}  // namespace simrun
