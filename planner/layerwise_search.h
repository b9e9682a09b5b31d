#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/alpa_stages.h"
#include "planner/galvatron_search.h"
#include "planner/layer_prices.h"
#include "planner/layer_run.h"

namespace simrun {

// Stages of one size that take so many sequences at a time: which layers lie on which stage, and the strategy
// of each.
class LayerwiseSearch {
 public:
  // All must outlive it.
  LayerwiseSearch(const Job& job, LayerPrices& prices, const GalvatronOptions& options,
                  const GalvatronPoint& point);

  // No plan is faster by the estimate, whatever it takes of memory. Nothing where some layer has no strategy
  // or stages outnumber layers.
  std::optional<double> lower_bound() const;

  // The best by the estimate within the GPU's memory less such a share of it, or bytes.
  std::optional<GalvatronPlan> best_plan(double share) const;
  std::optional<GalvatronPlan> best_plan_within(double room_bytes) const;

 private:
  // Compute of both passes of a microbatch, what data-parallel ranks exchange beside it, in every pass and
  // once per step, and the update.
  struct PassTimesOfLayer {
    double forward = 0, backward = 0;
    double forward_exchange = 0, backward_exchange = 0;
    double gather_once = 0, reduce_once = 0, update = 0;
    void add(const PassTimesOfLayer& other);
  };
  // One strategy of one kind of layer, or the embedding's or the loss's.
  struct LayerWay {
    LayerStrategy strategy;
    std::size_t group = 0;  // of change_s_
    PassTimesOfLayer times = {};
    double seconds = 0;         // of a microbatch, with its share of what a step does once
    std::int64_t elements = 0;  // of a rank's parameters
    double fixed_bytes = 0, held_bytes = 0;
  };
  void make_groups(const std::vector<LayerSplit>& splits);
  bool make_ways(const std::vector<LayerSplit>& splits);
  bool make_ends();
  bool is_allowed(const LayerStrategy& strategy) const;
  void add_ways(const LayerSplit& split);
  std::optional<LayerWay> priced(const LayerStrategy& strategy, const PartCost& part,
                                 const PassCosts& costs) const;
  double seconds_of(const PassTimesOfLayer& times) const;
  double hidden_seconds_of(const PassTimesOfLayer& times) const;
  LayerOption option_of(const LayerWay& way, std::int64_t in_flight) const;
  LayerOptions options_of(std::size_t layer, std::int64_t in_flight) const;
  std::size_t same_as(std::size_t first) const;
  LayerRun run_from(std::size_t first, std::int64_t in_flight, const ChoiceLimits& limits) const;
  std::int64_t in_flight(int following) const;
  ChoiceLimits limits(double room) const;
  StageCosts costs(double room) const;
  void fill(StageCosts& all, int following, double room) const;
  GalvatronPlan plan_of(const StagePartition& partition, double room) const;
  double estimate(const GalvatronPlan& plan) const;
  void add_stage(const PlacedStage& placed, int following, double room, GalvatronPlan& plan) const;
  double unhidden_seconds(const PlacedStage& placed, const std::vector<std::size_t>& chosen) const;
  void arrange(std::size_t first, std::size_t last, std::vector<LayerStrategy>& layers) const;

  const Job& job_;
  LayerPrices& prices_;
  const GalvatronOptions& options_;
  const GalvatronPoint point_;
  std::int64_t ranks_ = 1, microbatches_ = 1;
  std::vector<std::int64_t> groups_;  // ranks that share a sequence, ascending
  GroupChanges change_s_;
  std::vector<std::size_t> kind_of_;         // by layer
  std::vector<std::vector<LayerWay>> ways_;  // by kind
  LayerWay embedding_, loss_;
  double room_ = 0;  // bytes of a GPU less what comes and goes within passes
  double handover_s_ = 0, ends_s_ = 0;
  bool is_possible_ = false;
};

}  // namespace simrun
