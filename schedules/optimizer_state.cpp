#include "schedules/optimizer_state.h"

#include <utility>

#include "schedules/adafactor_update.h"
#include "schedules/flat_buffer.h"

namespace simrun {
namespace {

constexpr std::int64_t elements_per_scale = 256;

// A moment, and its scales if it is quantised in blocks.
Index add_moment(Plan& plan, ParameterBucket& bucket, const std::string& name, Dtype dtype,
                 std::int64_t elements) {
  const Index moment = add_flat_buffer(plan, name, Category::optimizer, dtype, elements);
  if (dtype == Dtype::uint8)
    bucket.more_state.push_back(add_flat_buffer(plan, name + " scales", Category::optimizer, Dtype::fp32,
                                                (elements + elements_per_scale - 1) / elements_per_scale));
  return moment;
}

}  // namespace

void add_optimizer_state(Plan& plan, ParameterBucket& bucket, const std::string& name, Dtype precision,
                         const BucketRules& rules) {
  const OptimizerConfig& optimizer = rules.optimizer;
  const std::int64_t owned = bucket.elements / bucket.shards;
  if (precision != Dtype::fp32 && precision != Dtype::tf32 && optimizer.main_params_dtype)
    bucket.main_weights = add_flat_buffer(plan, name + " main weights", Category::optimizer,
                                          *optimizer.main_params_dtype, owned);
  if (optimizer.name == UpdateRule::adafactor) {
    const FactoredElements elements = factored_elements(bucket);
    for (const auto& [what, count] : {std::pair{" second moments by row", elements.rows},
                                      std::pair{" second moments by column", elements.columns}})
      if (count > 0)
        bucket.more_state.push_back(
            add_flat_buffer(plan, name + what, Category::optimizer, Dtype::fp32, count));
    return;
  }
  const bool is_sgd = optimizer.name == UpdateRule::sgd;
  const bool momentum_only = is_sgd || bucket.orthogonalised;
  if (!is_sgd || optimizer.sgd_momentum > 0)
    bucket.exp_avg = add_moment(plan, bucket, name + (momentum_only ? " momentum" : " exp_avg"),
                                optimizer.exp_avg_dtype, owned);
  if (!momentum_only)
    bucket.exp_avg_sq = add_moment(plan, bucket, name + " exp_avg_sq", optimizer.exp_avg_sq_dtype, owned);
}

}  // namespace simrun
