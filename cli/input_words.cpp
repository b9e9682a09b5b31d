#include "cli/input_words.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

namespace simrun {

bool is_job_name(const std::string& path) {
  return path.ends_with(".yaml") || path.ends_with(".yml") || path.ends_with(".json");
}

std::string fault_of_inputs(const std::vector<std::string>& inputs, bool json,
                            const std::optional<std::string>& plan) {
  if (inputs.size() > 2) return "more than two configs: one is simulated, two are compared";
  const bool names_another = inputs.size() > 1 || (plan && is_job_name(*plan));
  if (!json || !names_another) return "";
  for (const std::string& input : inputs) {
    std::error_code error;
    if (input.ends_with(".json") && !std::filesystem::exists(input, error))
      return fmt::format("{}: no such file; --json takes no name, it prints: simrun ... --json > {}", input,
                         input);
  }
  return "";
}

}  // namespace simrun
