#include "cli/input_words.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

namespace simrun {

bool is_job_name(const std::string& path) {
  return path.ends_with(".yaml") || path.ends_with(".yml") || path.ends_with(".json");
}

std::string fault_of_inputs(const std::vector<std::string>& inputs, bool json, bool plan) {
  if (inputs.size() > 2) return "more than two configs: one is simulated, two are compared";
  if (!json || inputs.empty() || (inputs.size() == 1 && !plan)) return "";
  const std::string& last = inputs.back();
  std::error_code error;
  if (!last.ends_with(".json") || std::filesystem::exists(last, error)) return "";
  return fmt::format("{}: no such file; --json takes no name, it prints: simrun ... --json > {}", last, last);
}

}  // namespace simrun
