#include "planner/stage_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <utility>

#include "planner/choice_chain.h"
#include "planner/handover.h"
#include "planner/tied_choices.h"

namespace simrun {

// Of one mesh without a limit, with one and with two microbatches in flight, which say what each further one
// takes.
struct StageSearch::Fronts {
  StageFronts one, two;
  explicit Fronts(const StageGraph& graph) : one(graph, 1, {}), two(graph, 2, {}) {}
};

struct StageSearch::Table {
  StageCosts costs;
  std::vector<bool> is_bound = {};  // by StageCosts::index: fits at no less
  std::vector<double> bytes = {};   // likewise, where memory counts: of the cheapest layouts
};

// Of unlike sizes few are enough: it is where the work of stages differs that they help.
static int most_stages_of(const SearchPoint& point, std::int64_t layers) {
  constexpr std::int64_t most_unlike = 8;
  return static_cast<int>(point.unlike ? std::min(most_unlike, layers) : point.pipeline);
}

StageSearch::StageSearch(const Job& job, const AlpaOptions& options, const SearchPoint& point,
                         CollectivePrices& collectives)
    : job_(job), options_(options), point_(point) {
  job_.optimizer.zero_stage = point.zero_stage;
  // As the loader has it: these always reduce behind the backward pass.
  if (point.zero_stage >= 2) job_.optimizer.overlap_grad_reduce = true;
  microbatches_ = job.training.global_batch_size / point.sequences;
  std::int64_t memory = job.cluster.gpu.memory_bytes - job.cluster.reserved_bytes;
  if (options.max_memory > 0) memory = std::min(memory, options.max_memory);
  budget_ = options.memory_share * static_cast<double>(memory);
  count_in_flight();
  make_graphs(collectives);
  if (!graphs_.empty()) make_units();
}

void StageSearch::make_graphs(CollectivePrices& collectives) {
  for (const LogicalMesh& mesh : meshes()) {
    if (options_.mesh && (mesh.x != options_.mesh->x || mesh.y != options_.mesh->y)) continue;
    const StageShape shape{mesh, point_.sequences, microbatches_, point_.unlike ? 2 : point_.pipeline,
                           point_.hides_data_parallel};
    try {
      graphs_.push_back(stage_graph(job_, shape, collectives));
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
                   : stage_units(static_cast<int>(layers), most_stages_of(point_, layers),
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
  if (!in_flight_.empty()) return in_flight_[static_cast<std::size_t>(following)];
  return std::min<std::int64_t>(following + 1, microbatches_);
}

int StageSearch::most_stages() const {
  return std::min(most_stages_of(point_, layers_in(job_.parallelism.stages)),
                  static_cast<int>(unit_ends_.size()));
}

StageSearch::Table StageSearch::table(Limits limits) const {
  const int units = static_cast<int>(unit_ends_.size());
  const int pipeline = most_stages();
  std::vector<int> devices(graphs_.size(), 1);
  if (point_.unlike)
    for (std::size_t mesh = 0; mesh < devices.size(); ++mesh)
      devices[mesh] = static_cast<int>(meshes_[mesh].devices());
  Table all{StageCosts(units, point_.unlike ? static_cast<int>(job_.world_size()) : pipeline,
                       std::move(devices), pipeline)};
  if (point_.unlike && job_.cluster.nodes > 1)
    all.costs.node_devices = static_cast<int>(job_.cluster.gpus_per_node);
  all.is_bound.assign(all.costs.seconds.size(), false);
  all.bytes.assign(all.costs.seconds.size(), 0);
  for (int mesh = 0; mesh < static_cast<int>(graphs_.size()); ++mesh) {
    const StageGraph& graph = graphs_[static_cast<std::size_t>(mesh)];
    Fronts fronts(graph);
    for (int following = 0; following < pipeline; ++following)
      for (const Units& stage : stages_of(following, units))
        add_cheapest(all, fronts, {mesh, following}, stage, limits);
    const double handover = handover_seconds(job_, graph, meshes_[static_cast<std::size_t>(mesh)]);
    for (int last = 1; last < units; ++last)
      all.costs.handover[all.costs.handover_index(mesh, last)] = handover;
  }
  if (!options_.stage_meshes.empty()) keep_given_meshes(all.costs);
  return all;
}

// Where all stages are equally large, the one that so many follow is the first exactly if these are all
// others. The last stage is the one that none follows; those that do and those before take a unit each.
std::vector<StageSearch::Units> StageSearch::stages_of(int following, int units) const {
  const int before = point_.unlike ? 0 : most_stages() - 1 - following;
  const int most_units = units - following;
  const int behind_first = before == 0 && !point_.unlike ? 1 : most_units;
  std::vector<Units> stages;
  for (int first = before; first < behind_first; ++first)
    for (int last = following == 0 ? units : first + 1; last <= most_units; ++last)
      stages.push_back({first, last});
  return stages;
}

// The cheapest layouts, if they fit; else their cost is a bound of what does. Every microbatch passes the
// slowest stage: no plan that is asked for has a slower one.
void StageSearch::add_cheapest(Table& all, Fronts& fronts, Kind kind, const Units& stage,
                               Limits limits) const {
  const std::int32_t begin = first_segment(stage.first), end = last_segment(stage.last - 1);
  const std::vector<CostPoint>& of_one = fronts.one.of(begin, end);
  if (of_one.empty()) return;
  const CostPoint cheapest = of_one.front();
  if (static_cast<double>(microbatches_) * cheapest.cost > limits.seconds) return;
  const std::size_t at = all.costs.index(kind.following, kind.mesh, stage.first, stage.last);
  all.costs.seconds[at] = cheapest.cost;
  if (limits.memory == Memory::ignored) return;
  const double per_microbatch = fronts.two.of(begin, end).front().memory - cheapest.memory;
  const auto further = static_cast<double>(in_flight(kind.following) - 1);
  all.bytes[at] = cheapest.memory + further * per_microbatch;
  all.is_bound[at] = all.bytes[at] > budget_;
}

// The cheapest that fit, where only a bound is known of them.
void StageSearch::settle(Table& all, Kind kind) const {
  const StageGraph& graph = graphs_[static_cast<std::size_t>(kind.mesh)];
  const ChoiceLimits limits{.memory = budget_, .front = true, .buckets = options_.buckets};
  StageFronts fitting(graph, in_flight(kind.following), limits);
  for (const Units& stage : stages_of(kind.following, all.costs.layers)) {
    const std::size_t at = all.costs.index(kind.following, kind.mesh, stage.first, stage.last);
    if (!all.is_bound[at]) continue;
    all.is_bound[at] = false;
    double& seconds = all.costs.seconds[at];
    if (seconds == std::numeric_limits<double>::infinity()) continue;
    const std::vector<CostPoint>& front =
        fitting.of(first_segment(stage.first), last_segment(stage.last - 1));
    seconds = front.empty() ? std::numeric_limits<double>::infinity() : front.back().cost;
  }
}

// Whether the partition rests on bounds; they are settled then, and another one may be the best.
bool StageSearch::settle(Table& all, const StagePartition& partition) const {
  bool rests_on_bounds = false;
  const int stages = static_cast<int>(partition.stages.size());
  for (int s = 0; s < stages; ++s) {
    const PlacedStage& placed = partition.stages[static_cast<std::size_t>(s)];
    const Kind kind{placed.mesh, stages - 1 - s};
    if (!all.is_bound[all.costs.index(kind.following, kind.mesh, placed.first, placed.last)]) continue;
    rests_on_bounds = true;
    settle(all, kind);
  }
  return rests_on_bounds;
}

namespace {

// With the first and the last stage on one kind of mesh.
StageCosts with_ends_on(StageCosts costs, int mesh_of_ends) {
  constexpr double never = std::numeric_limits<double>::infinity();
  for (int following = 0; following < costs.most_stages; ++following)
    for (int mesh = 0; mesh < static_cast<int>(costs.mesh_devices.size()); ++mesh) {
      if (mesh == mesh_of_ends) continue;
      for (int last = 1; last <= costs.layers; ++last)
        costs.seconds[costs.index(following, mesh, 0, last)] = never;
      for (int first = 0; first < costs.layers; ++first)
        costs.seconds[costs.index(following, mesh, first, costs.layers)] = never;
    }
  return costs;
}

}  // namespace

// Where the stages and their meshes are given: stage by stage that mesh alone.
void StageSearch::keep_given_meshes(StageCosts& all) const {
  constexpr double never = std::numeric_limits<double>::infinity();
  for (int following = 0; following < all.most_stages; ++following)
    for (int mesh = 0; mesh < static_cast<int>(meshes_.size()); ++mesh)
      for (int first = 0; first < all.layers; ++first)
        for (int last = first + 1; last <= all.layers; ++last)
          if (last > first + 1 || !(meshes_[static_cast<std::size_t>(mesh)] ==
                                    options_.stage_meshes[static_cast<std::size_t>(first)]))
            all.seconds[all.index(following, mesh, first, last)] = never;
}

std::optional<StagePartition> StageSearch::best_of(const StageCosts& all, double most_seconds) const {
  return best_partition(all, static_cast<int>(microbatches_), most_seconds);
}

// Tied word embeddings need ends that are alike: those of either end of the best without that.
std::optional<StagePartition> StageSearch::with_like_ends(StagePartition best, const StageCosts& all,
                                                          double most_seconds) const {
  const std::array ends{best.stages.front().mesh, best.stages.back().mesh};
  if (ends[0] == ends[1] || !point_.unlike || !job_.model.tie_word_embeddings) return best;
  std::optional<StagePartition> like;
  for (const int mesh : ends)
    if (std::optional<StagePartition> of = best_of(with_ends_on(all, mesh), most_seconds))
      if (!like || of->seconds < like->seconds) like = std::move(of);
  return like;
}

std::optional<StageBound> StageSearch::lower_bound() const {
  if (graphs_.empty() || std::cmp_greater(point_.pipeline, unit_ends_.size())) return std::nullopt;
  const Table all = table({Memory::ignored});
  const std::optional<StagePartition> best = best_of(all.costs, std::numeric_limits<double>::infinity());
  if (!best) return std::nullopt;
  StageBound bound{best->seconds, 0};
  for (const PlacedStage& placed : best->stages)
    bound.slowest_s = std::max(bound.slowest_s, static_cast<double>(microbatches_) * placed.seconds);
  return bound;
}

double StageSearch::fullest_bytes(const Table& all, const StagePartition& partition) {
  double fullest = 0;
  const int stages = static_cast<int>(partition.stages.size());
  for (int s = 0; s < stages; ++s) {
    const PlacedStage& placed = partition.stages[static_cast<std::size_t>(s)];
    const std::size_t at = all.costs.index(stages - 1 - s, placed.mesh, placed.first, placed.last);
    fullest = std::max(fullest, all.bytes[at]);
  }
  return fullest;
}

// A partition that is the best by bounds, and rests on none, is the best: first whatever its ends are, then
// with ends that are alike.
StageResult StageSearch::search(double most_seconds) const {
  StageResult result;
  if (graphs_.empty() || std::cmp_greater(point_.pipeline, unit_ends_.size())) return result;
  Table all = table({Memory::counts, most_seconds});
  for (;;) {
    const std::optional<StagePartition> any = best_of(all.costs, most_seconds);
    if (!any) return result;
    if (result.fullness == 0) result.fullness = fullest_bytes(all, *any) / budget_;
    if (settle(all, *any)) continue;
    const std::optional<StagePartition> best = with_like_ends(*any, all.costs, most_seconds);
    if (!best) return result;
    if (settle(all, *best)) continue;
    result.plan = plan_of(*best);
    return result;
  }
}

std::optional<AlpaPlan> StageSearch::best_plan(double most_seconds) const {
  return search(most_seconds).plan;
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
    if (in_flight_.empty() && in_flight(following) < microbatches_)
      period = std::max(period, behind / static_cast<double>(in_flight(following)));
  }
  const double shared =
      partition.stages.size() > 1 ? shared_parameter_seconds(job_, graphs_[mesh], meshes_[mesh]) : 0;
  return partition.seconds + shared +
         static_cast<double>(microbatches_ - 1) * (std::max(slowest, period) - slowest);
}

// Of one microbatch, by `list`: bytes or seconds by operator and strategy.
static double sum_over(const StageLayouts& stage, const std::vector<SharedList<double>>& list) {
  double sum = 0;
  for (std::size_t node = 0; node < stage.part.operators.size(); ++node)
    sum += list[stage.part.operators[node]][stage.chosen.strategies[node]];
  return sum;
}

std::optional<AlpaPlan> StageSearch::plan_of(const StagePartition& partition) const {
  const auto is_alike = [&](const PlacedStage& stage) { return stage.mesh == partition.stages.front().mesh; };
  if (point_.unlike && std::all_of(partition.stages.begin(), partition.stages.end(), is_alike))
    return std::nullopt;  // found among those of one size
  AlpaPlan plan;
  plan.pipeline = static_cast<std::int64_t>(partition.stages.size());
  plan.unlike = point_.unlike;
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
                           layouts[s].chosen.cost, layouts[s].chosen.memory,
                           sum_over(layouts[s], layouts[s].graph->activation_bytes)});
    // No more is hidden than there is to hide it behind.
    const double exchange_s = sum_over(layouts[s], layouts[s].graph->exchange_seconds);
    if (point_.hides_data_parallel)
      plan.estimate_s = std::max(plan.estimate_s, static_cast<double>(microbatches_) * exchange_s);
  }
  plan.tensor =
      point_.unlike ? layouts.front().mesh.x : tensor_ranks(point_.sequences, meshes_.front().devices());
  add_rules(layouts, plan);
  return plan;
}

}  // namespace simrun
