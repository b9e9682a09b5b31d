#include "schedules/rank_placement.h"

#include <array>
#include <optional>
#include <stdexcept>

#include "configs/rank_order.h"

namespace simrun {
namespace {

void append(std::int64_t device, std::vector<DeviceRange>& devices) {
  if (!devices.empty() && devices.back().first + devices.back().count == device)
    ++devices.back().count;
  else
    devices.push_back({device, 1});
}

// By RankAxis: how far apart the devices of neighbours along it are.
std::array<std::int64_t, 4> strides_of(const Parallelism& parallelism) {
  const std::array<std::int64_t, 4> size{parallelism.tensor_model_parallel_size,
                                         parallelism.context_parallel_size, parallelism.data_parallel_size,
                                         parallelism.pipeline_model_parallel_size};
  std::array<std::int64_t, 4> strides{};
  std::int64_t stride = 1;
  const std::optional<std::vector<RankAxis>> order = parse_rank_order(parallelism.rank_order);
  if (!order) throw std::logic_error("an order of axes that the loader refuses: " + parallelism.rank_order);
  for (const RankAxis axis : *order) {
    strides[static_cast<std::size_t>(axis)] = stride;
    stride *= size[static_cast<std::size_t>(axis)];
  }
  return strides;
}

}  // namespace

std::vector<std::vector<DeviceRange>> placed_devices(const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  const std::int64_t tp = parallelism.tensor_model_parallel_size, cp = parallelism.context_parallel_size;
  const std::int64_t per_stage = tp * cp * parallelism.data_parallel_size;
  const std::int64_t pp = parallelism.pipeline_model_parallel_size;
  std::vector<std::vector<DeviceRange>> placed(static_cast<std::size_t>(pp));
  if (parallelism.has_unlike_stages()) {
    std::int64_t first = 0;
    for (std::size_t stage = 0; stage < placed.size(); ++stage) {
      const std::int64_t count = parallelism.stage_tensor_sizes[stage] * parallelism.stage_data_sizes[stage];
      placed[stage] = {{first, count}};
      first += count;
    }
    return placed;
  }
  if (!parallelism.rank_map.empty()) {
    std::vector<std::int64_t> device_of(parallelism.rank_map.size());
    for (std::size_t device = 0; device < device_of.size(); ++device)
      device_of[static_cast<std::size_t>(parallelism.rank_map[device])] = static_cast<std::int64_t>(device);
    for (std::int64_t rank = 0; rank < pp * per_stage; ++rank)
      append(device_of[static_cast<std::size_t>(rank)], placed[static_cast<std::size_t>(rank / per_stage)]);
    return placed;
  }
  if (parallelism.rank_order == default_rank_order) {
    for (std::int64_t stage = 0; stage < pp; ++stage)
      placed[static_cast<std::size_t>(stage)] = {{stage * per_stage, per_stage}};
    return placed;
  }
  const auto [of_tp, of_cp, of_dp, of_pp] = strides_of(parallelism);
  for (std::int64_t stage = 0; stage < pp; ++stage)
    for (std::int64_t i = 0; i < per_stage; ++i)
      append(stage * of_pp + i % tp * of_tp + i / tp % cp * of_cp + i / (tp * cp) * of_dp,
             placed[static_cast<std::size_t>(stage)]);
  return placed;
}

}  // namespace simrun
