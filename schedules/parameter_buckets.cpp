#include "schedules/parameter_buckets.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

namespace simrun {
namespace {

// By parameter, the layer that reads it first.
std::vector<std::int32_t> layers_of(const ChunkCode& code) {
  std::map<ValueId, std::int32_t> layer;
  for (const CodeStep& step : code.forward)
    for (const ValueId input : step.inputs) layer.try_emplace(input, step.layer);
  std::vector<std::int32_t> result;
  for (const ValueId parameter : code.parameters) {
    const auto at = layer.find(parameter);
    result.push_back(at == layer.end() ? -1 : at->second);
  }
  return result;
}

std::vector<std::size_t> last_writes(const ChunkCode& code) {
  std::vector<std::size_t> last(code.values.size(), 0);
  for (std::size_t s = 0; s < code.backward.size(); ++s)
    for (const ValueId output : code.backward[s].outputs) last[output] = s;
  std::vector<std::size_t> result;
  for (const ValueId gradient : code.parameter_gradients) result.push_back(last[gradient]);
  return result;
}

// Data axes and tensor axes of a gradient's sum.
struct SumAxes {
  std::vector<AxisId> data, tensor;
  auto operator<=>(const SumAxes&) const = default;  // NOLINT(modernize-use-nullptr)
};
SumAxes sum_axes(const ChunkCode& code, std::size_t parameter, const DeviceMesh& mesh) {
  SumAxes axes;
  const std::vector<AxisId>& all = code.gradient_axes[parameter];
  for (auto axis = all.rbegin(); axis != all.rend(); ++axis) {
    const bool data = mesh.kind[*axis] != 't' || code.of_experts[parameter];
    (data ? axes.data : axes.tensor).push_back(*axis);
  }
  return axes;
}

void pad_for_shards(ParameterBucket& bucket, const BucketRules& rules) {
  if (rules.zero_stage >= 1) bucket.shards = rules.mesh.size(bucket.data_axes) * rules.copies;
  if (bucket.shards == 1) return;
  const std::int64_t multiple = std::lcm(bucket.shards, std::int64_t{128});
  bucket.elements = (bucket.elements + multiple - 1) / multiple * multiple;
}

}  // namespace

std::vector<ParameterBucket> make_buckets(const ChunkCode& code,
                                          const std::vector<std::int64_t>& local_elements,
                                          const BucketRules& rules) {
  const std::vector<std::size_t> written = last_writes(code);
  // ZeRO-3 gathers layer by layer; what is outside the layers is one unit, FSDP's root module.
  const bool by_layer = rules.zero_stage == 3;
  const std::vector<std::int32_t> layers = by_layer ? layers_of(code) : std::vector<std::int32_t>();
  std::vector<ParameterBucket> buckets;
  std::map<std::tuple<SumAxes, bool, bool, std::int32_t>, std::size_t>
      latest;  // bucket still open, by what it sums over and its layer
  for (std::size_t p = code.parameters.size(); p-- > 0;) {
    if (p == rules.elsewhere) continue;
    const bool tied = code.values[code.parameters[p]].tensor == rules.tied_tensor;
    const SumAxes axes = sum_axes(code, p, rules.mesh);
    const auto [open, is_new] = latest.emplace(
        std::tuple{axes, tied, bool{code.of_experts[p]}, by_layer ? layers[p] : -1}, buckets.size());
    if (is_new || buckets[open->second].elements >= rules.bucket_size) {
      open->second = buckets.size();
      buckets.push_back({{}, axes.data, axes.tensor, 1, tied});
    }
    ParameterBucket& bucket = buckets[open->second];
    bucket.members.push_back(p);
    bucket.elements += local_elements[p];
    bucket.complete_after = std::max(bucket.complete_after, written[p]);
  }
  for (ParameterBucket& bucket : buckets) pad_for_shards(bucket, rules);
  return buckets;
}

namespace {

Index add_flat(Plan& plan, const std::string& name, Category category, Dtype dtype, std::int64_t elements) {
  Buffer buffer;
  buffer.name = name;
  buffer.category = category;
  buffer.scope = Scope::run;
  buffer.dtype = dtype;
  const auto flat = std::find(plan.dimension_names.begin(), plan.dimension_names.end(), "elements");
  buffer.dims = {{static_cast<std::uint16_t>(flat - plan.dimension_names.begin()), -1, elements}};
  plan.buffers.push_back(std::move(buffer));
  return static_cast<Index>(plan.buffers.size() - 1);
}

// What a bucket's shards are made of, and over which ranks they lie.
struct Sharding {
  std::int64_t shards = 1;
  std::string axes;
};
Sharding sharding_of(const ParameterBucket& bucket, const BucketRules& rules) {
  Sharding sharding{bucket.shards, ""};
  for (const AxisId axis : bucket.data_axes)
    sharding.axes += (sharding.axes.empty() ? "" : ",") + rules.mesh.mesh.axes[axis].name;
  return sharding;
}

// The part of a bucket that a data-parallel rank owns under ZeRO-1: at its data-parallel coordinate x
// elements / shards.
Index add_shard(Plan& plan, Index parent, const Sharding& sharding) {
  if (sharding.shards == 1) return parent;
  const Buffer whole = plan.buffers[parent];
  const Index shard =
      add_flat(plan, whole.name + " shard", whole.category, whole.dtype, whole.elements() / sharding.shards);
  plan.buffers[shard].parent = parent;
  plan.buffers[shard].split = {sharding.axes};
  return shard;
}

// The only part of a bucket that a rank keeps.
Index add_owned(Plan& plan, Index whole, const Sharding& sharding) {
  const Buffer of = plan.buffers[whole];
  const Index shard =
      add_flat(plan, of.name + " shard", of.category, of.dtype, of.elements() / sharding.shards);
  plan.buffers[shard].split = {sharding.axes};
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
  bucket.weights = add_flat(plan, name + " weights", Category::weights, precision, bucket.elements);
  bucket.gradients =
      add_flat(plan, name + " main gradients", Category::gradients, Dtype::fp32, bucket.elements);
  std::optional<Scope> weights_only, gradients_only;
  if (sharded && rules.zero_stage == 3) weights_only = Scope::pass;
  if (sharded && rules.zero_stage >= 2)
    gradients_only = rules.splits_backward ? Scope::microbatch : Scope::pass;
  bucket.weight_shard = add_shard_of(plan, bucket.weights, sharding, weights_only);
  bucket.gradient_shard = add_shard_of(plan, bucket.gradients, sharding, gradients_only);
  if (gradients_only) {
    bucket.reduced = add_owned(plan, bucket.gradients, sharding);
    plan.buffers[bucket.reduced].name = name + " reduced gradients";
    plan.buffers[bucket.reduced].scope = Scope::pass;
  }
  const std::int64_t owned = bucket.elements / bucket.shards;
  if (precision != Dtype::fp32)
    bucket.main_weights = add_flat(plan, name + " main weights", Category::optimizer, Dtype::fp32, owned);
  bucket.exp_avg = add_flat(plan, name + " exp_avg", Category::optimizer, Dtype::fp32, owned);
  bucket.exp_avg_sq = add_flat(plan, name + " exp_avg_sq", Category::optimizer, Dtype::fp32, owned);
}

}  // namespace simrun
