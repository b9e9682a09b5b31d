#include "configs/expert_nodes.h"

#include <algorithm>

namespace simrun {
namespace {

std::optional<ExpertNodes> on_nodes_of(std::int64_t node, const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  const std::int64_t stage = parallelism.tensor_model_parallel_size * parallelism.context_parallel_size *
                             parallelism.data_parallel_size;
  const std::int64_t ep = parallelism.expert_model_parallel_size;
  const std::int64_t etp = parallelism.expert_tensor_parallel_size;
  if (stage <= 0 || ep <= 0 || etp <= 0 || node <= 0) return {};
  const std::int64_t group = etp * ep;  // neighbouring GPUs
  if (stage % group != 0) return {};
  if (node % group == 0) return ExpertNodes{1, ep};
  if (etp >= node) return etp % node == 0 ? std::optional(ExpertNodes{ep, 1}) : std::nullopt;
  if (node % etp != 0 || ep % (node / etp) != 0) return {};
  return ExpertNodes{ep / (node / etp), node / etp};
}

}  // namespace

std::optional<ExpertNodes> expert_nodes(const Job& job) {
  const std::int64_t node = job.cluster.gpus_per_node;
  const std::int64_t joined = std::min(job.cluster.nodes, job.cluster.wiring.nodes_per_domain);
  if (joined > 1)
    if (const std::optional<ExpertNodes> on_domains = on_nodes_of(node * joined, job)) return on_domains;
  return on_nodes_of(node, job);
}

}  // namespace simrun
