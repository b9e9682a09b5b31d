// Jobs of models with Mamba-2 layers.
#include <fmt/format.h>

#include <set>

#include "configs/job_rules.h"
#include "configs/nearest.h"
#include "configs/section_reader.h"

namespace simrun {
namespace {

void check_tensor_ranks(Reading& reading, const MambaConfig& mamba, const char* path, std::int64_t tp) {
  if (tp > 0 && mamba.num_groups % tp != 0)
    reading.problem(
        path,
        fmt::format("{} groups of Mamba heads do not split into tensor parallel {}", mamba.num_groups, tp),
        nearest_divisors(mamba.num_groups, tp));
}

void check_context_ranks(Reading& reading, const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  const std::int64_t tp = parallelism.tensor_model_parallel_size, cp = parallelism.context_parallel_size;
  if (cp <= 1 || tp == 0) return;
  const std::int64_t groups = job.model.mamba.num_groups;
  if (groups % tp == 0 && groups / tp % cp != 0)
    reading.problem("parallelism.context_parallel_size",
                    fmt::format("{} groups of Mamba heads of a tensor-parallel rank ({} / {}) do not split "
                                "over {} context-parallel ranks",
                                groups / tp, groups, tp, cp),
                    nearest_divisors(groups / tp, cp));
}

}  // namespace

void check_mamba(Reading& reading, const Job& job) {
  const MambaConfig& mamba = job.model.mamba;
  if (!mamba.on()) return;
  const Parallelism& parallelism = job.parallelism;
  if (!parallelism.has_unlike_stages())
    check_tensor_ranks(reading, mamba, "parallelism.tensor_model_parallel_size",
                       parallelism.tensor_model_parallel_size);
  for (const std::int64_t size :
       std::set(parallelism.stage_tensor_sizes.begin(), parallelism.stage_tensor_sizes.end()))
    check_tensor_ranks(reading, mamba, "parallelism.stage_tensor_model_parallel_sizes", size);
  check_context_ranks(reading, job);
  if (job.training.documents)
    reading.problem("training.documents",
                    "a Mamba layer carries its state from document to document; they cannot be packed",
                    "leave it out.");
}

}  // namespace simrun
