// Jobs of models with layers that carry a state from token to token: Mamba-2, Gated DeltaNet.
#include <fmt/format.h>

#include <set>

#include "configs/job_rules.h"
#include "configs/nearest.h"
#include "configs/section_reader.h"

namespace simrun {
namespace {

// What ranks divide of such layers.
struct StateHeads {
  std::int64_t count = 0;
  const char *name = "", *layer = "";
};

void check_tensor_ranks(Reading& reading, const StateHeads& heads, const char* path, std::int64_t tp) {
  if (tp > 0 && heads.count % tp != 0)
    reading.problem(path,
                    fmt::format("{} {} do not split into tensor parallel {}", heads.count, heads.name, tp),
                    nearest_divisors(heads.count, tp));
}

void check_context_ranks(Reading& reading, const StateHeads& heads, const Parallelism& parallelism) {
  const std::int64_t tp = parallelism.tensor_model_parallel_size, cp = parallelism.context_parallel_size;
  if (cp <= 1 || tp == 0) return;
  if (heads.count % tp == 0 && heads.count / tp % cp != 0)
    reading.problem("parallelism.context_parallel_size",
                    fmt::format("{} {} of a tensor-parallel rank ({} / {}) do not split over {} "
                                "context-parallel ranks",
                                heads.count / tp, heads.name, heads.count, tp, cp),
                    nearest_divisors(heads.count / tp, cp));
}

void check_heads(Reading& reading, const Job& job, const StateHeads& heads) {
  const Parallelism& parallelism = job.parallelism;
  if (!parallelism.has_unlike_stages())
    check_tensor_ranks(reading, heads, "parallelism.tensor_model_parallel_size",
                       parallelism.tensor_model_parallel_size);
  for (const std::int64_t size :
       std::set(parallelism.stage_tensor_sizes.begin(), parallelism.stage_tensor_sizes.end()))
    check_tensor_ranks(reading, heads, "parallelism.stage_tensor_model_parallel_sizes", size);
  check_context_ranks(reading, heads, parallelism);
  if (job.training.documents)
    reading.problem(
        "training.documents",
        fmt::format("{} carries its state from document to document; they cannot be packed", heads.layer),
        "leave it out.");
}

}  // namespace

void check_recurrent_layers(Reading& reading, const Job& job) {
  const ModelConfig& model = job.model;
  if (model.mamba.on())
    check_heads(reading, job, {model.mamba.num_groups, "groups of Mamba heads", "a Mamba layer"});
  if (model.delta_net.on())
    check_heads(reading, job,
                {model.delta_net.num_key_heads, "key heads of Gated DeltaNet", "a Gated DeltaNet layer"});
}

}  // namespace simrun
