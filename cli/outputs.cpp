#include "cli/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "cli/output_file.h"
#include "configs/diagnostics.h"

namespace simrun {

namespace fs = std::filesystem;

std::optional<std::string> page_path(const Options& options, const std::string& ending) {
  if (options.no_html) return std::nullopt;
  if (options.html) return options.html;
  if (options.json) return std::nullopt;
  const fs::path input = options.input;
  return (input.parent_path() / (input.stem().string() + ending)).string();
}

void probe_outputs(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs) {
  std::vector<Diagnostic> faults;
  std::set<std::string> taken;
  for (const std::string& path : outputs) {
    std::error_code ignored;
    Diagnostic diagnostic;
    diagnostic.position.file = path;
    const auto is_same = [&](const std::string& file) { return fs::equivalent(path, file, ignored); };
    if (std::ranges::any_of(inputs, is_same)) {
      diagnostic.message = "this would overwrite the input";
      diagnostic.hint = "choose another path.";
    } else if (!taken.insert(fs::weakly_canonical(path, ignored).string()).second) {
      diagnostic.message = "two outputs have this path";
      diagnostic.hint = "choose another path for one of them.";
    } else if (const std::string fault = probe_output(path); !fault.empty()) {
      diagnostic.message = "cannot write here: " + fault;
    } else {
      continue;
    }
    faults.push_back(diagnostic);
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
}

std::string file_size_text(std::size_t bytes) {
  const auto size = static_cast<double>(bytes);
  return bytes < 100'000 ? fmt::format("{:.1f} kB", size / 1e3) : fmt::format("{:.2f} MB", size / 1e6);
}

std::string write_reported(const std::string& path, const std::string& bytes) {
  write_output(path, bytes);
  return fmt::format("wrote {} ({})\n", path, file_size_text(bytes.size()));
}

}  // namespace simrun
