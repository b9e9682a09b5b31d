#include "configs/moe_rules.h"

#include <fmt/format.h>

#include "configs/expert_nodes.h"
#include "configs/nearest.h"

namespace simrun {
namespace {

constexpr const char* expert_path = "parallelism.expert_model_parallel_size";
constexpr const char* expert_tensor_path = "parallelism.expert_tensor_parallel_size";

void check_split(Reading& reading, const char* path, std::int64_t whole, std::int64_t parts,
                 const std::string& what) {
  if (whole > 0 && parts > 0 && whole % parts != 0)
    reading.problem(path, fmt::format("{} {} do not split into {}", whole, what, parts),
                    nearest_divisors(whole, parts));
}

void check_ranks(Reading& reading, const Parallelism& parallelism) {
  const std::int64_t ep = parallelism.expert_model_parallel_size;
  const std::int64_t etp = parallelism.expert_tensor_parallel_size;
  const std::int64_t tp = parallelism.tensor_model_parallel_size;
  const std::int64_t cp = parallelism.context_parallel_size;
  const std::int64_t dp = parallelism.data_parallel_size;
  if (ep == 0 || etp == 0 || tp == 0 || cp == 0 || dp == 0) return;
  const std::int64_t ranks = tp * cp * dp;  // at most limits::world
  if (ranks % etp != 0)
    return reading.problem(
        expert_tensor_path,
        fmt::format("the {} ranks of a pipeline stage (tensor {} x context {} x data {}) do "
                    "not divide by expert tensor {}",
                    ranks, tp, cp, dp, etp),
        nearest_divisors(ranks, etp));
  if (ranks / etp % ep != 0)
    reading.problem(expert_path,
                    fmt::format("the {} ranks of a pipeline stage (tensor {} x context {} x data {}) do not "
                                "divide by expert {} x expert tensor {} = {}",
                                ranks, tp, cp, dp, ep, etp, ep * etp),
                    nearest_divisors(ranks / etp, ep));
}

void check_dispatcher(Reading& reading, const Job& job) {
  constexpr const char* path = "moe.token_dispatcher";
  const bool is_deepep = job.moe.token_dispatcher == TokenDispatcher::deepep;
  const Parallelism& parallelism = job.parallelism;
  // As Megatron-LM: only its all-to-all pads experts to a capacity.
  const bool is_einsum = job.moe.token_dispatcher == TokenDispatcher::einsum;
  if (job.moe.capacity_factor > 0 && job.moe.token_dispatcher != TokenDispatcher::alltoall && !is_einsum)
    reading.problem("moe.capacity_factor",
                    fmt::format("a capacity drops and pads rows of the alltoall dispatcher, not of {}",
                                is_deepep ? "deepep" : "allgather"),
                    "leave it out, or token_dispatcher: alltoall.");
  if (is_einsum && job.moe.capacity_factor == 0)
    reading.problem(path, "masks have a place for every row that an expert takes, so experts have a capacity",
                    "write moe.capacity_factor; 1: as many rows as tokens choose experts.");
  if (is_einsum && job.model.experts.scales_input)
    reading.problem(path, "masks do not scale what experts read (model_type: llama4_text)",
                    "token_dispatcher: alltoall does.");
  if (job.moe.group_size > 0 && !is_einsum)
    reading.problem("moe.group_size", "only token_dispatcher: einsum cuts tokens into groups",
                    "leave it out.");
  if (is_deepep && parallelism.tensor_model_parallel_size > 1 && !parallelism.sequence_parallel)
    reading.problem(path,
                    fmt::format("deepep sends a token from one rank; {} tensor parallel ranks without "
                                "sequence_parallel have the same tokens",
                                parallelism.tensor_model_parallel_size),
                    "parallelism.sequence_parallel: true does.");
  const std::int64_t ep = parallelism.expert_model_parallel_size;
  const std::int64_t etp = parallelism.expert_tensor_parallel_size;
  const bool divides = ep > 0 && etp > 0 && parallelism.data_parallel_size > 0 &&
                       parallelism.tensor_model_parallel_size * parallelism.context_parallel_size *
                               parallelism.data_parallel_size % (ep * etp) ==
                           0;
  if (is_deepep && divides && job.cluster.gpus_per_node > 0 && !expert_nodes(job))
    reading.problem(
        path,
        fmt::format("deepep exchanges over nodes, then inside them, and groups of expert {} x expert "
                    "tensor {} ranks do not lie alike on nodes of {} GPUs",
                    ep, etp, job.cluster.gpus_per_node),
        "a group that fits into a node, or fills some, does.");
}

}  // namespace

void apply_moe_rules(Reading& reading, const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  const ExpertConfig& experts = job.model.experts;
  if (job.model.num_layers == 0) return;
  if (experts.count == 0) {
    for (const auto& [path, size] : {std::pair{expert_path, parallelism.expert_model_parallel_size},
                                     std::pair{expert_tensor_path, parallelism.expert_tensor_parallel_size}})
      if (size > 1)
        reading.problem(path, fmt::format("{} ranks for experts, and the model has none", size), "1 does.");
    return;
  }
  check_split(reading, expert_path, experts.count, parallelism.expert_model_parallel_size, "experts");
  const std::int64_t etp = parallelism.expert_tensor_parallel_size;
  if (experts.ffn_hidden_size > 0 && etp > 0 && experts.ffn_hidden_size % etp != 0)
    reading.problem(expert_tensor_path,
                    fmt::format("the experts' feed-forward size {} does not split into expert tensor {}",
                                experts.ffn_hidden_size, etp),
                    nearest_divisors(experts.ffn_hidden_size, etp));
  check_ranks(reading, parallelism);
  check_dispatcher(reading, job);
  const std::optional<ExpertHistogram>& histogram = job.moe.histogram;
  if (histogram && static_cast<std::int64_t>(histogram->tokens.size()) != experts.count)
    reading.problem("moe.histogram", fmt::format("'{}' has {} experts; the model has {}", histogram->path,
                                                 histogram->tokens.size(), experts.count));
}

}  // namespace simrun
