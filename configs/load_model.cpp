// The model section: Hugging Face's config.json keys by model_type, or Megatron-LM's names for `gpt`.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "configs/load_model_families.h"

namespace simrun {
namespace {

struct Family {
  const char* model_type;
  void (*read)(const ModelKeys& keys);
};
constexpr Family families[] = {{"bert", read_bert},
                               {"bloom", read_bloom},
                               {"cohere", read_cohere},
                               {"cohere2", read_cohere2},
                               {"dbrx", read_dbrx},
                               {"deepseek_v2", read_deepseek_v2},
                               {"deepseek_v3", read_deepseek_v3},
                               {"ernie4_5", read_ernie4_5},
                               {"ernie4_5_moe", read_ernie4_5_moe},
                               {"falcon", read_falcon},
                               {"gemma", read_gemma},
                               {"gemma2", read_gemma2},
                               {"gemma3_text", read_gemma3_text},
                               {"glm", read_glm},
                               {"glm4", read_glm4},
                               {"glm4_moe", read_glm4_moe},
                               {"gnmt", read_gnmt},
                               {"gpt", read_gpt},
                               {"gpt2", read_gpt2},
                               {"gpt_neox", read_gpt_neox},
                               {"gpt_oss", read_gpt_oss},
                               {"granite", read_granite},
                               {"granitemoe", read_granitemoe},
                               {"granitemoeshared", read_granitemoe},
                               {"grok-1", read_grok1},
                               {"internlm2", read_internlm2},
                               {"kimi_k2", read_deepseek_v3},
                               {"llama", read_llama},
                               {"llama4_text", read_llama4_text},
                               {"llava", read_llava},
                               {"m6", read_m6},
                               {"minimax_m2", read_minimax_m2},
                               {"mistral", read_mistral},
                               {"mixtral", read_mixtral},
                               {"mpt", read_mpt},
                               {"nemotron", read_nemotron},
                               {"nemotron_h", read_nemotron_h},
                               {"olmo", read_olmo},
                               {"olmo2", read_olmo2},
                               {"olmo3", read_olmo3},
                               {"olmoe", read_olmoe},
                               {"opt", read_opt},
                               {"phi", read_phi},
                               {"phi3", read_phi3},
                               {"phimoe", read_phimoe},
                               {"qwen2", read_qwen2},
                               {"qwen2_moe", read_qwen2_moe},
                               {"qwen3", read_qwen3},
                               {"qwen3_5_moe_text", read_qwen3_5_moe_text},
                               {"qwen3_5_text", read_qwen3_5_text},
                               {"qwen3_moe", read_qwen3_moe},
                               {"qwen3_next", read_qwen3_next},
                               {"resnet", read_resnet},
                               {"seed_oss", read_seed_oss},
                               {"smollm3", read_smollm3},
                               {"stablelm", read_stablelm},
                               {"starcoder2", read_starcoder2},
                               {"switch_transformers", read_switch},
                               {"t5", read_t5},
                               {"vgg", read_vgg},
                               {"vit", read_vit},
                               {"wide_resnet", read_wide_resnet}};

// Known, so that they are not taken for a misspelling of a supported one.
const std::vector<std::string> later_types = {"bamba",       "deepseek_v32", "falcon_h1", "jamba",
                                              "kimi_linear", "mamba2",       "minimax"};
const std::map<std::string, std::string> refused_types = {
    {"baichuan", "baichuan's config says neither its positions nor whether its output table is normalised"},
    {"gemma3", "gemma3's images are not modelled; its text_config is model_type: gemma3_text"},
    {"qwen3_5", "qwen3_5's images are not modelled; its text_config is model_type: qwen3_5_text"},
    {"qwen3_5_moe", "qwen3_5_moe's images are not modelled; its text_config is model_type: qwen3_5_moe_text"},
    {"llama4", "llama4's images are not modelled; its text_config is model_type: llama4_text"}};

std::vector<std::string> supported_types() {
  std::vector<std::string> types;
  for (const Family& family : families) types.emplace_back(family.model_type);
  return types;
}

}  // namespace

void read_model(const ConfigNode* node, const PresetSearch& search, Reading& reading, Job& job) {
  if (node == nullptr) return reading.missing("model", "model: {from: llama3-8b}");
  const ResolvedSection resolved = resolve_from(*node, "models", search, reading);
  if (!resolved.found) reading.partial_sections.emplace_back("model");
  SectionReader section(reading, &resolved.node, "model");
  if (section.is_no_map()) return;
  section.ignore({"simrun"});
  if (!section.has("model_type") && !resolved.found) return;  // which keys it may have is not known
  if (!section.has("model_type"))
    return reading.problem("model", "missing required key 'model_type' in 'model'",
                           fmt::format("one of {}.", fmt::join(supported_types(), ", ")));
  job.model.model_type = section.word(
      "model_type",
      {.accepted = supported_types(), .not_yet = later_types, .refused = refused_types, .may_guess = false});
  const auto family = std::ranges::find(families, job.model.model_type, &Family::model_type);
  if (family == std::end(families)) return;
  family->read({section, reading, job, job.model});
  read_frozen(section, reading, job.model);
  section.finish();
}

}  // namespace simrun
