#include "planner/alpa_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include "configs/node_groups.h"
#include "planner/microbatch_sizes.h"
#include "planner/stage_search.h"
#include "planner/sub_mesh.h"

namespace simrun {
namespace {

void refuse_job(const Job& job) {
  if (job.training.documents || job.training.lora || job.training.fp8)
    throw std::invalid_argument("packed documents, LoRA and fp8 are not searched");
  if (!job.optimizer.zero_3_layers.empty())
    throw std::invalid_argument("zero_3_layers is not searched: leave it out");
  if (GpuKinds(job.cluster).count() > 1)
    throw std::invalid_argument(
        fmt::format("{}: Alpa's levels take GPUs of one kind; --plan and --plan whale take several",
                    gpus_text(job.cluster)));
  if (!job.training.replica_micro_batch_sizes.empty())
    throw std::invalid_argument("replicas with batches of unlike size are not searched");
  if (job.parallelism.has_unlike_stages())
    throw std::invalid_argument(
        "the sizes of stages are searched: leave stage_tensor_model_parallel_sizes and "
        "stage_data_parallel_sizes out");
  if (job.optimizer.parameter_server) throw std::invalid_argument("parameter servers are not searched");
}

struct BoundedPoint {
  SearchPoint point;
  double lower_bound = 0;
};

// Of data-parallel ranks ZeRO-1 takes less memory than ZeRO-0 and as much time.
std::vector<SearchPoint> all_points(const Job& job, const AlpaOptions& options, bool hides_data_parallel) {
  const std::int64_t layers = layers_in(job.parallelism.stages);
  std::vector<SearchPoint> points;
  for (const std::int64_t pipeline : divisors_of(job.world_size())) {
    if (pipeline < options.least_stages || pipeline > std::min(layers, options.most_stages) ||
        !is_sub_mesh(job.cluster, job.world_size() / pipeline))
      continue;
    if (!options.stage_ends.empty() && std::cmp_not_equal(pipeline, options.stage_ends.size())) continue;
    for (const int zero_stage : pipeline == 1 ? std::vector{1, 2, 3} : std::vector{1}) {
      // What ZeRO-3 gathers is hidden, and what is reduced if the job says so.
      if (hides_data_parallel && zero_stage < 3 && !job.optimizer.overlap_grad_reduce) continue;
      for (const std::int64_t sequences : microbatch_sizes(job, pipeline, options.microbatches))
        points.push_back({pipeline, sequences, zero_stage, hides_data_parallel});
    }
  }
  return points;
}

void sort_by_bound(std::vector<BoundedPoint>& bounded) {
  std::stable_sort(bounded.begin(), bounded.end(), [](const BoundedPoint& a, const BoundedPoint& b) {
    return a.lower_bound < b.lower_bound;
  });
}

// The least bounds first.
std::vector<BoundedPoint> bounded_points(const Job& job, const AlpaOptions& options,
                                         bool hides_data_parallel) {
  std::vector<BoundedPoint> bounded;
  for (const SearchPoint& point : all_points(job, options, hides_data_parallel))
    if (const std::optional<double> bound = StageSearch(job, options, point).lower_bound())
      bounded.push_back({point, *bound});
  sort_by_bound(bounded);
  return bounded;
}

std::vector<AlpaPlan> plans_at(const Job& job, const AlpaOptions& options, bool hides_data_parallel) {
  std::vector<AlpaPlan> plans;
  for (const BoundedPoint& at : bounded_points(job, options, hides_data_parallel)) {
    if (plans.size() >= options.plans && at.lower_bound >= plans[options.plans - 1].estimate_s) break;
    std::optional<AlpaPlan> plan = StageSearch(job, options, at.point).best_plan();
    if (!plan) continue;
    const auto better = [](const AlpaPlan& a, const AlpaPlan& b) { return a.estimate_s < b.estimate_s; };
    plans.insert(std::upper_bound(plans.begin(), plans.end(), *plan, better), *plan);
  }
  if (plans.size() > options.plans) plans.resize(options.plans);
  return plans;
}

// Of the microbatches with the least bounds.
constexpr std::size_t tried_microbatches = 3;

std::vector<AlpaPlan> unlike_plans(const Job& job, const AlpaOptions& options) {
  const bool stages_given = !options.stage_ends.empty() || options.mesh || options.least_stages > 1 ||
                            options.most_stages < layers_in(job.parallelism.stages);
  if (!options.unlike_stages || stages_given || !may_be_unlike(job)) return {};
  std::vector<BoundedPoint> bounded;
  for (const std::int64_t sequences : microbatch_sizes(job, 2, options.microbatches)) {
    const SearchPoint point{.sequences = sequences, .zero_stage = 1, .unlike = true};
    if (const std::optional<double> bound = StageSearch(job, options, point).lower_bound())
      bounded.push_back({point, *bound});
  }
  sort_by_bound(bounded);
  if (bounded.size() > tried_microbatches) bounded.resize(tried_microbatches);
  std::vector<AlpaPlan> plans;
  for (const BoundedPoint& at : bounded)
    if (std::optional<AlpaPlan> plan = StageSearch(job, options, at.point).best_plan())
      plans.push_back(std::move(*plan));
  return plans;
}

}  // namespace

std::vector<AlpaPlan> alpa_plans(const Job& job, const AlpaOptions& options) {
  refuse_job(job);
  std::vector<AlpaPlan> plans = plans_at(job, options, false);
  std::vector<AlpaPlan> unlike = unlike_plans(job, options);
  for (AlpaPlan& plan : plans_at(job, options, true)) plans.push_back(std::move(plan));
  for (AlpaPlan& plan : unlike) plans.push_back(std::move(plan));
  return plans;
}

}  // namespace simrun
