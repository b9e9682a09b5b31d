#include "planner/device_balance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "configs/node_groups.h"
#include "configs/pipeline_layout.h"
#include "configs/rank_order.h"

namespace simrun {

namespace {

std::string runs_text(const std::vector<std::int64_t>& sizes) {
  std::string text;
  for (std::size_t i = 0; i < sizes.size();) {
    std::size_t end = i;
    while (end < sizes.size() && sizes[end] == sizes[i]) ++end;
    text += fmt::format("{}{} x {}", text.empty() ? "" : " + ", end - i, sizes[i]);
    i = end;
  }
  return text;
}

std::string layers_of_layout(const std::string& layout) {
  std::vector<std::int64_t> layers;
  for (const StageContent& stage : parse_pipeline_layout(layout).stages) layers.push_back(stage.layers);
  constexpr std::size_t at_a_glance = 8;
  return layers.size() > at_a_glance ? runs_text(layers) : fmt::format("{}", fmt::join(layers, "+"));
}

enum class GpuOrder : std::uint8_t { large_first, small_first, fast_first, slow_first };

const char* describe(GpuOrder order) {
  switch (order) {
    case GpuOrder::large_first: return "large memory first";
    case GpuOrder::small_first: return "small memory first";
    case GpuOrder::fast_first: return "fast GPUs first";
    case GpuOrder::slow_first: return "slow GPUs first";
  }
  return "";
}

// Devices by their memory, of equal ones by their peak, or the other way round.
std::vector<std::int64_t> devices_by(const Job& job, GpuOrder order) {
  const GpuKinds kinds(job.cluster);
  const bool by_memory = order == GpuOrder::large_first || order == GpuOrder::small_first;
  const bool descends = order == GpuOrder::large_first || order == GpuOrder::fast_first;
  const auto rank_of = [&](std::int64_t device) {
    const Gpu& gpu = kinds.gpu(kinds.of(device));
    const auto found = gpu.peak_flops.find(job.training.precision);
    const double peak = found == gpu.peak_flops.end() ? 0.0 : found->second,
                 memory = static_cast<double>(gpu.memory_bytes);
    return by_memory ? std::pair(memory, peak) : std::pair(peak, memory);
  };
  std::vector<std::int64_t> devices(static_cast<std::size_t>(job.world_size() - job.server_gpus()));
  std::iota(devices.begin(), devices.end(), 0);
  std::ranges::stable_sort(devices, [&](std::int64_t a, std::int64_t b) {
    return descends ? rank_of(a) > rank_of(b) : rank_of(a) < rank_of(b);
  });
  return devices;
}

// The rank of every device where rank number `rank_at(i)` is on the i-th of them; empty where that is its
// number.
template <class RankAt>
std::vector<std::int64_t> map_of(const std::vector<std::int64_t>& devices, const RankAt& rank_at) {
  std::vector<std::int64_t> map(devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i)
    map[static_cast<std::size_t>(devices[i])] = rank_at(static_cast<std::int64_t>(i));
  if (std::ranges::is_sorted(map)) map.clear();
  return map;
}

// Data-parallel sizes by stage: so far, and whole ones that are unlike.
struct DealtStages {
  std::vector<std::int64_t> sizes;
  std::vector<std::vector<std::int64_t>> all;
};

// Deals the stages over the kinds from `kind` on, each kind's equally large.
void deal_stages(const Job& job, const GpuKinds& kinds, std::size_t kind, std::int64_t stages,
                 DealtStages& dealt) {
  std::vector<std::int64_t>& sizes = dealt.sizes;
  if (kind == kinds.count()) {
    if (stages == 0 && std::ranges::adjacent_find(sizes, std::not_equal_to<>()) != sizes.end())
      dealt.all.push_back(sizes);
    return;
  }
  const std::int64_t tensor = job.parallelism.tensor_model_parallel_size;
  for (std::int64_t own = 1; own <= stages; ++own) {
    if (kinds.devices(kind) % (own * tensor) != 0) continue;
    sizes.insert(sizes.end(), static_cast<std::size_t>(own), kinds.devices(kind) / (own * tensor));
    deal_stages(job, kinds, kind + 1, stages - own, dealt);
    sizes.resize(sizes.size() - static_cast<std::size_t>(own));
  }
}

// Sequences of each of the first stage's ranks, so that a microbatch is about as large as it was, and splits
// over every stage's; 0: none.
std::int64_t micro_batch_of(const Job& job, const std::vector<std::int64_t>& data) {
  const std::int64_t samples = job.training.micro_batch_size * job.parallelism.data_parallel_size;
  const std::int64_t wanted = std::max<std::int64_t>(1, samples / data.front());
  for (std::int64_t micro = wanted; micro <= 4 * wanted; ++micro) {
    const std::int64_t all = micro * data.front();
    const auto splits = [all](std::int64_t size) { return all % size == 0; };
    if (job.training.global_batch_size % all == 0 && std::ranges::all_of(data, splits)) return micro;
  }
  return 0;
}

std::vector<DeviceBalance> stages_by_kind(const Job& job) {
  const GpuKinds kinds(job.cluster);
  std::vector<DeviceBalance> placements;
  for (std::int64_t device = 1; device < job.world_size(); ++device)
    if (kinds.of(device) < kinds.of(device - 1)) return placements;  // a kind has nodes in two places
  DealtStages dealt;
  deal_stages(job, kinds, 0, job.parallelism.pipeline_model_parallel_size, dealt);
  for (std::vector<std::int64_t>& data : dealt.all) {
    DeviceBalance placed;
    placed.micro_batch = micro_batch_of(job, data);
    placed.stage_data = std::move(data);
    if (placed.micro_batch > 0) placements.push_back(std::move(placed));
  }
  return placements;
}

}  // namespace

std::vector<Override> overrides_of(const DeviceBalance& balance) {
  std::vector<Override> overrides;
  if (!balance.layout.empty())
    overrides.push_back({"parallelism.pipeline_model_parallel_layout", '"' + balance.layout + '"'});
  if (!balance.rank_map.empty()) overrides.push_back({"parallelism.rank_order", "null"});
  if (!balance.rank_map.empty())
    overrides.push_back({"parallelism.rank_map", fmt::format("[{}]", fmt::join(balance.rank_map, ", "))});
  if (balance.micro_batch > 0)
    overrides.push_back({"training.micro_batch_size", fmt::format("{}", balance.micro_batch)});
  if (!balance.replicas.empty())
    overrides.push_back(
        {"training.replica_micro_batch_sizes", fmt::format("[{}]", fmt::join(balance.replicas, ", "))});
  if (!balance.stage_data.empty())
    overrides.push_back(
        {"parallelism.stage_data_parallel_sizes", fmt::format("[{}]", fmt::join(balance.stage_data, ", "))});
  return overrides;
}

std::string describe(const DeviceBalance& balance) {
  std::vector<std::string> words;
  if (!balance.rank_map.empty()) words.push_back(balance.placement);
  if (!balance.stage_data.empty())
    words.push_back(fmt::format("data parallel {} by stage", fmt::join(balance.stage_data, "+")));
  if (!balance.layout.empty()) words.push_back("layers " + layers_of_layout(balance.layout));
  if (balance.replicas.empty() && balance.micro_batch > 0)
    words.push_back(fmt::format("batches of {}", balance.micro_batch));
  if (!balance.replicas.empty()) words.push_back("batches " + runs_text(balance.replicas));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::vector<DeviceBalance> placements_of(const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  const std::int64_t stages = parallelism.pipeline_model_parallel_size,
                     replicas = parallelism.data_parallel_size;
  std::vector<DeviceBalance> placements(1);
  if (stages == 1 || !parallelism.rank_map.empty() || parallelism.rank_order != default_rank_order ||
      parallelism.has_unlike_stages())
    return placements;
  const auto in_order = [](std::int64_t i) { return i; };
  const std::vector<std::int64_t> devices = devices_by(job, GpuOrder::large_first);
  placements[0].rank_map = map_of(devices, in_order);
  if (!placements[0].rank_map.empty()) placements[0].placement = describe(GpuOrder::large_first);
  for (const GpuOrder order : {GpuOrder::small_first, GpuOrder::fast_first, GpuOrder::slow_first}) {
    DeviceBalance placed;
    placed.rank_map = map_of(devices_by(job, order), in_order);
    if (!placed.rank_map.empty()) placed.placement = describe(order);
    const auto is_known = [&](const DeviceBalance& known) { return known.rank_map == placed.rank_map; };
    if (std::ranges::none_of(placements, is_known)) placements.push_back(std::move(placed));
  }
  for (DeviceBalance& placed : stages_by_kind(job)) placements.push_back(std::move(placed));
  if (replicas == 1) return placements;
  const std::int64_t width = parallelism.tensor_model_parallel_size * parallelism.context_parallel_size;
  DeviceBalance& whole = placements.emplace_back();
  whole.rank_map = map_of(devices, [&](std::int64_t i) {
    const std::int64_t stage = i / width % stages, replica = i / (width * stages);
    return i % width + width * (replica + replicas * stage);
  });
  whole.placement = "replicas of one kind";
  if (whole.rank_map.empty()) placements.pop_back();  // the last
  return placements;
}

}  // namespace simrun
