#include "planner/starting_split.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "configs/diagnostics.h"
#include "configs/text_file.h"
#include "schedules/plan_file.h"

namespace simrun {
namespace {

constexpr std::string_view micro_batch = "training.micro_batch_size";
constexpr std::string_view pipeline = "parallelism.pipeline_model_parallel_size";
constexpr std::string_view tensor = "parallelism.tensor_model_parallel_size";
constexpr int largest_pipeline = 64;
constexpr int largest_tensor = 8;

bool is_written(const ConfigNode& root, const LoadOptions& load, std::string_view path) {
  const auto names_it = [&](const Override& over) {
    return over.key == path || path.starts_with(over.key + ".");
  };
  if (std::ranges::any_of(load.overrides, names_it)) return true;
  const std::size_t dot = path.find('.');
  const ConfigNode* section = root.find(path.substr(0, dot));
  return section != nullptr && section->find(path.substr(dot + 1)) != nullptr;
}

std::size_t problems_of(const std::string& text, const std::string& file, const LoadOptions& load) {
  try {
    load_job_text(text, file, load);
    return 0;
  } catch (const ConfigError& error) {
    return error.diagnostics().size();
  }
}

// Powers of two up to `most` where the search is free, else one value that stands for what is written.
std::vector<int> sizes(bool is_free, int most) {
  std::vector<int> all;
  for (int size = 1; size <= (is_free ? most : 1); size *= 2) all.push_back(size);
  return all;
}

}  // namespace

LoadOptions with_starting_split(const std::string& path, const LoadOptions& load) {
  if (is_plan_file(path)) return load;
  const TextFile file = read_text_file(path);
  return file.text ? with_starting_split(*file.text, path, load) : load;
}

LoadOptions with_starting_split(const std::string& text, const std::string& file, const LoadOptions& load) {
  std::vector<Diagnostic> problems;
  const ConfigNode root = read_yaml(text, file, problems);
  if (!problems.empty() || root.kind != ConfigNode::Kind::map) return load;
  LoadOptions whole = load;
  if (!is_written(root, load, micro_batch)) whole.overrides.push_back({std::string(micro_batch), "1"});
  const bool cuts_layers = !is_written(root, load, pipeline), cuts_tensors = !is_written(root, load, tensor);
  LoadOptions best = whole;
  std::size_t fewest = std::numeric_limits<std::size_t>::max();
  for (const int stages : sizes(cuts_layers, largest_pipeline)) {
    for (const int parts : sizes(cuts_tensors, largest_tensor)) {
      LoadOptions split = whole;
      if (stages > 1) split.overrides.push_back({std::string(pipeline), std::to_string(stages)});
      if (parts > 1) split.overrides.push_back({std::string(tensor), std::to_string(parts)});
      const std::size_t problems_left = problems_of(text, file, split);
      if (problems_left < fewest) best = split;
      fewest = std::min(fewest, problems_left);
      if (fewest == 0) return best;
    }
  }
  return best;
}

}  // namespace simrun
