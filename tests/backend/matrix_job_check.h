#pragma once

#include <string>
#include <vector>

#include "tests/backend/tiny_jobs.h"

namespace simrun {

// A layout of a tiny model whose optimizer updates matrices as such.
struct MatrixJob {
  const char* model = tiny_gpt;
  int tp = 1, pp = 1, dp = 1, zero = 0;
  bool sequence_parallel = false;
  std::string further = "";  // optimizer keys, behind a comma
  std::string more = "";     // further sections

  int gpus() const { return tp * pp * dp; }
  std::string parallelism() const;
  std::string optimizer(const std::string& rule) const;  // "name: muon"
};

// Up to eight ranks of tp, pp and dp 1, 2 or 4 under every ZeRO stage, with and without sequence parallelism.
std::vector<MatrixJob> small_layouts(const char* model);

// Three steps in f64 are those of one rank with the same rule, and memory is what the plan says.
void check_matrix_jobs(const std::string& rule, const std::vector<MatrixJob>& jobs, double tolerance = 1e-10);

// Likewise mixtures of experts over ep 2, tp 2 and expert tp 1 and 2, with and without sharded optimizers.
void check_expert_matrices(const std::string& rule);

}  // namespace simrun
