#include "backend/execute.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "backend/bucket_views.h"
#include "backend/cpu_device.h"
#include "backend/null_device.h"
#include "backend/rank_run.h"
#include "backend/thread_fabric.h"
#include "backend/update_operands.h"
#include "schedules/extent_tables.h"

namespace simrun {
namespace {

std::unique_ptr<Device> make_device(ExecutionDevice device) {
  switch (device) {
    case ExecutionDevice::cpu_f64: return make_cpu_device_f64();
    case ExecutionDevice::cpu_f32: return make_cpu_device_f32();
    default: return std::make_unique<NullDevice>();
  }
}

// Shards that two copies of a stage divide between them are not at their axes' places.
bool divides_shards_further(const Plan& plan) {
  return std::any_of(plan.buffers.begin(), plan.buffers.end(), [&](const Buffer& shard) {
    const bool is_view = shard.parent != no_index && shard.parameter == no_index;
    const Index whole = shard.shard_of != no_index ? shard.shard_of : is_view ? shard.parent : no_index;
    if (whole == no_index || shard.split.size() != 1) return false;
    const Mesh& mesh = plan.stages.front().meshes.front();
    const std::int64_t pieces = place_along(mesh, axes_of_split(shard.split.front(), mesh), 0).count;
    return shard.elements() * pieces != plan.buffers[whole].elements();
  });
}

class Refusals {
 public:
  void add(std::string sentence) {
    if (known_.insert(sentence).second) sentences_.push_back(std::move(sentence));
  }
  std::vector<std::string> take() { return std::move(sentences_); }

 private:
  std::set<std::string> known_;
  std::vector<std::string> sentences_;
};

void refuse_shapes(const Plan& plan, Refusals& refusals) {
  if (plan.ranks() > most_thread_ranks)
    refusals.add(fmt::format("the plan has {} ranks; threads run up to {}: fewer nodes or gpus_per_node",
                             plan.ranks(), most_thread_ranks));
  for (const StageDevices& stage : plan.stages)
    if (stage.meshes != plan.stages.front().meshes)
      refusals.add("pipeline ranks have unlike meshes, which are not run yet: parallelism");
  for (const Communication& communication : plan.communications)
    if (!communication.peer.coordinate_map.empty())
      refusals.add("resharding between unlike pipeline ranks is not run yet: parallelism");
}

// The plan fetches no weights that are not kept apart from what is updated.
void refuse_updates(const Plan& plan, Refusals& refusals) {
  for (const Segment& segment : plan.segments)
    for (const Instruction& what : segment.instructions)
      if (what.opcode == Opcode::optimizer && main_weights_of(plan, what).value_or(0) >= what.outputs.size())
        refusals.add(
            "weights on drives are updated without being read: offload.parameters: cpu, or "
            "optimizer.main_params_dtype: fp32 with another training.precision");
}

}  // namespace

std::vector<std::string> execution_refusals(const Plan& plan, ExecutionDevice device) {
  Refusals refusals;
  refuse_shapes(plan, refusals);
  if (device == ExecutionDevice::null) return refusals.take();
  if (divides_shards_further(plan))
    refusals.add(
        "both copies of a stage share optimizer shards, which are not run yet: optimizer.zero_stage 0");
  for (const Program& program : plan.programs)
    for (const Binding& binding : program.bindings)
      if (binding.weight_version != 0 || binding.slice != 0)
        refusals.add("weight versions and sequence slices are not run yet: parallelism.pipeline_schedule");
  refuse_updates(plan, refusals);
  const std::unique_ptr<Device> asked = make_device(device);
  for (const Segment& segment : plan.segments)
    for (const Instruction& what : segment.instructions) {
      const std::string why = asked->refusal(plan, what);
      if (!why.empty()) refusals.add(fmt::format("'{}' ({}) {}", what.label, to_string(what.opcode), why));
    }
  return refusals.take();
}

Execution execute(const Plan& plan, const ExecuteOptions& options) {
  const std::vector<RankPlace> places = ranks_of(plan);
  const BucketViews buckets(plan);
  Observations observed(plan, options.steps);
  const RankRun::Shared shared{plan, buckets, options.training, options.steps, observed};
  Execution execution;
  execution.ranks.resize(places.size());
  ThreadFabric fabric(static_cast<std::int64_t>(places.size()), options.limit);
  execution.failure = fabric.run([&](std::int64_t rank, Transport& transport) {
    const std::unique_ptr<Device> device = make_device(options.device);
    RankRun run(shared, *device, transport, places[static_cast<std::size_t>(rank)]);
    run.run();
    execution.ranks[static_cast<std::size_t>(rank)] = {run.planned_peak_bytes(), device->peak_bytes(),
                                                       run.instructions()};
  });
  execution.loss = observed.loss();
  execution.gradients = observed.take_gradients();
  execution.parameters = observed.take_parameters();
  return execution;
}

}  // namespace simrun
