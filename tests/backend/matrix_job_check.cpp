#include "tests/backend/matrix_job_check.h"

#include <catch2/catch.hpp>
#include <map>

#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/expert_job_check.h"
#include "tests/backend/expert_jobs.h"

namespace simrun {

std::string MatrixJob::parallelism() const {
  return "{tensor_model_parallel_size: " + std::to_string(tp) +
         ", pipeline_model_parallel_size: " + std::to_string(pp) +
         (sequence_parallel ? ", sequence_parallel: true}" : "}");
}

std::string MatrixJob::optimizer(const std::string& rule) const {
  return "{" + rule + ", zero_stage: " + std::to_string(zero) + further + "}";
}

std::vector<MatrixJob> small_layouts(const char* model) {
  std::vector<MatrixJob> layouts;
  for (const int tp : {1, 2, 4})
    for (const int pp : {1, 2})
      for (const int dp : {1, 2, 4})
        for (const int zero : {0, 1, 2, 3})
          for (const bool sequence : {false, true})
            if (tp * pp * dp <= 8 && (tp > 1 || !sequence) && (dp > 1 || zero == 0))
              layouts.push_back({model, tp, pp, dp, zero, sequence});
  return layouts;
}

void check_matrix_jobs(const std::string& rule, const std::vector<MatrixJob>& jobs, double tolerance) {
  std::map<std::string, Execution> one_rank;
  for (const MatrixJob& job : jobs) {
    const auto [reference, is_new] = one_rank.try_emplace(job.model);
    if (is_new)
      reference->second = checked_run(compile(tiny_job({.model = job.model, .optimizer = "{" + rule + "}"})),
                                      ExecutionDevice::cpu_f64, 3);
    CAPTURE(rule, job.model, job.parallelism(), job.optimizer(rule), job.gpus());
    const Plan plan = compile(tiny_job({.model = job.model,
                                        .parallelism = job.parallelism(),
                                        .optimizer = job.optimizer(rule),
                                        .more = job.more,
                                        .gpus = job.gpus()}));
    const Execution run = checked_run(plan, ExecutionDevice::cpu_f64, 3);
    check_equal(run, reference->second, tolerance);
    check_memory(plan, run, false);
  }
}

void check_expert_matrices(const std::string& rule) {
  const std::string experts = "{expert_model_parallel_size: 2";
  struct Ranks {
    std::string parallelism;
    int gpus;
  };
  for (const char* model : {tiny_mixtral, tiny_deepseek})
    for (const Ranks& ranks :
         {Ranks{experts + "}", 2}, Ranks{experts + "}", 4},
          Ranks{experts + ", tensor_model_parallel_size: 2, sequence_parallel: true}", 4},
          Ranks{experts + ", expert_tensor_parallel_size: 1, tensor_model_parallel_size: 2}", 4},
          Ranks{"{tensor_model_parallel_size: 2, expert_tensor_parallel_size: 2}", 4}})
      for (const int zero : {0, 1, 2, 3})
        check_expert_job({.model = model,
                          .parallelism = ranks.parallelism,
                          .optimizer = "{" + rule + ", zero_stage: " + std::to_string(zero) + "}",
                          .gpus = ranks.gpus});
}

}  // namespace simrun
