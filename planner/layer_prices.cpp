#include "planner/layer_prices.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "planner/made_if_divisible.h"
#include "planner/mesh_prices.h"
#include "planner/sub_mesh.h"

namespace simrun {
std::vector<LayerSplit> layer_splits(const Job& job, std::int64_t ranks, std::int64_t most) {
  std::vector<LayerSplit> splits;
  for (const std::int64_t tensor : prefix_products(ranks))
    for (const std::int64_t sharing : prefix_products(ranks)) {
      if (sharing % tensor != 0) continue;
      const std::int64_t context = sharing / tensor;
      // Ulysses' ranks exchange whole groups of heads (configs/context_parallel.cpp).
      const bool has_heads = context == 1 ? job.model.num_attention_heads % tensor == 0
                                          : job.model.num_key_value_heads % sharing == 0;
      if (has_heads && tensor <= std::min(most, job.cluster.gpus_per_node) && context <= most)
        splits.push_back({tensor, context});
    }
  return splits;
}

Job with_split(Job job, const LayerSplit& split) {
  Parallelism& parallelism = job.parallelism;
  parallelism.tensor_model_parallel_size = parallelism.expert_tensor_parallel_size = split.tensor;
  parallelism.context_parallel_size = parallelism.context_a2a_size = split.context;
  parallelism.cp_comm_type = split.context > 1 ? ContextExchange::a2a : ContextExchange::p2p;
  parallelism.context_parallel_layout = ContextLayout::contiguous;
  parallelism.sequence_parallel = split.tensor > 1;
  return job;
}

const PassCosts* LayerPrices::passes(const LayerSplit& split, std::int64_t sequences, bool recomputed) {
  const auto [slot, is_new] = passes_.try_emplace(PassKey{split, sequences, recomputed});
  if (is_new && job_.training.seq_length % split.sharing() == 0)
    slot->second = made_if_divisible([&] {
      Candidate shape;
      shape.tensor = shape.expert_tensor = split.tensor;
      shape.context = split.context;
      shape.micro_batch = sequences;
      shape.recompute = recomputed ? RecomputeGranularity::full : RecomputeGranularity::none;
      return PassProbes().costs(with_split(job_, split), shape);
    });
  return slot->second ? &*slot->second : nullptr;
}

const StepPrices* LayerPrices::steps(std::int64_t tensor, std::int64_t pipeline) {
  const auto [slot, is_new] = steps_.try_emplace({tensor, pipeline});
  if (is_new)
    slot->second = made_if_divisible([&] {
      Candidate shape;
      shape.tensor = shape.expert_tensor = tensor;
      shape.pipeline = pipeline;
      shape.zero_stage = 1;
      shape.data = job_.world_size() / (tensor * pipeline);
      return step_prices(with_split(job_, {tensor, 1}), shape);
    });
  return slot->second ? &*slot->second : nullptr;
}

// The residual stream lies over the same ranks in both; those that the larger group has more of than the
// smaller one hold parts of sequences before and whole ones behind, or the other way.
double LayerPrices::change_seconds(std::int64_t stage_ranks, std::int64_t sequences, std::int64_t from,
                                   std::int64_t to) {
  if (from == to) return 0;
  const std::int64_t inner = std::min(from, to), outer = std::max(from, to);
  const auto [slot, is_new] = changes_.try_emplace({stage_ranks, inner, outer});
  auto& [latency, per_byte] = slot->second;
  if (is_new) {
    MeshShape shape;
    shape.dp = stage_ranks;
    shape.own = {{"inner", inner}, {"between", outer / inner}, {"outer", stage_ranks / outer}};
    const DeviceMesh mesh = device_mesh(shape);
    CollectivePrices prices(job_.cluster);
    CollectivePrices::Price& price = prices.price(mesh.mesh, Opcode::all_to_all, mesh.axes("between"));
    constexpr double small = 0x1p20, large = 0x1p26;  // bytes of a rank
    const double of_small = price.seconds(small), of_large = price.seconds(large);
    per_byte = (of_large - of_small) / (large - small);
    latency = std::max(of_small - small * per_byte, 0.0);
  }
  const double tokens = static_cast<double>(sequences * job_.training.seq_length);
  const double bytes = tokens * static_cast<double>(job_.model.hidden_size) *
                       static_cast<double>(bytes_of(job_.training.precision)) /
                       static_cast<double>(stage_ranks);
  return 2 * (latency + bytes * per_byte);
}

}  // namespace simrun
