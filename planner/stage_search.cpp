#include "planner/stage_search.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "planner/choice_chain.h"
#include "planner/handover.h"
#include "planner/tied_choices.h"

namespace simrun {

// Of one mesh, by microbatches in flight. Without a limit: with one and with two of them, which say what each
// further one takes.
struct StageSearch::Fronts {
  StageFronts one, two;
  std::map<std::int64_t, StageFronts> limited = {};
  explicit Fronts(const StageGraph& graph) : one(graph, 1, {}), two(graph, 2, {}) {}
};

StageSearch::StageSearch(const Job& job, const AlpaOptions& options, const SearchPoint& point)
    : job_(job), options_(options), point_(point) {
  job_.optimizer.zero_stage = point.zero_stage;
  microbatches_ = job.training.global_batch_size / point.sequences;
  budget_ =
      options.memory_share * static_cast<double>(job.cluster.gpu.memory_bytes - job.cluster.reserved_bytes);
  make_graphs();
  if (!graphs_.empty()) make_units();
}

void StageSearch::make_graphs() {
  const std::int64_t devices = job_.world_size() / point_.pipeline;
  for (const std::int64_t x : prefix_products(devices)) {
    const LogicalMesh mesh{x, devices / x};
    if (options_.mesh && (mesh.x != options_.mesh->x || mesh.y != options_.mesh->y)) continue;
    const StageShape shape{mesh, point_.sequences, microbatches_, point_.pipeline,
                           point_.hides_data_parallel};
    try {
      graphs_.push_back(stage_graph(job_, shape));
      meshes_.push_back(mesh);
    } catch (const std::invalid_argument&) {
      // Too few sequences for it.
    }
  }
}

// Layers, or clusters of them; what is before the first and behind the last goes with these.
void StageSearch::make_units() {
  const std::int32_t segments = graphs_.front().segments();
  const std::int64_t layers = layers_in(job_.parallelism.stages);
  if (segments != layers + 2)
    throw std::invalid_argument("a model whose layers are not one chain is not searched");
  unit_ends_ = !options_.stage_ends.empty()
                   ? options_.stage_ends
                   : stage_units(static_cast<int>(layers), static_cast<int>(point_.pipeline),
                                 static_cast<int>(options_.most_clusters));
}

std::int32_t StageSearch::first_segment(int unit) const {
  return unit == 0 ? 0 : unit_ends_[static_cast<std::size_t>(unit - 1)] + 1;
}

// Behind it.
std::int32_t StageSearch::last_segment(int unit) const {
  const std::int32_t end = unit_ends_[static_cast<std::size_t>(unit)] + 1;
  return static_cast<std::size_t>(unit) + 1 == unit_ends_.size() ? end + 1 : end;
}

// 1F1B: a stage has started one microbatch more than the next one.
std::int64_t StageSearch::in_flight(int following) const {
  return std::min<std::int64_t>(following + 1, microbatches_);
}

StageCosts StageSearch::costs(Memory memory) const {
  const int units = static_cast<int>(unit_ends_.size());
  const int pipeline = static_cast<int>(point_.pipeline);
  StageCosts all(units, pipeline, std::vector<int>(graphs_.size(), 1), pipeline);
  for (int mesh = 0; mesh < static_cast<int>(graphs_.size()); ++mesh) {
    const StageGraph& graph = graphs_[static_cast<std::size_t>(mesh)];
    Fronts fronts(graph);
    for (int following = 0; following < pipeline; ++following) fill(all, {mesh, following}, memory, fronts);
    const double handover = handover_seconds(job_, graph, meshes_[static_cast<std::size_t>(mesh)]);
    for (int last = 1; last < units; ++last) all.handover[all.handover_index(mesh, last)] = handover;
  }
  return all;
}

// All stages are equally large, so the one that so many follow is the first exactly if these are all others.
void StageSearch::fill(StageCosts& all, Kind kind, Memory memory, Fronts& fronts) const {
  const bool is_first = kind.following + 1 == static_cast<int>(point_.pipeline);
  for (int first = is_first ? 0 : 1; first < (is_first ? 1 : all.layers); ++first) {
    if (memory == Memory::counts) {
      fill_from(all, kind, first, fronts);
      continue;
    }
    const SegmentFronts& cheapest = fronts.one.from(first_segment(first));
    for (int last = first + 1; last <= all.layers; ++last)
      if (const auto& front = cheapest[static_cast<std::size_t>(last_segment(last - 1) - 1)]; !front.empty())
        all.seconds[all.index(kind.following, kind.mesh, first, last)] = front.front().cost;
  }
}

// The cheapest layouts where these fit, else the cheapest that do.
void StageSearch::fill_from(StageCosts& all, Kind kind, int first, Fronts& fronts) const {
  const std::int64_t flying = in_flight(kind.following);
  const std::int32_t segment = first_segment(first);
  const SegmentFronts &of_one = fronts.one.from(segment), &of_two = fronts.two.from(segment);
  const SegmentFronts* fitting = nullptr;
  for (int last = first + 1; last <= all.layers; ++last) {
    const auto end = static_cast<std::size_t>(last_segment(last - 1) - 1);
    if (of_one[end].empty() || of_two[end].empty()) continue;
    const CostPoint cheapest = of_one[end].front();
    const double per_microbatch = of_two[end].front().memory - cheapest.memory;
    double& seconds = all.seconds[all.index(kind.following, kind.mesh, first, last)];
    if (cheapest.memory + static_cast<double>(flying - 1) * per_microbatch <= budget_) {
      seconds = cheapest.cost;
      continue;
    }
    if (fitting == nullptr) {
      const ChoiceLimits limits{.memory = budget_, .front = true, .buckets = options_.buckets};
      const StageGraph& graph = graphs_[static_cast<std::size_t>(kind.mesh)];
      fitting = &fronts.limited.try_emplace(flying, graph, flying, limits).first->second.from(segment);
    }
    if (!(*fitting)[end].empty()) seconds = (*fitting)[end].back().cost;
  }
}

std::optional<double> StageSearch::lower_bound() const {
  if (graphs_.empty() || std::cmp_greater(point_.pipeline, unit_ends_.size())) return std::nullopt;
  const std::optional<StagePartition> best =
      best_partition(costs(Memory::ignored), static_cast<int>(microbatches_));
  return best ? std::optional(best->seconds) : std::nullopt;
}

std::optional<AlpaPlan> StageSearch::best_plan() const {
  if (graphs_.empty() || std::cmp_greater(point_.pipeline, unit_ends_.size())) return std::nullopt;
  const std::optional<StagePartition> best =
      best_partition(costs(Memory::counts), static_cast<int>(microbatches_));
  return best ? plan_of(*best) : std::nullopt;
}

StageLayouts StageSearch::layouts_of_stage(const PlacedStage& placed, int following) const {
  const auto mesh = static_cast<std::size_t>(placed.mesh);
  const StageRange range{first_segment(placed.first), last_segment(placed.last - 1), in_flight(following)};
  StageLayouts layouts{&graphs_[mesh], choices_of(graphs_[mesh], range), {}, meshes_[mesh]};
  const ChoiceLimits limits{.memory = budget_, .front = true, .buckets = options_.buckets, .choices = 1};
  if (const std::vector<Choice> best = choose_strategies(layouts.part.choices, limits); !best.empty())
    layouts.chosen = best.front();
  return layouts;
}

// Where the first and the last stage share a parameter, both must have it in one layout: the one that costs
// both together least.
bool StageSearch::settle_tied(const StagePartition& partition, std::vector<StageLayouts>& layouts) const {
  if (partition.stages.size() == 1) return true;
  const ChoiceLimits limits{.memory = budget_, .front = true, .buckets = options_.buckets, .choices = 1};
  return choose_tied(layouts.front(), layouts.back(), limits);
}

// As the dynamic program has it, and what it cannot know of a whole partition: a stage that waits for the
// stages behind it, since only so many of its microbatches are in flight, and the sum of gradients of
// parameters that the ends share.
double StageSearch::estimate(const StagePartition& partition) const {
  const auto mesh = static_cast<std::size_t>(partition.stages.front().mesh);
  const double handover = handover_seconds(job_, graphs_[mesh], meshes_[mesh]);
  double slowest = 0, period = 0, behind = 0;
  for (std::size_t s = partition.stages.size(); s-- > 0;) {
    const int following = static_cast<int>(partition.stages.size() - 1 - s);
    behind += partition.stages[s].seconds + (following > 0 ? handover : 0);
    slowest = std::max(slowest, partition.stages[s].seconds);
    if (in_flight(following) < microbatches_)
      period = std::max(period, behind / static_cast<double>(in_flight(following)));
  }
  const double shared =
      partition.stages.size() > 1 ? shared_parameter_seconds(job_, graphs_[mesh], meshes_[mesh]) : 0;
  return partition.seconds + shared +
         static_cast<double>(microbatches_ - 1) * (std::max(slowest, period) - slowest);
}

std::optional<AlpaPlan> StageSearch::plan_of(const StagePartition& partition) const {
  AlpaPlan plan;
  plan.pipeline = point_.pipeline;
  plan.microbatches = microbatches_;
  plan.sequences = point_.sequences;
  plan.zero_stage = point_.zero_stage;
  plan.hides_data_parallel = point_.hides_data_parallel;
  plan.estimate_s = estimate(partition);
  std::vector<StageLayouts> layouts;
  for (std::size_t s = 0; s < partition.stages.size(); ++s)
    layouts.push_back(
        layouts_of_stage(partition.stages[s], static_cast<int>(partition.stages.size() - 1 - s)));
  if (!settle_tied(partition, layouts)) return std::nullopt;
  for (std::size_t s = 0; s < partition.stages.size(); ++s) {
    const PlacedStage& placed = partition.stages[s];
    if (layouts[s].chosen.strategies.empty()) return std::nullopt;
    const std::int64_t first = placed.first == 0 ? 0 : unit_ends_[static_cast<std::size_t>(placed.first - 1)];
    plan.stages.push_back({first, unit_ends_[static_cast<std::size_t>(placed.last - 1)], layouts[s].mesh,
                           layouts[s].chosen.cost, layouts[s].chosen.memory});
  }
  plan.tensor = tensor_ranks(point_.sequences, meshes_.front().devices());
  add_rules(layouts, plan);
  return plan;
}

}  // namespace simrun
