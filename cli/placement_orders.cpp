#include "cli/placement_orders.h"

#include <algorithm>
#include <array>

#include "configs/rank_order.h"
#include "schedules/plan_file.h"

namespace simrun {
namespace {

constexpr std::array names = {"tp", "cp", "dp", "pp"};  // by RankAxis

// ep, which has no place of its own, is named behind cp as in Megatron-LM's order.
std::string order_text(const std::vector<std::size_t>& axes) {
  std::string text;
  for (const std::size_t axis : axes) {
    text += (text.empty() ? "" : "-") + std::string(names.at(axis));
    if (static_cast<RankAxis>(axis) == RankAxis::cp) text += "-ep";
  }
  return text;
}

}  // namespace

std::vector<std::string> placement_orders(const Parallelism& parallelism) {
  const std::array<std::int64_t, 4> size{parallelism.tensor_model_parallel_size,
                                         parallelism.context_parallel_size, parallelism.data_parallel_size,
                                         parallelism.pipeline_model_parallel_size};
  std::vector<std::size_t> places, axes;  // where axes of several ranks are in Megatron-LM's order
  for (std::size_t axis = 0; axis < size.size(); ++axis)
    if (size.at(axis) > 1) places.push_back(axis);
  axes = places;
  std::vector<std::string> orders;
  do {
    if (axes.size() == size.size() && axes.front() != 0) continue;
    std::vector<std::size_t> order{0, 1, 2, 3};
    for (std::size_t i = 0; i < axes.size(); ++i) order[places[i]] = axes[i];
    orders.push_back(order_text(order));
  } while (std::next_permutation(axes.begin(), axes.end()));
  return orders;
}

Options with_rank_orders(const Options& options, const LoadOptions& load) {
  if (is_plan_file(options.input))
    throw ConfigError({{{options.input, 0, 0}, "--placement auto needs a job, this is a Plan file", ""}});
  Options swept = options;
  const Job job = load_job(options.input, load).job;
  swept.sweep = {{"parallelism.rank_order", placement_orders(job.parallelism)}};
  return swept;
}

}  // namespace simrun
