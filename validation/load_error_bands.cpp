#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "configs/config_node.h"
#include "configs/numbers.h"
#include "configs/text_file.h"
#include "validation/error_bands.h"

namespace simrun {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> keys = {"of",  "gpu",    "framework", "parallelism", "runs",
                                       "low", "median", "high",      "sources"};
constexpr RealRange ratio = {1e-6, 1e6};
constexpr IntegerRange run_count = {1, 1'000'000'000};

class BandReader {
 public:
  BandReader(const ConfigNode& node, std::vector<Diagnostic>& problems) : node_(node), problems_(problems) {}

  ErrorBand read() {
    for (const ConfigNode& child : node_.children)
      if (std::ranges::find(keys, child.key) == keys.end()) {
        const std::string meant = closest(child.key, keys);
        problems_.push_back({child.key_position, "unknown key " + in_quotes(child.key),
                             meant.empty() ? "" : fmt::format("did you mean '{}'?", meant)});
      }
    ErrorBand band;
    const std::string of = text("of");
    band.is_memory = of == "memory";
    if (of != "memory" && of != "time") refuse("of", "a band is of time or of memory, not of " + in_quotes(of));
    band.kind = {text("gpu"), text("framework"), text("parallelism")};
    band.runs = static_cast<std::size_t>(value("runs", parse_integer(text("runs"), run_count)));
    band.low = value("low", parse_real(text("low"), ratio));
    band.median = value("median", parse_real(text("median"), ratio));
    band.high = value("high", parse_real(text("high"), ratio));
    if (band.low > band.high) refuse("low", "low is above high");
    if (const ConfigNode* sources = node_.find("sources"))
      for (const ConfigNode& source : sources->children) band.sources.push_back(source.text);
    return band;
  }

 private:
  void refuse(const std::string& key, std::string message) {
    const ConfigNode* const child = node_.find(key);
    problems_.push_back({child != nullptr ? child->position : node_.position, std::move(message),
                         "simrun --validate ROWS.csv --bands FILE writes this file."});
  }
  std::string text(const std::string& key) const {
    const ConfigNode* const child = node_.find(key);
    return child != nullptr && child->kind == ConfigNode::Kind::scalar ? child->text : "";
  }
  template <typename Value>
  Value value(const std::string& key, const Parsed<Value>& parsed) {
    if (!parsed.value) refuse(key, fmt::format("'{}': {}", key, parsed.problem));
    return parsed.value.value_or(Value(1));
  }

  const ConfigNode& node_;
  std::vector<Diagnostic>& problems_;
};

}  // namespace

std::vector<ErrorBand> load_error_bands(const LoadOptions& options) {
  std::string path;
  for (const std::string& directory : options.preset_directories) {
    std::error_code ignored;
    const fs::path candidate = fs::path(directory) / "validation" / "error_bands.yaml";
    if (path.empty() && fs::is_regular_file(candidate, ignored)) path = candidate.string();
  }
  if (path.empty()) return {};
  const TextFile file = read_text_file(path);
  if (!file.text) throw ConfigError({{{path, 0, 0}, "cannot read this file: " + file.reason, ""}});
  std::vector<Diagnostic> problems;
  const ConfigNode root = read_yaml(*file.text, path, problems);
  std::vector<ErrorBand> bands;
  if (problems.empty() && root.kind != ConfigNode::Kind::sequence)
    problems.push_back({root.position, "a file of error bands is a list, not " + describe(root), ""});
  for (const ConfigNode& node : root.children) bands.push_back(BandReader(node, problems).read());
  if (!problems.empty()) throw ConfigError(std::move(problems));
  return bands;
}

}  // namespace simrun
