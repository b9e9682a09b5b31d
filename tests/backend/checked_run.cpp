#include "tests/backend/checked_run.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <utility>

#include "backend/hyperparameters.h"
#include "schedules/compile.h"
#include "schedules/lint.h"
#include "sim/memory.h"

namespace simrun {

Execution checked_run(const Plan& plan, ExecutionDevice device, int steps) {
  REQUIRE(lint(plan) == std::vector<std::string>{});
  REQUIRE(execution_refusals(plan, device) == std::vector<std::string>{});
  ExecuteOptions options;
  options.device = device;
  options.training = hyperparameters_of(plan);
  options.steps = steps;
  Execution execution = execute(plan, options);
  CHECK(execution.failure == "");
  return execution;
}

void check_equal(const Execution& run, const Execution& reference, double tolerance) {
  REQUIRE(run.loss.size() == reference.loss.size());
  for (std::size_t step = 0; step < reference.loss.size(); ++step)
    CHECK(std::abs(run.loss[step] - reference.loss[step]) <= tolerance * reference.loss[step]);
  for (const auto& [ours, theirs] :
       {std::pair{&run.gradients, &reference.gradients}, std::pair{&run.parameters, &reference.parameters}}) {
    const ValueDifference difference = compare(*ours, *theirs, tolerance);
    CHECK(difference.first == "");
    CHECK(difference.error <= tolerance);
    CHECK(difference.missing == 0);
    CHECK(ours->replica_difference() <= tolerance);
  }
}

void check_memory(const Plan& plan, const Execution& run, bool by_device) {
  const Plan first = with_recorded_rows(plan, run.expert_rows.of_first_step);
  const Plan further = with_recorded_rows(plan, run.expert_rows.of_further_steps);
  for (const RankPlace& place : ranks_of(plan)) {
    const Program& program = plan.programs[static_cast<std::size_t>(place.pipeline_rank)];
    std::int64_t most = 0;
    for (const auto& [of, step] :
         {std::pair{&first, WhichStep::first}, std::pair{&further, WhichStep::steady}})
      most = std::max(most, walk_memory(*of, program, step, MemoryDetail::peak, {place.local}).peak.bytes);
    const RankReport& report = run.ranks[static_cast<std::size_t>(place.rank)];
    CHECK(report.planned_peak_bytes == most);
    if (by_device) CHECK(report.allocated_peak_bytes == most);
  }
}

const Execution& one_rank(const TinyJob& job) {
  static std::map<std::pair<std::string, std::string>, Execution> known;
  TinyJob alone{.model = job.model, .training = job.training};
  const auto [at, is_new] = known.try_emplace({job.model, job.training});
  if (is_new) at->second = checked_run(compile(tiny_job(alone)));
  return at->second;
}

void check_job(const TinyJob& job) {
  CAPTURE(job.model, job.parallelism, job.optimizer, job.training, job.more, job.gpus);
  const Plan plan = compile(tiny_job(job));
  const Execution execution = checked_run(plan);
  check_equal(execution, one_rank(job), 1e-10);
  check_memory(plan, execution, false);
}

}  // namespace simrun
