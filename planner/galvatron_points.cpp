#include "planner/galvatron_points.h"

#include <algorithm>
#include <iterator>

#include "planner/microbatch_sizes.h"
#include "planner/sub_mesh.h"

namespace simrun {
namespace {

// Every pipeline size with every size of a microbatch.
std::vector<GalvatronPoint> pipeline_points(const Job& job) {
  std::vector<GalvatronPoint> points;
  for (const std::int64_t pipeline : divisors_of(job.world_size()))
    if (pipeline <= job.model.num_layers && is_sub_mesh(job.cluster, job.world_size() / pipeline))
      for (const std::int64_t sequences : microbatch_sizes(job, pipeline, 0))
        points.push_back({.pipeline = pipeline, .sequences = sequences});
  return points;
}

bool divides_batch(const Job& job, const GalvatronPoint& point, const LayerSplit& split) {
  return point.sequences % (job.world_size() / point.pipeline / split.sharing()) == 0;
}

// In a pipeline ZeRO-2 would reduce the gradients of every microbatch.
std::vector<int> zero_stages(const GalvatronPoint& point) {
  return point.pipeline == 1 ? std::vector{1, 2} : std::vector{1};
}

// Whether no size of a pipeline's microbatches lies between the two.
bool is_next_size(const Job& job, std::int64_t pipeline, std::int64_t a, std::int64_t b) {
  const auto between = [&](std::int64_t size) { return size > std::min(a, b) && size < std::max(a, b); };
  return a != b && std::ranges::none_of(microbatch_sizes(job, pipeline, 0), between);
}

bool is_near_in_shape(const Job& job, const GalvatronPoint& a, const GalvatronPoint& b) {
  if (a.pipeline == b.pipeline) return is_next_size(job, a.pipeline, a.sequences, b.sequences);
  if (std::max(a.pipeline, b.pipeline) != 2 * std::min(a.pipeline, b.pipeline)) return false;
  return a.sequences == b.sequences || a.sequences * a.pipeline == b.sequences * b.pipeline;
}

}  // namespace

std::vector<GalvatronPoint> mixed_points(const Job& job, const GalvatronOptions& options) {
  std::vector<GalvatronPoint> points;
  for (const GalvatronPoint& at : pipeline_points(job))
    for (const LayerSplit& ends : layer_splits(job, job.world_size() / at.pipeline, options.most_split)) {
      if ((ends.context > 1 && !has_one_split(job)) || !divides_batch(job, at, ends)) continue;
      for (const int zero_stage : zero_stages(at))
        for (const bool spreads : {false, true})
          points.push_back({at.pipeline, at.sequences, zero_stage, ends, spreads, {}});
    }
  return points;
}

std::vector<GalvatronPoint> uniform_points(const Job& job, const GalvatronOptions& options) {
  std::vector<GalvatronPoint> points;
  for (const GalvatronPoint& at : pipeline_points(job)) {
    const std::int64_t ranks = job.world_size() / at.pipeline;
    for (const LayerSplit& split : layer_splits(job, ranks, options.most_split)) {
      if (!divides_batch(job, at, split)) continue;
      std::vector<int> stages = zero_stages(at);
      if (ranks > split.tensor) stages.push_back(3);
      for (const int zero_stage : stages)
        for (const bool recomputed : {false, true})
          points.push_back({at.pipeline, at.sequences, zero_stage, split, false,
                            LayerStrategy{split, zero_stage == 3, recomputed}});
    }
  }
  return points;
}

std::vector<GalvatronPoint> neighbours_of(const Job& job, const GalvatronOptions& options,
                                          const GalvatronPoint& from) {
  const auto is_near = [&](const GalvatronPoint& of) {
    const bool same_shape = of.pipeline == from.pipeline && of.sequences == from.sequences;
    const bool same_ends = of.ends == from.ends, same_stage = of.zero_stage == from.zero_stage;
    const bool recomputes = of.only && of.only->recomputed, recomputed = from.only && from.only->recomputed;
    const bool same_kind = of.only.has_value() == from.only.has_value() &&
                           of.spreads_sharded == from.spreads_sharded && recomputes == recomputed;
    if (same_ends && same_stage && same_kind) return is_near_in_shape(job, of, from);
    return same_shape && same_ends + same_stage + same_kind == 2;
  };
  std::vector<GalvatronPoint> near;
  for (const std::vector<GalvatronPoint>& all : {mixed_points(job, options), uniform_points(job, options)})
    std::ranges::copy_if(all, std::back_inserter(near), is_near);
  return near;
}

}  // namespace simrun
