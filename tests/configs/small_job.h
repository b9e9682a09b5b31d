#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "configs/load_job.h"

// A job that fits on this page, the presets of this source tree, and refusals as text.
namespace simrun::test {

inline const std::string small_job = R"(simrun: 1
model:
  model_type: gpt
  num_layers: 8
  hidden_size: 1024
  num_attention_heads: 16
  vocab_size: 51200
training:
  seq_length: 1024
  micro_batch_size: 1
  global_batch_size: 16
  precision: bf16
parallelism:
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 2
cluster: {from: dgx_h100, nodes: 1}
)";

inline const std::string preset_directory = SIMRUN_SOURCE_DIR "/configs";

inline LoadOptions with_presets() { return {{}, {preset_directory}}; }

// The smallest job preset, changed.
inline LoadedJob tiny(const std::vector<Override>& overrides) {
  return load_job(preset_directory + "/jobs/tiny-4xa100.yaml", {overrides, {preset_directory}});
}

// The text with its first `from` replaced; a test that edits nothing is a mistake.
inline std::string edited(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("nothing to edit: " + from);
  return text.replace(at, from.size(), to);
}

inline std::string edited(const std::string& from, const std::string& to) {
  return edited(small_job, from, to);
}

inline Job load(const std::string& text) { return load_job_text(text, "job.yaml", with_presets()).job; }

inline std::vector<Diagnostic> problems_of(const std::string& text,
                                           const LoadOptions& options = with_presets()) {
  try {
    load_job_text(text, "job.yaml", options);
  } catch (const ConfigError& error) {
    return error.diagnostics();
  }
  return {};
}

// What the program would print.
inline std::string refusal(const std::string& text, const LoadOptions& options = with_presets()) {
  const std::vector<Diagnostic> problems = problems_of(text, options);
  return problems.empty() ? "accepted" : render(problems);
}

}  // namespace simrun::test
