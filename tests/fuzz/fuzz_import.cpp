#include <cstdint>
#include <string>

#include "configs/diagnostics.h"
#include "configs/import_deepspeed.h"
#include "configs/import_megatron.h"

// Any script, list, YAML or JSON is a job or refused with a ConfigError.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const char* file : {"run.sh", "model_config.yaml"}) try {
      simrun::import_megatron(text, file, {});
    } catch (const simrun::ConfigError&) {
    }
  try {
    simrun::import_deepspeed(text, "ds.json", {});
  } catch (const simrun::ConfigError&) {
  }
  return 0;
}
