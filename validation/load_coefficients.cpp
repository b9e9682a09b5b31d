#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "configs/config_node.h"
#include "configs/numbers.h"
#include "configs/text_file.h"
#include "validation/fit.h"

namespace simrun {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> known_keys = {"key", "start", "from", "to", "reason"};
const std::string prefix = "cluster.gpu.";
constexpr RealRange any_share = {-1e6, 1e6};

std::string path_of_coefficients(const LoadOptions& options) {
  for (const std::string& directory : options.preset_directories) {
    std::error_code ignored;
    const fs::path candidate = fs::path(directory) / "validation" / "coefficients.yaml";
    if (fs::is_regular_file(candidate, ignored)) return candidate.string();
  }
  throw ConfigError(
      {{{"coefficients.yaml", 0, 0}, "no such file in validation/ of any preset directory", ""}});
}

double number_of(const ConfigNode& section, const std::string& key, std::vector<Diagnostic>& problems) {
  const ConfigNode* const child = section.find(key);
  if (child == nullptr) {
    problems.push_back({section.position, fmt::format("'{}' is missing", key), ""});
    return 0;
  }
  const Parsed<double> parsed = parse_real(child->text, any_share);
  if (!parsed.value) problems.push_back({child->position, fmt::format("'{}': {}", key, parsed.problem), ""});
  return parsed.value.value_or(0);
}

FitCoefficient read_coefficient(const ConfigNode& node, std::vector<Diagnostic>& problems) {
  for (const ConfigNode& child : node.children)
    if (std::ranges::find(known_keys, child.key) == known_keys.end()) {
      const std::string meant = closest(child.key, known_keys);
      problems.push_back({child.key_position, "unknown key " + in_quotes(child.key),
                          meant.empty() ? "" : fmt::format("did you mean '{}'?", meant)});
    }
  FitCoefficient read;
  read.name = node.key;
  if (const ConfigNode* key = node.find("key")) read.key = key->text;
  if (const ConfigNode* reason = node.find("reason")) read.reason = reason->text;
  if (!read.key.starts_with(prefix) || read.key.size() == prefix.size())
    problems.push_back({node.position, "a fitted coefficient is a device's: its key starts with cluster.gpu.",
                        "for example cluster.gpu.kernels.sustained."});
  read.start = number_of(node, "start", problems);
  read.from = number_of(node, "from", problems);
  read.to = number_of(node, "to", problems);
  if (!(read.from < read.to) || read.start < read.from || read.start > read.to)
    problems.push_back({node.position, "from < to, and start between them", ""});
  return read;
}

}  // namespace

std::vector<FitCoefficient> load_coefficients(const LoadOptions& options) {
  const std::string path = path_of_coefficients(options);
  const TextFile file = read_text_file(path);
  if (!file.text) throw ConfigError({{{path, 0, 0}, "cannot read this file: " + file.reason, ""}});
  std::vector<Diagnostic> problems;
  const ConfigNode root = read_yaml(*file.text, path, problems);
  std::vector<FitCoefficient> read;
  for (const ConfigNode& node : root.children) read.push_back(read_coefficient(node, problems));
  if (problems.empty() && read.empty()) problems.push_back({root.position, "no coefficient", ""});
  if (!problems.empty()) throw ConfigError(std::move(problems));
  return read;
}

}  // namespace simrun
