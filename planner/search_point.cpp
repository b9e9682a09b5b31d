// What follows from a SearchPoint alone: its meshes, and its microbatches in flight.
#include "planner/stage_search.h"
#include "schedules/pipeline_schedule.h"

namespace simrun {

SearchPoint point_of(const AlpaPlan& plan) {
  return {plan.unlike ? 1 : plan.pipeline,
          plan.sequences,
          plan.zero_stage,
          plan.hides_data_parallel,
          plan.unlike,
          plan.schedule,
          plan.virtual_stages};
}

// Meshes are many, and so are the stages behind a stage: the dynamic program's tables grow with their
// product.
constexpr std::int64_t most_unlike_devices = 128;

bool may_be_unlike(const Job& job) {
  return job.world_size() > 2 && job.world_size() <= most_unlike_devices && job.model.experts.count == 0 &&
         image_of(job.model.family) == nullptr &&
         family_as<VisionLanguageConfig>(job.model.family) == nullptr &&
         job.training.decoder_seq_length == 0 && !job.offload.any() && job.parallelism.rank_map.empty() &&
         job.optimizer.num_distributed_optimizer_instances == 1 &&
         job.optimizer.all_reduce == AllReduceKind::flat;
}

namespace {

// Of all sizes that a sub-mesh may have; of any two x, and of any two y, the larger is a multiple of the
// smaller, and a stage's y are its data-parallel ranks.
std::vector<LogicalMesh> unlike_meshes(const Job& job, std::int64_t sequences) {
  const std::vector<std::int64_t> sizes = prefix_products(job.world_size());
  const ModelConfig& model = job.model;
  std::vector<LogicalMesh> meshes;
  for (const std::int64_t x : sizes)
    for (const std::int64_t y : sizes) {
      const bool divides = model.num_attention_heads % x == 0 && model.num_key_value_heads % x == 0 &&
                           model.ffn_hidden_size % x == 0 && model.mamba.num_groups % x == 0 &&
                           model.delta_net.num_key_heads % x == 0 && sequences % y == 0;
      if (2 * x * y <= job.world_size() && divides && is_sub_mesh(job.cluster, x * y))
        meshes.push_back({x, y});
    }
  return meshes;
}

}  // namespace

std::vector<LogicalMesh> StageSearch::meshes() const {
  if (point_.unlike) return unlike_meshes(job_, point_.sequences);
  const std::int64_t devices = job_.world_size() / point_.pipeline;
  std::vector<LogicalMesh> meshes;
  for (const std::int64_t x : prefix_products(devices)) meshes.push_back({x, devices / x});
  return meshes;
}

void StageSearch::count_in_flight() {
  const ScheduleEntry* entry = find_schedule(point_.schedule);
  if (point_.unlike || point_.schedule == AlpaPlan{}.schedule || entry == nullptr) return;
  PipelineShape shape;
  shape.ranks = static_cast<int>(point_.pipeline);
  shape.virtual_stages = static_cast<int>(point_.virtual_stages);
  shape.microbatches = static_cast<int>(microbatches_);
  for (int following = 0; following < shape.ranks; ++following) {
    const int passes = entry->peak_in_flight(shape, shape.ranks - 1 - following);
    in_flight_.push_back((passes + shape.virtual_stages - 1) / shape.virtual_stages);
  }
}

}  // namespace simrun
