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

// Layers that are sharded beside others that are not.
void check_sharded_layers(Reading& reading, const Job& job) {
  const std::string path = "optimizer.zero_3_layers";
  const OptimizerConfig& optimizer = job.optimizer;
  if (optimizer.zero_3_layers.empty()) return;
  if (optimizer.all_reduce == AllReduceKind::hierarchical)
    reading.problem(path, "zero_3_layers beside all_reduce: hierarchical is not supported yet",
                    "all_reduce: flat.");
  if (optimizer.parameter_server)
    reading.problem(path, "zero_3_layers would divide what the parameter servers keep",
                    "leave one of the two out.");
}

// A reduction in another type casts whole buckets behind every pass.
void check_compression(Reading& reading, const Job& job) {
  const OptimizerConfig& optimizer = job.optimizer;
  if (optimizer.grad_reduce_dtype == optimizer.main_grads_dtype) return;
  if (optimizer.no_sync)
    reading.problem("optimizer.no_sync", "no_sync with a grad_reduce_dtype of its own is not supported yet",
                    "grad_reduce_dtype of main_grads_dtype, or no_sync: false.");
  if (optimizer.all_reduce == AllReduceKind::hierarchical)
    reading.problem("optimizer.all_reduce",
                    "hierarchical with a grad_reduce_dtype of its own is not supported yet",
                    "grad_reduce_dtype of main_grads_dtype, or all_reduce: flat.");
}

}  // namespace

void apply_sharding_rules(Reading& reading, const Job& job) {
  check_instances(reading, job);
  check_hierarchy(reading, job);
  check_sharded_layers(reading, job);
  check_compression(reading, job);
}

}  // namespace simrun
