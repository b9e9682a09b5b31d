#include "tests/backend/expert_job_check.h"

#include <catch2/catch.hpp>

#include "backend/reference_job.h"
#include "schedules/compile.h"
#include "tests/backend/checked_run.h"

namespace simrun {

void check_expert_job(const TinyJob& of, double tolerance) {
  CAPTURE(of.model, of.parallelism, of.optimizer, of.training, of.more, of.gpus);
  const Job job = tiny_job(of);
  const Plan plan = compile(job);
  const Execution run = checked_run(plan);
  check_equal(run, checked_run(compile(reference_job(job))), tolerance);
  check_memory(plan, run, false);
}

}  // namespace simrun
