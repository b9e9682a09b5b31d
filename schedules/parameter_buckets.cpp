#include "schedules/parameter_buckets.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "schedules/flat_buffer.h"
#include "schedules/optimizer_state.h"

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

}  // namespace

std::vector<ParameterBucket> make_buckets(const ChunkCode& code,
                                          const std::vector<std::int64_t>& local_elements,
                                          const BucketRules& rules) {
  const std::vector<std::size_t> written = last_writes(code);
  // ZeRO-3 gathers layer by layer; what is outside the layers is one unit, FSDP's root module.
  const bool by_layer = rules.zero_stage == 3 && rules.shards > 1;
  const std::vector<std::int32_t> layers = by_layer ? layers_of(code) : std::vector<std::int32_t>();
  std::vector<ParameterBucket> buckets;
  std::map<std::tuple<std::vector<AxisId>, bool, std::int32_t>, std::size_t>
      latest;  // bucket still open, by what it sums over and its layer
  for (std::size_t p = code.parameters.size(); p-- > 0;) {
    if (p == rules.elsewhere) continue;
    const bool tied = code.values[code.parameters[p]].tensor == rules.tied_tensor;
    const std::vector<AxisId>& axes = code.gradient_axes[p];
    const auto [open, is_new] =
        latest.emplace(std::tuple{axes, tied, by_layer ? layers[p] : -1}, buckets.size());
    if (is_new || buckets[open->second].elements >= rules.bucket_size) {
      open->second = buckets.size();
      buckets.emplace_back();
      buckets.back().axes = axes;
      buckets.back().tied = tied;
    }
    ParameterBucket& bucket = buckets[open->second];
    bucket.members.push_back(p);
    bucket.elements += local_elements[p];
    bucket.complete_after = std::max(bucket.complete_after, written[p]);
  }
  if (rules.shards > 1)
    for (ParameterBucket& bucket : buckets) {
      const std::int64_t multiple = std::lcm(rules.shards, std::int64_t{128});
      bucket.elements = (bucket.elements + multiple - 1) / multiple * multiple;
    }
  return buckets;
}

namespace {

// The part of a bucket that a data-parallel rank owns under ZeRO-1: at dp coordinate x elements / dp.
Index add_shard(Plan& plan, Index parent, std::int64_t shards) {
  if (shards == 1) return parent;
  const Buffer whole = plan.buffers[parent];
  const Index shard =
      add_flat_buffer(plan, whole.name + " shard", whole.category, whole.dtype, whole.elements() / shards);
  plan.buffers[shard].parent = parent;
  plan.buffers[shard].split = {"dp"};
  return shard;
}

// The only part of a bucket that a rank keeps.
Index add_owned(Plan& plan, Index whole, std::int64_t shards) {
  const Buffer of = plan.buffers[whole];
  const Index shard =
      add_flat_buffer(plan, of.name + " shard", of.category, of.dtype, of.elements() / shards);
  plan.buffers[shard].split = {"dp"};
  return shard;
}

// What is kept of a bucket under the ZeRO stage: the parameter or gradient buffers.
Index add_shard_of(Plan& plan, Index whole, const BucketRules& rules, bool sharded, Scope scope) {
  if (!sharded) return add_shard(plan, whole, rules.shards);
  plan.buffers[whole].scope = scope;
  return add_owned(plan, whole, rules.shards);
}

}  // namespace

void add_bucket_buffers(Plan& plan, ParameterBucket& bucket, const std::string& name, Dtype precision,
                        const BucketRules& rules) {
  const bool sharded = rules.shards > 1;
  const Dtype kept = rules.optimizer.main_grads_dtype, reduced = rules.optimizer.grad_reduce_dtype;
  bucket.weights = add_flat_buffer(plan, name + " weights", Category::weights, precision, bucket.elements);
  bucket.gradients =
      add_flat_buffer(plan, name + " main gradients", Category::gradients, kept, bucket.elements);
  bucket.weight_shard =
      add_shard_of(plan, bucket.weights, rules, sharded && rules.zero_stage == 3, Scope::pass);
  const bool shards_gradients = sharded && rules.zero_stage >= 2;
  bucket.gradient_shard = add_shard_of(plan, bucket.gradients, rules, shards_gradients,
                                       rules.splits_backward ? Scope::microbatch : Scope::pass);
  if (shards_gradients) {
    bucket.reduced = add_owned(plan, bucket.gradients, rules.shards);
    plan.buffers[bucket.reduced].name = name + " reduced gradients";
    plan.buffers[bucket.reduced].scope = Scope::pass;
    plan.buffers[bucket.reduced].dtype = reduced;
  }
  if (reduced != kept && rules.is_summed) {
    bucket.compressed =
        add_flat_buffer(plan, name + " compressed gradients", Category::comm, reduced, bucket.elements);
    plan.buffers[bucket.compressed].scope = Scope::pass;
    if (!shards_gradients) bucket.compressed_shard = add_shard(plan, bucket.compressed, rules.shards);
  }
  add_optimizer_state(plan, bucket, name, precision, rules);
}

}  // namespace simrun
