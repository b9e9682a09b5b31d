#include "planner/layer_prices.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>

#include "planner/made_if_divisible.h"
#include "planner/mesh_prices.h"
#include "planner/sub_mesh.h"

namespace simrun {
namespace {

// Of a split of the dense layers over so many ranks, those that divide the experts as well.
void add_expert_splits(const Job& job, std::int64_t ranks, LayerSplit of, std::vector<LayerSplit>& splits) {
  for (const std::int64_t tensor : std::set{std::int64_t{1}, of.tensor}) {
    of.expert_tensor = tensor;
    const std::int64_t most = std::gcd(ranks / tensor, job.model.experts.count);
    for (const std::int64_t size : std::set{std::int64_t{1}, most % 2 == 0 ? most / 2 : most, most}) {
      of.expert = size;
      splits.push_back(of);
    }
  }
}

}  // namespace

std::vector<LayerSplit> layer_splits(const Job& job, std::int64_t ranks, std::int64_t most) {
  std::vector<LayerSplit> splits;
  for (const std::int64_t tensor : prefix_products(ranks))
    for (const std::int64_t sharing : prefix_products(ranks)) {
      if (sharing % tensor != 0) continue;
      const std::int64_t context = sharing / tensor;
      // Ulysses' ranks exchange whole groups of heads (configs/context_parallel.cpp).
      const bool has_heads = context == 1 ? job.model.num_attention_heads % tensor == 0
                                          : job.model.num_key_value_heads % sharing == 0;
      if (!has_heads || tensor > std::min(most, gpus_of_domain(job.cluster)) || context > most) continue;
      if (job.model.experts.count > 0)
        add_expert_splits(job, ranks, {tensor, context}, splits);
      else
        splits.push_back({tensor, context});
    }
  return splits;
}

bool has_one_split(const Job& job) {
  return job.model.experts.count > 0 || job.training.fp8 || job.training.lora;
}

Job with_split(Job job, const LayerSplit& split) {
  Parallelism& parallelism = job.parallelism;
  parallelism.tensor_model_parallel_size = parallelism.expert_tensor_parallel_size = split.tensor;
  if (job.model.experts.count > 0) parallelism.expert_tensor_parallel_size = split.expert_tensor;
  parallelism.expert_model_parallel_size = split.expert;
  parallelism.context_parallel_size = parallelism.context_a2a_size = split.context;
  parallelism.cp_comm_type = split.context > 1 ? ContextExchange::a2a : ContextExchange::p2p;
  parallelism.context_parallel_layout = ContextLayout::contiguous;
  parallelism.sequence_parallel = split.tensor > 1;
  return job;
}

namespace {

Candidate shape_of(const Job& job, const LayerSplit& split) {
  Candidate shape;
  shape.tensor = shape.expert_tensor = split.tensor;
  if (job.model.experts.count > 0) shape.expert_tensor = split.expert_tensor;
  shape.expert = split.expert;
  shape.context = split.context;
  return shape;
}

}  // namespace

const PassCosts* LayerPrices::passes(const LayerSplit& split, std::int64_t sequences, bool recomputed) {
  const auto [slot, is_new] = passes_.try_emplace(PassKey{split, sequences, recomputed});
  if (is_new && job_.training.seq_length % split.sharing() == 0)
    slot->second = made_if_divisible([&] {
      Candidate shape = shape_of(job_, split);
      shape.micro_batch = sequences;
      shape.recompute = recomputed ? RecomputeGranularity::full : RecomputeGranularity::none;
      return PassProbes().costs(with_split(job_, split), shape);
    });
  return slot->second ? &*slot->second : nullptr;
}

const StepPrices* LayerPrices::steps(LayerSplit split, std::int64_t pipeline) {
  split.context = 1;  // its ranks sum gradients as data-parallel ones do
  const auto [slot, is_new] = steps_.try_emplace({split, pipeline});
  if (is_new)
    slot->second = made_if_divisible([&] {
      Candidate shape = shape_of(job_, split);
      shape.pipeline = pipeline;
      shape.zero_stage = 1;
      shape.data = job_.world_size() / (split.tensor * pipeline);
      return step_prices(with_split(job_, split), shape);
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
