#include "schedules/parameter_buckets.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace simrun {
namespace {

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
  std::vector<ParameterBucket> buckets;
  std::map<std::pair<std::vector<AxisId>, bool>, std::size_t>
      latest;  // bucket still open, by what it sums over
  for (std::size_t p = code.parameters.size(); p-- > 0;) {
    if (p == rules.elsewhere) continue;
    const bool tied = code.values[code.parameters[p]].tensor == rules.tied_tensor;
    const std::vector<AxisId>& axes = code.gradient_axes[p];
    const auto [open, is_new] = latest.emplace(std::pair{axes, tied}, buckets.size());
    if (is_new || buckets[open->second].elements >= rules.bucket_size) {
      open->second = buckets.size();
      buckets.push_back({{}, axes, tied});
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

// The part of a bucket that a data-parallel rank owns under ZeRO-1: at dp coordinate x elements / dp.
Index add_shard(Plan& plan, Index parent, std::int64_t shards) {
  if (shards == 1) return parent;
  const Buffer whole = plan.buffers[parent];
  const Index shard =
      add_flat(plan, whole.name + " shard", whole.category, whole.dtype, whole.elements() / shards);
  plan.buffers[shard].parent = parent;
  plan.buffers[shard].split = {"dp"};
  return shard;
}

}  // namespace

void add_bucket_buffers(Plan& plan, ParameterBucket& bucket, const std::string& name, Dtype precision,
                        std::int64_t shards) {
  bucket.weights = add_flat(plan, name + " weights", Category::weights, precision, bucket.elements);
  bucket.gradients =
      add_flat(plan, name + " main gradients", Category::gradients, Dtype::fp32, bucket.elements);
  bucket.weight_shard = add_shard(plan, bucket.weights, shards);
  bucket.gradient_shard = add_shard(plan, bucket.gradients, shards);
  const std::int64_t owned = bucket.elements / shards;
  if (precision != Dtype::fp32)
    bucket.main_weights = add_flat(plan, name + " main weights", Category::optimizer, Dtype::fp32, owned);
  bucket.exp_avg = add_flat(plan, name + " exp_avg", Category::optimizer, Dtype::fp32, owned);
  bucket.exp_avg_sq = add_flat(plan, name + " exp_avg_sq", Category::optimizer, Dtype::fp32, owned);
}

}  // namespace simrun
