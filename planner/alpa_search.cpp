#include "planner/alpa_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include "planner/alpa_rules.h"
#include "planner/alpa_stages.h"
#include "planner/choice_chain.h"
#include "planner/handover.h"
#include "planner/stage_fronts.h"

namespace simrun {
namespace {

constexpr std::size_t buckets_in_search = 128, buckets_at_end = 512;
constexpr std::int64_t most_batches = 8;
constexpr double longest_bubble = 1.5;  // x the work: never the best, and pipelines are many

std::vector<std::int64_t> divisors_of(std::int64_t number) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= number; ++d)
    if (number % d == 0) divisors.push_back(d);
  return divisors;
}

void refuse_job(const Job& job) {
  if (job.parallelism.context_parallel_size > 1)
    throw std::invalid_argument("context_parallel_size is 1 in such a search: it splits sequences itself");
  if (job.parallelism.expert_model_parallel_size > 1)
    throw std::invalid_argument("expert_model_parallel_size is 1 in such a search: it splits experts itself");
  if (job.training.documents || job.training.lora || job.training.fp8)
    throw std::invalid_argument("packed documents, LoRA and fp8 are not searched");
  if (job.optimizer.parameter_server) throw std::invalid_argument("parameter servers are not searched");
}

// Stages of one size with one number of sequences: all their logical meshes.
class StageSearch {
 public:
  StageSearch(const Job& job, const AlpaOptions& options, std::int64_t pipeline, std::int64_t sequences)
      : job_(job), options_(options), pipeline_(pipeline), sequences_(sequences) {
    microbatches_ = job.training.global_batch_size / sequences;
    budget_ = options.memory_share *
              static_cast<double>(job.cluster.gpu.memory_bytes - job.cluster.reserved_bytes);
  }

  std::optional<AlpaPlan> run() {
    make_graphs();
    if (graphs_.empty()) return std::nullopt;
    make_units();
    if (std::cmp_greater(pipeline_, unit_ends_.size())) return std::nullopt;
    const std::optional<StagePartition> best = best_partition(costs(), static_cast<int>(microbatches_));
    if (!best) return std::nullopt;
    return plan_of(*best);
  }

 private:
  void make_graphs() {
    const std::int64_t devices = job_.world_size() / pipeline_;
    for (const std::int64_t x : prefix_products(devices)) {
      const LogicalMesh mesh{x, devices / x};
      try {
        graphs_.push_back(stage_graph(job_, {mesh, sequences_, microbatches_}));
        meshes_.push_back(mesh);
      } catch (const std::invalid_argument&) {
        // The sequences do not divide over it.
      }
    }
  }

  // Layers, or clusters of them; what is before the first and behind the last goes with these.
  void make_units() {
    const std::int32_t segments = graphs_.front().segments();
    std::int64_t layers = 0;
    for (const StageContent& content : job_.parallelism.stages) layers += content.layers;
    if (segments != layers + 2)
      throw std::invalid_argument("a model whose layers are not one chain is not searched");
    const int groups = static_cast<int>(std::min(layers, std::max(options_.most_clusters, pipeline_)));
    unit_ends_ = cluster_layers(std::vector<double>(static_cast<std::size_t>(layers), 1.0), groups);
  }

  std::int32_t first_segment(int unit) const {
    return unit == 0 ? 0 : unit_ends_[static_cast<std::size_t>(unit - 1)] + 1;
  }
  std::int32_t last_segment(int unit) const {  // behind it
    const std::int32_t end = unit_ends_[static_cast<std::size_t>(unit)] + 1;
    return static_cast<std::size_t>(unit) + 1 == unit_ends_.size() ? end + 1 : end;
  }
  std::int64_t in_flight(int following) const {  // 1F1B
    return std::min<std::int64_t>(following + 1, microbatches_);
  }

  StageCosts costs() const {
    const int units = static_cast<int>(unit_ends_.size());
    const int pipeline = static_cast<int>(pipeline_);
    StageCosts all(units, pipeline, std::vector<int>(graphs_.size(), 1), pipeline);
    for (int mesh = 0; mesh < static_cast<int>(graphs_.size()); ++mesh) {
      const StageGraph& graph = graphs_[static_cast<std::size_t>(mesh)];
      StageFronts one(graph, 1, {}), two(graph, 2, {});
      std::map<int, StageFronts> limited;
      for (int following = 0; following < pipeline; ++following)
        fill(all, {mesh, following}, one, two, limited);
      const double handover = handover_seconds(job_, graph, meshes_[static_cast<std::size_t>(mesh)]);
      for (int last = 1; last < units; ++last) all.handover[all.handover_index(mesh, last)] = handover;
    }
    return all;
  }

  struct Kind {
    int mesh = 0, following = 0;
  };

