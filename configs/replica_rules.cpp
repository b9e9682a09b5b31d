#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "configs/job_rules.h"

namespace simrun {
namespace {

constexpr const char* replica_batches = "training.replica_micro_batch_sizes";

bool add_up(Reading& reading, const Job& job) {
  const std::vector<std::int64_t>& sizes = job.training.replica_micro_batch_sizes;
  const std::int64_t dp = job.parallelism.data_parallel_size;
  if (static_cast<std::int64_t>(sizes.size()) != dp) {
    reading.problem(replica_batches, fmt::format("{} sizes for data parallel {}", sizes.size(), dp),
                    "write one for each data-parallel rank.");
    return false;
  }
  const std::int64_t sum = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  const std::int64_t wanted = job.training.micro_batch_size * dp;
  if (sum == wanted) return true;
  reading.problem(replica_batches,
                  fmt::format("the sizes [{}] sum to {}, not to micro_batch_size {} x data parallel {} = {}",
                              fmt::join(sizes, ", "), sum, job.training.micro_batch_size, dp, wanted),
                  sum % dp == 0 ? fmt::format("micro_batch_size: {} fits them.", sum / dp) : "");
  return false;
}

// What deals sequences out over replicas by counts of its own.
void check_combinations(Reading& reading, const Job& job) {
  const auto refuse = [&](const char* with) {
    reading.problem(replica_batches,
                    fmt::format("replicas with unlike batches and {} are not supported together", with));
  };
  if (job.model.experts.count > 0) refuse("experts");
  if (job.training.documents) refuse("packed documents");
  if (job.training.fp8) refuse("fp8");
  if (job.optimizer.parameter_server) refuse("parameter servers");
  if (family_as<VisionLanguageConfig>(job.model.family) != nullptr) refuse("a vision tower");
  if (job.recompute.granularity == RecomputeGranularity::automatic) refuse("recompute.granularity: auto");
}

}  // namespace

void apply_replica_rules(Reading& reading, Job& job) {
  std::vector<std::int64_t>& sizes = job.training.replica_micro_batch_sizes;
  if (sizes.empty() || job.parallelism.data_parallel_size == 0 || job.training.micro_batch_size == 0) return;
  if (!add_up(reading, job)) return;
  if (std::ranges::adjacent_find(sizes, std::not_equal_to<>()) == sizes.end())
    sizes.clear();
  else
    check_combinations(reading, job);
}

}  // namespace simrun
