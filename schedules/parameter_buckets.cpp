#include "schedules/parameter_buckets.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "schedules/extent_tables.h"
#include "schedules/flat_buffer.h"
#include "schedules/optimizer_state.h"

namespace simrun {
namespace {

// By parameter, the layer that reads it first.
std::vector<std::int32_t> layers_of(const ChunkCode& code) {
  std::map<ValueId, std::int32_t> layer;
  for (const CodeStep& step : code.forward)
    for (const ValueId input : step.inputs) layer.try_emplace(input, step.layer);
  for (const QuantisedParameter& parameter : code.quantised)  // read as its copy
    layer.try_emplace(parameter.weight, parameter.layer);
  std::vector<std::int32_t> result;
  for (const ValueId parameter : code.parameters) {
    const auto at = layer.find(parameter);
    result.push_back(at == layer.end() ? -1 : at->second);
  }
  return result;
}

// At which a bucket is closed. A layer under ZeRO-3 is one unit unless the job cuts it.
std::int64_t most_elements(const BucketRules& rules, int zero_stage, std::int32_t layer) {
  if (zero_stage < 3) return rules.bucket_size;
  if (rules.optimizer.gather_bucket_size > 0) return rules.optimizer.gather_bucket_size;
  return layer < 0 ? rules.bucket_size : std::int64_t{1} << 60;
}

std::vector<std::size_t> last_writes(const ChunkCode& code) {
  std::vector<std::size_t> last(code.values.size(), 0);
  for (std::size_t s = 0; s < code.backward.size(); ++s)
    for (const ValueId output : code.backward[s].outputs) last[output] = s;
  std::vector<std::size_t> result;
  for (const ValueId gradient : code.parameter_gradients) result.push_back(last[gradient]);
  return result;
}

int zero_stage_of(const OptimizerConfig& optimizer, std::int32_t layer) {
  return has_layer(optimizer.zero_3_layers, layer) ? 3 : optimizer.zero_stage;
}

// Data axes and tensor axes of a gradient's sum.
struct SumAxes {
  std::vector<AxisId> data, tensor;
  auto operator<=>(const SumAxes&) const = default;  // NOLINT(modernize-use-nullptr)
};
SumAxes sum_axes(const ChunkCode& code, std::size_t parameter, const DeviceMesh& mesh) {
  SumAxes axes;
  const Value& value = code.values[code.parameters[parameter]];
  if (value.frozen) {  // has no sum; whoever has a copy can share in keeping it
    for (std::size_t axis = mesh.kind.size(); axis-- > 0;) {
      const bool splits = std::any_of(
          value.layout.splits.begin(), value.layout.splits.end(), [&](const DimensionSplit& split) {
            return std::find(split.axes.begin(), split.axes.end(), axis) != split.axes.end();
          });
      if (mesh.kind[axis] != 't' && mesh.mesh.axes[axis].size > 1 && !splits)
        axes.data.push_back(static_cast<AxisId>(axis));
    }
    return axes;
  }
  const std::vector<AxisId>& all = code.gradient_axes[parameter];
  for (auto axis = all.rbegin(); axis != all.rend(); ++axis) {
    const bool data = mesh.kind[*axis] != 't' || code.of_experts[parameter];
    (data ? axes.data : axes.tensor).push_back(*axis);
  }
  return axes;
}

std::int64_t copies(const BucketRules& rules) {
  return std::max<std::int64_t>(static_cast<std::int64_t>(rules.copy_ranks.size()), 1);
}

// The axes of a gradient's sum over which shards lie.
std::vector<AxisId> without_replicas(std::vector<AxisId> data_axes, const BucketRules& rules) {
  std::erase_if(data_axes, [&](AxisId axis) {
    return std::count(rules.replica_axes.begin(), rules.replica_axes.end(), axis) > 0;
  });
  return data_axes;
}

void pad_for_shards(ParameterBucket& bucket, const BucketRules& rules) {
  bucket.shard_axes = without_replicas(bucket.data_axes, rules);
  for (const AxisId axis : bucket.data_axes)
    if (std::find(bucket.shard_axes.begin(), bucket.shard_axes.end(), axis) == bucket.shard_axes.end())
      bucket.replica_axes.push_back(axis);
  const std::int64_t pieces = rules.mesh.size(bucket.shard_axes) * copies(rules);
  const int first_stage = bucket.frozen ? 3 : 1;  // frozen weights have no optimizer to divide
  if (bucket.zero_stage >= first_stage) bucket.shards = pieces;
  const bool is_served = rules.servers.any() && !bucket.frozen;
  if (is_served) bucket.shards = rules.servers.count;
  if (bucket.shards == 1 && !rules.hierarchical) return;
  const std::int64_t multiple = std::lcm(is_served ? rules.servers.count : pieces, std::int64_t{128});
  // The axes of a mesh have ranks: NOLINTNEXTLINE(clang-analyzer-core.DivideZero)
  bucket.elements = (bucket.elements + multiple - 1) / multiple * multiple;
}

}  // namespace

std::vector<ParameterBucket> make_buckets(const ChunkCode& code,
                                          const std::vector<std::int64_t>& local_elements,
                                          const BucketRules& rules) {
  const std::vector<std::size_t> written = last_writes(code);
  // ZeRO-3 gathers layer by layer; what is outside the layers is one unit, FSDP's root module.
  const std::vector<std::int32_t> layers = layers_of(code);
  std::vector<ParameterBucket> buckets;
  std::map<std::tuple<SumAxes, bool, bool, bool, bool, bool, bool, int, std::int32_t>, std::size_t>
      latest;  // bucket still open, by what it sums over, its layer and how it is updated
  for (std::size_t p = code.parameters.size(); p-- > 0;) {
    if (p == rules.elsewhere) continue;
    const bool tied = code.values[code.parameters[p]].tensor == rules.tied_tensor;
    const bool frozen = code.values[code.parameters[p]].frozen;
    const SumAxes axes = sum_axes(code, p, rules.mesh);
    const bool orthogonalised =
        !frozen && rules.optimizer.name == UpdateRule::muon && rules.matrices[p].hidden;
    const Value& weight = code.values[code.parameters[p]];
    const bool is_narrow = weight.dtype == Dtype::fp8 || weight.dtype == Dtype::fp4;
    const int zero_stage = zero_stage_of(rules.optimizer, layers[p]);
    const bool leaves_shard = zero_stage >= 2 && !rules.reduces_once &&
                              rules.mesh.size(without_replicas(axes.data, rules)) * copies(rules) > 1;
    const bool early = leaves_shard && !rules.written_early.empty() && rules.written_early[p];
    const auto [open, is_new] =
        latest.emplace(std::tuple{axes, tied, frozen, bool{code.of_experts[p]}, orthogonalised, is_narrow,
                                  early, zero_stage, zero_stage == 3 ? layers[p] : -1},
                       buckets.size());
    const std::int64_t most = most_elements(rules, zero_stage, layers[p]);
    if (is_new || buckets[open->second].elements >= most) {
      open->second = buckets.size();
      buckets.emplace_back();
      buckets.back().data_axes = axes.data;
      buckets.back().tensor_axes = axes.tensor;
      buckets.back().zero_stage = zero_stage;
      if (zero_stage == 3) buckets.back().layer = layers[p];
      buckets.back().tied = tied;
      buckets.back().frozen = frozen;
      buckets.back().orthogonalised = orthogonalised;
      buckets.back().written_early = early;
      if (is_narrow) buckets.back().narrow = weight.dtype;
      buckets.back().scale_block = weight.scale_block;
    }
    ParameterBucket& bucket = buckets[open->second];
    bucket.members.push_back(p);
    if (!rules.matrices.empty()) {
      bucket.matrices.push_back(rules.matrices[p]);
      bucket.matrices.back().elements = local_elements[p];
    }
    bucket.elements += local_elements[p];
    bucket.unpadded += local_elements[p];
    bucket.complete_after = std::max(bucket.complete_after, written[p]);
  }
  for (ParameterBucket& bucket : buckets) pad_for_shards(bucket, rules);
  return buckets;
}

namespace {

// What a bucket's shards are made of, and over which ranks they lie.
struct Sharding {
  std::int64_t shards = 1;
  std::string axes;
};
Sharding sharding_of(const ParameterBucket& bucket, const BucketRules& rules) {
  Sharding sharding{bucket.shards, split_over_ranks(rules.copy_ranks)};
  for (const AxisId axis : bucket.shard_axes)
    sharding.axes += (sharding.axes.empty() ? "" : ",") + rules.mesh.mesh.axes[axis].name;
  return sharding;
}

// The part of a bucket that a data-parallel rank owns under ZeRO-1: at its data-parallel coordinate x
// elements / shards.
Index add_shard(Plan& plan, Index parent, const Sharding& sharding) {
  if (sharding.shards == 1) return parent;
  const Buffer whole = plan.buffers[parent];
  const Index shard = add_flat_buffer(plan, whole.name + " shard", whole.category, whole.dtype,
                                      whole.elements() / sharding.shards);
  plan.buffers[shard].parent = parent;
  plan.buffers[shard].scale_block = whole.scale_block;
  plan.buffers[shard].split = {sharding.axes};
  return shard;
}

// The only part of a bucket that a rank keeps.
Index add_owned(Plan& plan, Index whole, const Sharding& sharding) {
  const Buffer of = plan.buffers[whole];
  const Index shard =
      add_flat_buffer(plan, of.name + " shard", of.category, of.dtype, of.elements() / sharding.shards);
  plan.buffers[shard].split = {sharding.axes};
  plan.buffers[shard].scale_block = of.scale_block;
  plan.buffers[shard].shard_of = whole;
  return shard;
}

// What is kept of a bucket under the ZeRO stage: the parameter or gradient buffers. `only`: nothing else of
// them is kept, and the whole lives in this scope.
Index add_shard_of(Plan& plan, Index whole, const Sharding& sharding, std::optional<Scope> only) {
  if (!only) return add_shard(plan, whole, sharding);
  plan.buffers[whole].scope = *only;
  return add_owned(plan, whole, sharding);
}

}  // namespace

void add_bucket_buffers(Plan& plan, ParameterBucket& bucket, const std::string& name, Dtype precision,
                        const BucketRules& rules) {
  const bool sharded = bucket.shards > 1;
  const Sharding sharding = sharding_of(bucket, rules);
  const Dtype kept = rules.optimizer.main_grads_dtype, reduced = rules.optimizer.grad_reduce_dtype;
  bucket.weights = add_flat_buffer(plan, name + " weights", Category::weights,
                                   bucket.narrow.value_or(precision), bucket.elements);
  plan.buffers[bucket.weights].scale_block = bucket.scale_block;
  if (rules.servers.any() && !bucket.frozen) {
    bucket.gradients =
        add_flat_buffer(plan, name + " main gradients", Category::gradients, kept, bucket.elements);
    add_served_parts(plan, bucket, name, rules);
    add_optimizer_state(plan, bucket, name, precision, rules);
    return leave_parts_to_servers(plan, bucket, rules);
  }
  std::optional<Scope> weights_only, gradients_only;
  const bool offloads_weights = rules.offload.parameters != OffloadTarget::none;
  if ((sharded || offloads_weights) && bucket.zero_stage == 3) weights_only = rules.gathered;
  bucket.weight_shard = add_shard_of(plan, bucket.weights, sharding, weights_only);
  offload_weights(plan, bucket, rules.offload.parameters);
  if (bucket.frozen) return;
  bucket.gradients =
      add_flat_buffer(plan, name + " main gradients", Category::gradients, kept, bucket.elements);
  if (sharded && bucket.zero_stage >= 2)
    gradients_only = rules.reduces_once     ? Scope::step
                     : bucket.written_early ? Scope::microbatch
                                            : Scope::pass;
  bucket.gradient_shard = add_shard_of(plan, bucket.gradients, sharding, gradients_only);
  bucket.keeps_shard = gradients_only.has_value();
  if (gradients_only && !rules.reduces_once) {
    bucket.reduced = add_owned(plan, bucket.gradients, sharding);
    plan.buffers[bucket.reduced].name = name + " reduced gradients";
    plan.buffers[bucket.reduced].scope = Scope::pass;
    plan.buffers[bucket.reduced].dtype = reduced;
  }
  if (rules.hierarchical && !bucket.replica_axes.empty())
    bucket.piece = add_shard(plan, bucket.gradients,
                             {rules.mesh.size(bucket.shard_axes) * copies(rules), sharding.axes});
  if (reduced != kept && (copies(rules) > 1 || !bucket.data_axes.empty())) {
    bucket.compressed =
        add_flat_buffer(plan, name + " compressed gradients", Category::comm, reduced, bucket.elements);
    plan.buffers[bucket.compressed].scope = Scope::pass;
    if (!gradients_only) bucket.compressed_shard = add_shard(plan, bucket.compressed, sharding);
  }
  add_optimizer_state(plan, bucket, name, precision, rules);
  offload_state(plan, bucket, rules.offload);
}

}  // namespace simrun