  // The cheapest layouts where these fit, else the cheapest that do.
  void fill(StageCosts& all, Kind kind, StageFronts& one, StageFronts& two,
            std::map<int, StageFronts>& limited) const {
    const auto flying = static_cast<double>(in_flight(kind.following));
    for (int first = 0; first < all.layers; ++first) {
      if ((first == 0) != (kind.following + 1 == static_cast<int>(pipeline_))) continue;
      const SegmentFronts &of_one = one.from(first_segment(first)), &of_two = two.from(first_segment(first));
      const SegmentFronts* fitting = nullptr;
      for (int last = first + 1; last <= all.layers; ++last) {
        const auto end = static_cast<std::size_t>(last_segment(last - 1) - 1);
        if (of_one[end].empty()) continue;
        const CostPoint cheapest = of_one[end].front();
        const double per_microbatch = of_two[end].front().memory - cheapest.memory;
        double& seconds = all.seconds[all.index(kind.following, kind.mesh, first, last)];
        if (cheapest.memory + (flying - 1) * per_microbatch <= budget_) {
          seconds = cheapest.cost;
          continue;
        }
        if (fitting == nullptr)
          fitting = &limited
                        .try_emplace(static_cast<int>(in_flight(kind.following)),
                                     graphs_[static_cast<std::size_t>(kind.mesh)], in_flight(kind.following),
                                     ChoiceLimits{.memory = budget_, .front = true,
                                                  .buckets = buckets_in_search})
                        .first->second.from(first_segment(first));
        if (!(*fitting)[end].empty()) seconds = (*fitting)[end].back().cost;
      }
    }
  }

  AlpaPlan plan_of(const StagePartition& partition) const {
    AlpaPlan plan;
    plan.pipeline = pipeline_;
    plan.microbatches = microbatches_;
    plan.sequences = sequences_;
    plan.estimate_s = partition.seconds;
    std::vector<StageLayouts> layouts;
    for (std::size_t s = 0; s < partition.stages.size(); ++s) {
      const PlacedStage& placed = partition.stages[s];
      const auto mesh = static_cast<std::size_t>(placed.mesh);
      const StageRange range{first_segment(placed.first), last_segment(placed.last - 1),
                             in_flight(static_cast<int>(partition.stages.size() - 1 - s))};
      const StageChoices choices = choices_of(graphs_[mesh], range);
      const ChoiceLimits limits{.memory = budget_, .front = true, .buckets = buckets_at_end, .choices = 1};
      const std::vector<Choice> best = choose_strategies(choices.choices, limits);
      if (best.empty()) throw std::invalid_argument("a stage does not fit with what its ends share");
      const std::int64_t first = placed.first == 0 ? 0 : unit_ends_[static_cast<std::size_t>(placed.first - 1)];
      plan.stages.push_back({first, unit_ends_[static_cast<std::size_t>(placed.last - 1)], meshes_[mesh],
                             best.front().cost, best.front().memory});
      layouts.push_back({&graphs_[mesh], choices.operators, best.front().strategies, meshes_[mesh]});
    }
    plan.tensor = tensor_ranks(sequences_, meshes_.front().devices());
    add_rules(layouts, plan);
    return plan;
  }

  const Job& job_;
  const AlpaOptions& options_;
  std::int64_t pipeline_, sequences_, microbatches_ = 1;
  double budget_ = 0;
  std::vector<StageGraph> graphs_;
  std::vector<LogicalMesh> meshes_;
  std::vector<int> unit_ends_;
};

// The largest microbatches first; of many divisors, those by factors of two.
std::vector<std::int64_t> batch_sizes(const Job& job, std::int64_t pipeline) {
  const std::int64_t batch = job.training.global_batch_size, devices = job.world_size() / pipeline;
  std::vector<std::int64_t> sizes;
  for (const std::int64_t sequences : divisors_of(batch)) {
    const double bubble = static_cast<double>(pipeline - 1) / static_cast<double>(batch / sequences);
    if (sequences > 8 * devices || bubble > longest_bubble) continue;
    sizes.push_back(sequences);
  }
  std::reverse(sizes.begin(), sizes.end());
  if (std::cmp_greater(sizes.size(), most_batches)) {
    std::vector<std::int64_t> thinned;
    for (const std::int64_t size : sizes)
      if (thinned.empty() || 2 * size <= thinned.back()) thinned.push_back(size);
    sizes = std::move(thinned);
  }
  return sizes;
}

}  // namespace

std::vector<AlpaPlan> alpa_plans(const Job& job, const AlpaOptions& options) {
  refuse_job(job);
  std::int64_t layers = 0;
  for (const StageContent& content : job.parallelism.stages) layers += content.layers;
  std::vector<AlpaPlan> plans;
  for (const std::int64_t pipeline : divisors_of(job.world_size())) {
    if (pipeline > layers || !is_sub_mesh(job.cluster, job.world_size() / pipeline)) continue;
    for (const std::int64_t sequences : batch_sizes(job, pipeline))
      if (std::optional<AlpaPlan> plan = StageSearch(job, options, pipeline, sequences).run())
        plans.push_back(std::move(*plan));
  }
  std::stable_sort(plans.begin(), plans.end(),
                   [](const AlpaPlan& a, const AlpaPlan& b) { return a.estimate_s < b.estimate_s; });
  if (plans.size() > options.plans) plans.resize(options.plans);
  return plans;
}

}  // namespace simrun
