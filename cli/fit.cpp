#include "cli/fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "cli/console.h"
#include "cli/measured_file.h"
#include "cli/outputs.h"
#include "configs/diagnostics.h"
#include "configs/name_hints.h"
#include "configs/presets.h"
#include "validation/fit.h"
#include "validation/hardware_text.h"

namespace simrun {
namespace {

// The preset that the name means: its own, or one of the same words as hardware is named by, as a100_sxm_80g
// or H100-SXM. A name that no preset has may be that of a file in --set cluster.gpu=FILE.
std::string known_device(const std::string& device, const LoadOptions& load) {
  const std::vector<std::string> known = preset_names("gpus", load.preset_directories);
  const bool is_named = std::ranges::any_of(
      load.overrides, [&](const auto& of) { return of.value.find(device) != std::string::npos; });
  if (is_named || std::ranges::find(known, device) != known.end()) return device;
  const std::string words = hardware_words(device);
  const auto same = std::ranges::find(known, words, hardware_words);
  if (same != known.end()) return *same;
  const std::string meant = did_you_mean(device, known);
  throw ConfigError({{{"--device " + device, 0, 0},
                      fmt::format("there is no GPU '{}'", device),
                      meant.empty() ? fmt::format("there are {}.", fmt::join(known, ", ")) : meant}});
}

}  // namespace

int run_fit(const Options& options, const LoadOptions& load) {
  const std::string& path = *options.validate.fit;
  const std::string device = known_device(*options.execute.device, load);
  const MeasuredFile file = read_measured_file(path, options.validate.filters, load);
  if (options.validate.coefficients) probe_outputs({*options.validate.coefficients}, {path});
  const DeviceFit fit =
      fit_device(file.rows, device, load_coefficients(load), {load, EngineChoice::fast, 0, false});
  if (!fit.mixed.empty()) {
    std::vector<Diagnostic> faults;
    for (const auto& [line, gpus] : fit.mixed)
      faults.push_back(
          {{path, line, 1},
           fmt::format("this row ran on {}: what it says of '{}' alone cannot be told", gpus, device),
           "--filter COLUMN=VALUE keeps to rows of one kind of GPU."});
    throw ConfigError(std::move(faults));
  }
  if (fit.rows == 0) {
    complain(fmt::format("simrun: error: no row that counts ran on '{}'\n", device));
    if (!fit.others.empty())
      complain(fmt::format("  hint: rows of this file ran on {}.\n", fmt::join(fit.others, ", ")));
    return 2;
  }
  const std::string text = fit_yaml(fit, std::filesystem::path(path).filename().string());
  std::string wrote;
  if (options.validate.coefficients) wrote = write_reported(*options.validate.coefficients, text);
  if (!options.quiet) print(text + wrote);
  return 0;
}

}  // namespace simrun
