#include "configs/expert_nodes.h"

#include <algorithm>

namespace simrun {

std::optional<ExpertNodes> expert_nodes(const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  const std::int64_t stage = parallelism.tensor_model_parallel_size * parallelism.context_parallel_size *
                             parallelism.data_parallel_size;
  const std::int64_t ep = parallelism.expert_model_parallel_size;
  const std::int64_t etp = parallelism.expert_tensor_parallel_size;
  const std::int64_t node = job.cluster.gpus_per_node;
  if (stage <= 0 || ep <= 0 || etp <= 0 || node <= 0) return {};
  const std::int64_t group = etp * ep;  // neighbouring GPUs
  if (stage % group != 0) return {};
  if (node % group == 0) return ExpertNodes{1, ep};
  if (etp >= node) return etp % node == 0 ? std::optional(ExpertNodes{ep, 1}) : std::nullopt;
  if (node % etp != 0 || ep % (node / etp) != 0) return {};
  return ExpertNodes{ep / (node / etp), node / etp};
}

}  // namespace simrun
