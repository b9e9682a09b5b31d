#pragma once

#include <string>
#include <vector>

#include "configs/load_job.h"

namespace simrun {

// A job from YAML text with the shipped presets in reach; `overrides` as --set takes them.
inline Job job_from(const std::string& yaml, const std::vector<Override>& overrides = {}) {
  LoadOptions options;
  options.overrides = overrides;
  options.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  return load_job_text(yaml, "test.yaml", options).job;
}

inline Job preset_job(const std::string& name, const std::vector<Override>& overrides = {}) {
  LoadOptions options;
  options.overrides = overrides;
  options.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  return load_job(SIMRUN_SOURCE_DIR "/configs/jobs/" + name + ".yaml", options).job;
}

// A model preset that takes image batches, which have no seq_length.
inline bool reads_images(const std::string& preset) {
  for (const char* family : {"resnet", "vgg", "vit", "wide-resnet"})
    if (preset.starts_with(family)) return true;
  return false;
}
inline bool is_decoder_only(const std::string& preset) {
  for (const char* family : {"bert", "gnmt", "gshard", "llava", "m6", "switch", "t5"})
    if (preset.starts_with(family)) return false;
  return !reads_images(preset);
}

// A GPT of Megatron's recipe on DGX A100: unfused attention, dropout, fp16. Small enough to check with a
// pencil: h = 64 a-heads of 128.
inline std::string small_gpt(int layers, int tp, int pp, int nodes) {
  return "simrun: 1\n"
         "model: {model_type: gpt, num_layers: " +
         std::to_string(layers) +
         ", hidden_size: 1024, num_attention_heads: 16, vocab_size: 51200, max_position_embeddings: 512}\n"
         "training: {seq_length: 512, micro_batch_size: 2, global_batch_size: 64, precision: fp16, "
         "attention: unfused}\n"
         "parallelism: {tensor_model_parallel_size: " +
         std::to_string(tp) + ", pipeline_model_parallel_size: " + std::to_string(pp) +
         "}\n"
         "cluster: {from: dgx_a100, nodes: " +
         std::to_string(nodes) + "}\n";
}

}  // namespace simrun
