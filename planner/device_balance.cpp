#include "planner/device_balance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "configs/pipeline_layout.h"

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
  return fmt::format("{}", fmt::join(layers, "+"));
}

}  // namespace

std::vector<Override> overrides_of(const DeviceBalance& balance) {
  std::vector<Override> overrides;
  if (!balance.layout.empty())
    overrides.push_back({"parallelism.pipeline_model_parallel_layout", '"' + balance.layout + '"'});
  if (!balance.rank_map.empty())
    overrides.push_back({"parallelism.rank_map", fmt::format("[{}]", fmt::join(balance.rank_map, ", "))});
  if (balance.micro_batch > 0)
    overrides.push_back({"training.micro_batch_size", fmt::format("{}", balance.micro_batch)});
  if (!balance.replicas.empty())
    overrides.push_back(
        {"training.replica_micro_batch_sizes", fmt::format("[{}]", fmt::join(balance.replicas, ", "))});
  return overrides;
}

std::string describe(const DeviceBalance& balance) {
  std::vector<std::string> words;
  if (!balance.rank_map.empty()) words.emplace_back("large memory first");
  if (!balance.layout.empty()) words.push_back("layers " + layers_of_layout(balance.layout));
  if (balance.replicas.empty() && balance.micro_batch > 0)
    words.push_back(fmt::format("batches of {}", balance.micro_batch));
  if (!balance.replicas.empty()) words.push_back("batches " + runs_text(balance.replicas));
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace simrun
