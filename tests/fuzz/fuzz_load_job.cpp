// Any bytes as a job file: the loader must return a job or throw ConfigError, and nothing else; an accepted
// job's effective config must load again as an equal job.
//
// Seeds: configs/jobs. Presets are found through SIMRUN_CONFIGS, if it is set.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "configs/load_job.h"

namespace {

simrun::LoadOptions options() {
  simrun::LoadOptions with_presets;
  if (const char* directory = std::getenv("SIMRUN_CONFIGS")) with_presets.preset_directories = {directory};
  return with_presets;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  simrun::LoadedJob loaded;
  try {
    loaded = simrun::load_job_text(text, "fuzz/job.yaml", options());
  } catch (const simrun::ConfigError& error) {
    if (error.diagnostics().empty()) std::abort();
    simrun::render(error.diagnostics());
    return 0;
  }
  try {
    const simrun::LoadedJob again = simrun::load_job_text(loaded.effective_yaml, "fuzz/job.yaml", {});
    if (!(again.job == loaded.job)) std::abort();
  } catch (const simrun::ConfigError&) {
    std::abort();
  }
  return 0;
}
