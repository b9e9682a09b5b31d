#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "configs/job.h"
#include "planner/pass_costs.h"
#include "planner/step_prices.h"

namespace simrun {

// How a layer divides the ranks of its stage, neighbours first: Megatron's tensor parallel with sequence
// parallel, Ulysses (heads for sequences), and data parallel over the rest. Experts lie over the same ranks
// by sizes of their own.
struct LayerSplit {
  std::int64_t tensor = 1, context = 1;
  std::int64_t expert = 1, expert_tensor = 1;                              // without experts 1
  auto operator<=>(const LayerSplit&) const = default;                     // NOLINT(modernize-use-nullptr)
  std::int64_t sharing() const { return tensor * context; }                // ranks that share a sequence
  std::int64_t sharing_experts() const { return expert * expert_tensor; }  // that share a layer's experts
};

// What a layer does of its own (Miao et al. 2022: the leaves of Galvatron's decision tree).
struct LayerStrategy {
  LayerSplit split;
  bool sharded = false;                                    // ZeRO-3 over its data-parallel and Ulysses ranks
  bool recomputed = false;                                 // the forward pass again before the backward pass
  auto operator<=>(const LayerStrategy&) const = default;  // NOLINT(modernize-use-nullptr)
};

// Prices of layers by strategy, from compiled probes of few layers, each made once. Not thread-safe.
class LayerPrices {
 public:
  // REQUIRES: unsearched_by_galvatron(job) is empty (planner/unsearched.h). The job must outlive it.
  explicit LayerPrices(const Job& job) : job_(job) {}

  // Of microbatches of so many sequences per data-parallel rank. Null where the sizes do not divide.
  const PassCosts* passes(const LayerSplit& split, std::int64_t sequences, bool recomputed);
  // Of the split's tensor-parallel groups, and groups of experts, in a pipeline of so many stages. Null
  // likewise.
  const StepPrices* steps(LayerSplit split, std::int64_t pipeline);
  // Of handing a microbatch of so many sequences from layers where `from` ranks share a sequence to layers
  // where `to` do, and its gradient back.
  double change_seconds(std::int64_t stage_ranks, std::int64_t sequences, std::int64_t from, std::int64_t to);
  std::int64_t probes() const { return static_cast<std::int64_t>(passes_.size() + steps_.size()); }

 private:
  using PassKey = std::tuple<LayerSplit, std::int64_t, bool>;
  const Job& job_;
  std::map<PassKey, std::optional<PassCosts>> passes_;
  std::map<std::pair<LayerSplit, std::int64_t>, std::optional<StepPrices>> steps_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::pair<double, double>> changes_;
};

// Splits of a stage of so many ranks: tensor parallel within a node or an NVLink domain, and no more than
// `most` ranks of either kind; experts over all of the ranks that divide them, over half of these, or not.
std::vector<LayerSplit> layer_splits(const Job& job, std::int64_t ranks, std::int64_t most);

// Whether all layers of a plan have one split, that of the embedding and the loss, and differ in recompute
// and sharding alone: layouts of single layers say nothing of how experts or fp8 are divided.
bool has_one_split(const Job& job);

// The job with layers of one split over a stage of so many ranks, as a uniform job would write it.
Job with_split(Job job, const LayerSplit& split);

}  // namespace simrun
