#include "planner/layerwise_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "models/decoder.h"
#include "planner/handover.h"
#include "planner/sub_mesh.h"
#include "sim/compute_overlap.h"

namespace simrun {
namespace {

// Of what is hidden: not nothing, so that of two equally fast ways the one that exchanges less is taken.
constexpr double hidden_share = 0.02;

// Compute beside communication, which slows it (Miao et al. 2022), by the share of it that the simulator has.
double overlapped(double compute_s, double communication_s, double share) {
  return std::max(communication_s, compute_s + share * communication_s);
}

}  // namespace

LayerwiseSearch::LayerwiseSearch(const Job& job, LayerPrices& prices, const GalvatronOptions& options,
                                 const GalvatronPoint& point)
    : job_(job),
      prices_(prices),
      options_(options),
      point_(point),
      ranks_(job.world_size() / point.pipeline),
      microbatches_(job.training.global_batch_size / point.sequences) {
  std::vector<LayerSplit> splits = layer_splits(job, ranks_, options.most_split);
  const auto copies_heads = [&](std::int64_t tensor) { return copies_key_value_heads(job.model, tensor, 1); };
  // Unlike layers have one graph, and one with copied heads has operators of its own.
  const bool is_uniform = has_one_split(job) || copies_heads(point.ends.tensor) ||
                          copies_heads(tensor_ranks(point.sequences, ranks_));
  std::erase_if(splits, [&](const LayerSplit& split) {
    if (point.sequences % (ranks_ / split.sharing()) != 0) return true;
    if (point.only) return point.only->split != split;
    return split != point.ends && (is_uniform || copies_heads(split.tensor));
  });
  if (splits.empty()) return;
  make_groups(splits);
  is_possible_ = make_ways(splits) && make_ends() && std::cmp_less_equal(point.pipeline, kind_of_.size());
}

void LayerwiseSearch::make_groups(const std::vector<LayerSplit>& splits) {
  groups_.push_back(point_.ends.sharing());
  for (const LayerSplit& split : splits) groups_.push_back(split.sharing());
  std::ranges::sort(groups_);
  groups_.erase(std::unique(groups_.begin(), groups_.end()), groups_.end());
  for (const std::int64_t from : groups_) {
    change_s_.emplace_back();
    for (const std::int64_t to : groups_)
      change_s_.back().push_back(prices_.change_seconds(ranks_, point_.sequences, from, to));
  }
}

bool LayerwiseSearch::is_allowed(const LayerStrategy& strategy) const {
  if (point_.only) return strategy == *point_.only;
  if (point_.zero_stage == 3) return strategy.sharded;
  return !strategy.sharded || ranks_ > strategy.split.tensor;
}

void LayerwiseSearch::PassTimesOfLayer::add(const PassTimesOfLayer& other) {
  forward += other.forward;
  backward += other.backward;
  forward_exchange += other.forward_exchange;
  backward_exchange += other.backward_exchange;
  gather_once += other.gather_once;
  reduce_once += other.reduce_once;
  update += other.update;
}

// Of one layer or of several that hide what each other exchanges.
double LayerwiseSearch::seconds_of(const PassTimesOfLayer& times) const {
  const double share = communication_share(job_.cluster.gpu);
  const double forward = overlapped(times.forward, times.forward_exchange, share);
  const double backward = overlapped(times.backward, times.backward_exchange, share);
  const double once = overlapped(times.forward, times.forward_exchange + times.gather_once, share) - forward +
                      overlapped(times.backward, times.backward_exchange + times.reduce_once, share) -
                      backward + times.update;
  return forward + backward + once / static_cast<double>(microbatches_);
}

// Of one layer among others that hide all that it exchanges.
double LayerwiseSearch::hidden_seconds_of(const PassTimesOfLayer& times) const {
  const double share = communication_share(job_.cluster.gpu) + hidden_share;
  const double each = times.forward_exchange + times.backward_exchange;
  const double once = share * (times.gather_once + times.reduce_once) + times.update;
  return times.forward + times.backward + share * each + once / static_cast<double>(microbatches_);
}

// Seconds and bytes of a layer, or of an end, under a strategy; nothing where its ranks have no prices.
std::optional<LayerwiseSearch::LayerWay> LayerwiseSearch::priced(const LayerStrategy& strategy,
                                                                 const PartCost& part,
                                                                 const PassCosts& costs) const {
  const StepPrices* step = prices_.steps(strategy.split, point_.pipeline);
  if (step == nullptr) return std::nullopt;
  const std::int64_t data = ranks_ / strategy.split.tensor;
  const double dense = part.dense_elements, experts = part.expert_elements, elements = dense + experts;
  const double frozen = part.frozen_elements, frozen_experts = part.frozen_expert_elements;
  const std::int64_t data_of_experts = ranks_ / strategy.split.sharing_experts();
  const auto sharers = static_cast<double>(data), sharers_of_experts = static_cast<double>(data_of_experts);
  const double shards = dense / sharers + experts / sharers_of_experts;  // elements of a rank
  // Frozen weights are gathered where they are sharded, and never reduced.
  const double gathered = strategy.sharded ? 1 : 0;
  const double gather = step->gather_s(0, dense + gathered * frozen, experts + gathered * frozen_experts);
  const double reduce = step->reduce_s(0, dense, experts);
  const bool keeps_gradients = point_.zero_stage < 2 && !strategy.sharded;
  PassTimesOfLayer times{.forward = part.forward_s, .backward = part.backward_s};
  times.update = step->update_s_per_element * shards;
  // Copies of weights in fp8 are cast in a step's first pass; whoever gathers weights casts them again.
  (strategy.sharded ? times.forward : times.update) += part.cast_s;
  if (strategy.sharded) times.backward += part.cast_s;
  // The weights that a step has updated are gathered while the next one's first pass runs.
  (strategy.sharded ? times.forward_exchange : times.gather_once) = gather;
  (keeps_gradients ? times.reduce_once : times.backward_exchange) = reduce;
  if (strategy.sharded) times.backward_exchange += gather;
  LayerWay way;
  way.strategy = strategy;
  way.group =
      static_cast<std::size_t>(std::ranges::find(groups_, strategy.split.sharing()) - groups_.begin());
  way.times = times;
  way.elements = std::llround(elements + frozen + frozen_experts);
  way.seconds = point_.spreads_sharded ? hidden_seconds_of(times) : seconds_of(times);
  const double kept_frozen =
      strategy.sharded ? frozen / sharers + frozen_experts / sharers_of_experts : frozen + frozen_experts;
  way.fixed_bytes = costs.weight_bytes * (strategy.sharded ? shards : elements) +
                    costs.gradient_bytes * (keeps_gradients ? elements : shards) +
                    costs.state_bytes * shards + costs.weight_bytes * kept_frozen +
                    (strategy.sharded ? 0 : part.copy_bytes + part.frozen_copy_bytes);
  way.held_bytes = part.held_bytes;
  return way;
}

void LayerwiseSearch::add_ways(const LayerSplit& split) {
  const std::int64_t sequences = point_.sequences / (ranks_ / split.sharing());
  for (const bool recomputed : {false, true}) {
    const PassCosts* costs = prices_.passes(split, sequences, recomputed);
    if (costs == nullptr) continue;
    ways_.resize(costs->kinds.size());
    kind_of_ = costs->kind_of;
    for (std::size_t kind = 0; kind < ways_.size(); ++kind)
      for (const bool sharded : {false, true}) {
        const LayerStrategy strategy{split, sharded, recomputed};
        if (!is_allowed(strategy)) continue;
        if (const auto way = priced(strategy, costs->kinds[kind], *costs)) ways_[kind].push_back(*way);
      }
  }
}

// Whether every kind has some. What another way of one group beats in everything is left out.
bool LayerwiseSearch::make_ways(const std::vector<LayerSplit>& splits) {
  for (const LayerSplit& split : splits) add_ways(split);
  for (std::vector<LayerWay>& ways : ways_) {
    const auto key = [](const LayerWay& way) {
      return std::tuple(way.seconds, way.fixed_bytes, way.held_bytes);
    };
    std::ranges::stable_sort(ways, {}, key);
    std::vector<LayerWay> kept;
    for (const LayerWay& way : ways)
      if (std::ranges::none_of(kept, [&](const LayerWay& other) {
            return other.group == way.group && other.fixed_bytes <= way.fixed_bytes &&
                   other.held_bytes <= way.held_bytes;
          }))
        kept.push_back(way);
    ways = std::move(kept);
  }
  return !ways_.empty() && std::ranges::none_of(ways_, [](const auto& ways) { return ways.empty(); });
}

bool LayerwiseSearch::make_ends() {
  const LayerSplit& split = point_.ends;
  const std::int64_t data = ranks_ / split.sharing();
  if (point_.sequences % data != 0) return false;
  const PassCosts* costs = prices_.passes(split, point_.sequences / data, false);
  if (costs == nullptr) return false;
  const LayerStrategy strategy{split, point_.zero_stage == 3, false};
  const std::optional<LayerWay> embedding = priced(strategy, costs->embedding, *costs);
  PartCost behind = costs->loss;
  // Word embeddings that both ends have are one parameter where one stage holds both.
  if (job_.model.tie_word_embeddings && point_.pipeline == 1) behind.dense_elements = 0;
  const std::optional<LayerWay> loss = priced(strategy, behind, *costs);
  if (!embedding || !loss) return false;
  embedding_ = *embedding;
  loss_ = *loss;
  loss_.fixed_bytes += std::max(costs->last_transient - costs->first_transient, 0.0);
  room_ = costs->room_bytes;
  if (options_.max_memory > 0) room_ = std::min(room_, static_cast<double>(options_.max_memory));
  room_ -= costs->first_transient;
  if (point_.pipeline > 1) {
    const double elements =
        static_cast<double>(point_.sequences * job_.training.seq_length * job_.model.hidden_size);
    const double bytes = elements * static_cast<double>(bytes_of(job_.training.precision));
    const Mesh stage{"stage", {{"ranks", ranks_}}};
    handover_s_ = boundary_seconds(job_, stage, bytes / static_cast<double>(ranks_));
    // Gradients of word embeddings that both ends have, of which ZeRO-2 and 3 keep shards.
    const std::int64_t replicas = ranks_ / split.tensor;
    const double sharers = point_.zero_stage < 2 ? 1 : static_cast<double>(replicas);
    const auto reduced = static_cast<double>(bytes_of(job_.optimizer.grad_reduce_dtype));
    if (job_.model.tie_word_embeddings)
      ends_s_ = ends_seconds(job_, stage, reduced * static_cast<double>(loss_.elements) / sharers);
  }
  return true;
}

LayerOption LayerwiseSearch::option_of(const LayerWay& way, std::int64_t in_flight) const {
  return {way.group, way.seconds, way.fixed_bytes + static_cast<double>(in_flight) * way.held_bytes};
}

LayerOptions LayerwiseSearch::options_of(std::size_t layer, std::int64_t in_flight) const {
  LayerOptions options;
  for (const LayerWay& way : ways_[kind_of_[layer]]) options.push_back(option_of(way, in_flight));
  return options;
}

// 1F1B: a stage has started one microbatch more than the next one.
std::int64_t LayerwiseSearch::in_flight(int following) const {
  return std::min<std::int64_t>(following + 1, microbatches_);
}

ChoiceLimits LayerwiseSearch::limits(double room) const {
  return {.memory = room, .front = true, .buckets = options_.buckets};
}

// The earliest layer from which on the model goes on as from this one.
std::size_t LayerwiseSearch::same_as(std::size_t first) const {
  for (std::size_t other = 1; other < first; ++other)
    if (std::equal(kind_of_.begin() + static_cast<std::ptrdiff_t>(first), kind_of_.end(),
                   kind_of_.begin() + static_cast<std::ptrdiff_t>(other)))
      return other;
  return first;
}

LayerRun LayerwiseSearch::run_from(std::size_t first, std::int64_t in_flight,
                                   const ChoiceLimits& limits) const {
  LayerRun run(change_s_, limits);
  if (first == 0) run.add({option_of(embedding_, in_flight)});
  for (std::size_t layer = first; layer < kind_of_.size(); ++layer) run.add(options_of(layer, in_flight));
  return run;
}

// All stages are equally large, so the one that so many follow is the first exactly if these are all others.
void LayerwiseSearch::fill(StageCosts& all, int following, double room) const {
  const int layers = all.layers;
  const bool is_first = following + 1 == static_cast<int>(point_.pipeline), is_last = following == 0;
  const std::int64_t flying = in_flight(following);
  const LayerOption loss = option_of(loss_, flying);
  std::map<std::size_t, LayerRun> free, limited;
  for (int first = is_first ? 0 : 1; first < (is_first ? 1 : layers); ++first) {
    const std::size_t like = same_as(static_cast<std::size_t>(first));
    if (!free.contains(like)) free.emplace(like, run_from(like, flying, {}));
    for (int last = is_last ? layers : first + 1; last <= (is_last ? layers : layers - following); ++last) {
      const auto count = static_cast<std::size_t>(last - first + (first == 0 ? 1 : 0));
      const LayerOption* behind = is_last ? &loss : nullptr;
      std::optional<CostPoint> best = free.at(like).cheapest(count, behind);
      if (best && best->memory > limits(room).memory) {
        if (!limited.contains(like)) limited.emplace(like, run_from(like, flying, limits(room)));
        best = limited.at(like).cheapest(count, behind);
      }
      if (best) all.seconds[all.index(following, 0, first, last)] = best->cost;
    }
  }
}

StageCosts LayerwiseSearch::costs(double room) const {
  const int layers = static_cast<int>(kind_of_.size()), stages = static_cast<int>(point_.pipeline);
  StageCosts all(layers, stages, {1}, stages);
  for (int following = 0; following < stages; ++following) fill(all, following, room);
  for (int last = 1; last < layers; ++last) all.handover[all.handover_index(0, last)] = handover_s_;
  return all;
}

std::optional<double> LayerwiseSearch::lower_bound() const {
  if (!is_possible_) return std::nullopt;
  double sum = embedding_.seconds + loss_.seconds;
  for (const std::size_t kind : kind_of_) sum += ways_[kind].front().seconds;  // the fastest
  return sum + static_cast<double>(microbatches_ - 1) * sum / static_cast<double>(point_.pipeline);
}

std::optional<GalvatronPlan> LayerwiseSearch::best_plan(double share) const {
  return best_plan_within((1 - share) * room_);
}

std::optional<GalvatronPlan> LayerwiseSearch::best_plan_within(double room_bytes) const {
  if (!is_possible_ || room_bytes <= 0) return std::nullopt;
  const std::optional<StagePartition> best =
      best_partition(costs(room_bytes), static_cast<int>(microbatches_));
  return best ? std::optional(plan_of(*best, room_bytes)) : std::nullopt;
}

// What the layers of a stage together do not hide, of what each of them would have others hide.
double LayerwiseSearch::unhidden_seconds(const PlacedStage& placed,
                                         const std::vector<std::size_t>& chosen) const {
  PassTimesOfLayer all;
  double hidden = 0;
  const auto add = [&](const LayerWay& way) {
    all.add(way.times);
    hidden += way.seconds;
  };
  if (placed.first == 0) add(embedding_);
  const std::size_t ends = placed.first == 0 ? 1 : 0;
  for (std::size_t element = ends; element < chosen.size(); ++element)
    add(ways_[kind_of_[static_cast<std::size_t>(placed.first) + element - ends]][chosen[element]]);
  if (std::cmp_equal(placed.last, kind_of_.size())) add(loss_);
  return seconds_of(all) - hidden;
}

GalvatronPlan LayerwiseSearch::plan_of(const StagePartition& partition, double room) const {
  GalvatronPlan plan;
  plan.point = point_;
  plan.microbatches = microbatches_;
  plan.stage_ranks = ranks_;
  for (std::size_t s = 0; s < partition.stages.size(); ++s)
    add_stage(partition.stages[s], static_cast<int>(partition.stages.size() - 1 - s), room, plan);
  plan.estimate_s = estimate(plan);
  return plan;
}

// All stages once, and the slowest again for every other microbatch, or a stage that waits for the stages
// behind it, since only so many of its microbatches are in flight.
double LayerwiseSearch::estimate(const GalvatronPlan& plan) const {
  double period = 0, behind = 0;
  for (std::size_t s = plan.stages.size(); s-- > 0;) {
    const int following = static_cast<int>(plan.stages.size() - 1 - s);
    behind += plan.stages[s].seconds + (following > 0 ? handover_s_ : 0);
    period = std::max(period, plan.stages[s].seconds);
    if (in_flight(following) < microbatches_)
      period = std::max(period, behind / static_cast<double>(in_flight(following)));
  }
  return behind + static_cast<double>(microbatches_ - 1) * period + ends_s_;
}

// Again what the table of stages was filled with, now with its choices.
void LayerwiseSearch::add_stage(const PlacedStage& placed, int following, double room,
                                GalvatronPlan& plan) const {
  const auto first = static_cast<std::size_t>(placed.first), last = static_cast<std::size_t>(placed.last);
  const std::int64_t flying = in_flight(following);
  const LayerOption loss = option_of(loss_, flying);
  const LayerOption* behind = following == 0 ? &loss : nullptr;
  const std::size_t ends = first == 0 ? 1 : 0, count = last - first + ends;
  LayerRun run = run_from(first, flying, {});
  std::optional<CostPoint> best = run.cheapest(count, behind);
  if (best->memory > limits(room).memory) {
    run = run_from(first, flying, limits(room));
    best = run.cheapest(count, behind);
    plan.is_bound = true;
  }
  const std::vector<std::size_t> chosen = run.choose(count, behind);
  for (std::size_t layer = first; layer < last; ++layer) {
    const LayerWay& way = ways_[kind_of_[layer]][chosen[layer - first + ends]];
    plan.layers.push_back(way.strategy);
    if (way.strategy.sharded) plan.unit_elements = std::max(plan.unit_elements, way.elements);
  }
  plan.stages.push_back({placed.first, placed.last, best->cost, best->memory});
  if (point_.spreads_sharded) plan.stages.back().seconds += unhidden_seconds(placed, chosen);
  plan.bytes = std::max(plan.bytes, best->memory);
  arrange(first, last, plan.layers);
}

// Which of equal layers in a row are recomputed or sharded changes neither sum. Recomputed ones come first:
// when their backward passes write their activations again, those of the layers behind are gone. Sharded
// ones likewise, or evenly among the others, whose passes then hide what they gather and reduce.
void LayerwiseSearch::arrange(std::size_t first, std::size_t last, std::vector<LayerStrategy>& layers) const {
  for (std::size_t begin = first; begin < last;) {
    std::size_t end = begin + 1, sharded = layers[begin].sharded ? 1 : 0,
                recomputed = layers[begin].recomputed ? 1 : 0;
    for (; end < last && layers[end].split == layers[begin].split && kind_of_[end] == kind_of_[begin];
         ++end) {
      sharded += layers[end].sharded ? 1 : 0;
      recomputed += layers[end].recomputed ? 1 : 0;
    }
    const std::size_t count = end - begin;
    for (std::size_t i = 0; i < count; ++i) {
      layers[begin + i].recomputed = i < recomputed;
      layers[begin + i].sharded =
          point_.spreads_sharded ? (i + 1) * sharded / count > i * sharded / count : i < sharded;
    }
    begin = end;
  }
}

}  // namespace simrun
