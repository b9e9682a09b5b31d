// How data parallelism is cut in two: hybrid sharding, and the hierarchical all-reduce.
#include <fmt/format.h>

#include "configs/job_rules.h"

namespace simrun {
namespace {

std::string divisors_of(std::int64_t value) {
  std::string words;
  for (std::int64_t d = 1; d <= value; ++d)
    if (value % d == 0) words += fmt::format("{}{}", d == 1 ? "" : d == value ? " and " : ", ", d);
  return words + (value == 1 ? " does." : " do.");
}

void check_instances(Reading& reading, const Job& job) {
  const std::int64_t instances = job.optimizer.num_distributed_optimizer_instances;
  const std::int64_t dp = job.parallelism.data_parallel_size;
  const std::string path = "optimizer.num_distributed_optimizer_instances";
  if (instances <= 1 || dp == 0) return;
  if (job.optimizer.zero_stage == 0)
    return reading.problem(path, fmt::format("{} instances need zero_stage 1, 2 or 3", instances),
                           "without ZeRO every data-parallel rank is an instance.");
  if (dp % instances != 0)
    return reading.problem(
        path,
        fmt::format("{} data-parallel ranks do not divide over {} instances of the optimizer", dp, instances),
        divisors_of(dp));
  const Parallelism& parallelism = job.parallelism;
  const std::int64_t shard =
      parallelism.tensor_model_parallel_size * parallelism.context_parallel_size * (dp / instances);
  const std::int64_t experts =
      parallelism.expert_tensor_parallel_size * parallelism.expert_model_parallel_size;
  if (shard % experts != 0 && experts % shard != 0)
    reading.problem(
        path,
        fmt::format("an instance's {} neighbouring ranks and the {} of an expert group cut across "
                    "each other",
                    shard, experts),
        "one must be a multiple of the other.");
}

void check_hierarchy(Reading& reading, const Job& job) {
  if (job.optimizer.all_reduce != AllReduceKind::hierarchical) return;
  const std::string path = "optimizer.all_reduce";
  if (job.optimizer.zero_stage > 0)
    return reading.problem(path,
                           fmt::format("zero_stage {} has no all-reduce to cut", job.optimizer.zero_stage),
                           "its hierarchical form is num_distributed_optimizer_instances: one per node.");
  const std::int64_t dp = job.parallelism.data_parallel_size;
  const std::int64_t one = job.parallelism.tensor_model_parallel_size * job.parallelism.context_parallel_size;
  const std::int64_t gpus = job.cluster.gpus_per_node;
  if (dp == 0 || one == 0 || gpus == 0) return;
  const std::int64_t inner = gpus / one;
  if (gpus % one != 0 || inner < 2 || dp % inner != 0 || dp / inner < 2)
    reading.problem(path,
                    fmt::format("hierarchical needs two or more data-parallel ranks in each of two or more "
                                "nodes, not {} ranks of tensor x context {} on nodes of {} GPUs",
                                dp, one, gpus),
                    "flat does.");
}

}  // namespace

void apply_sharding_rules(Reading& reading, const Job& job) {
  check_instances(reading, job);
  check_hierarchy(reading, job);
}

}  // namespace simrun
