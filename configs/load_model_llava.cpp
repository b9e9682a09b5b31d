// LLaVA 1.5 (Liu et al. 2023, arXiv 2310.03744) by Hugging Face's LlavaConfig: a CLIP vision tower, a
// projector and a language model, the first and the last with a config.json of their own.
#include <fmt/format.h>

#include <algorithm>

#include "configs/limits.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

// What PretrainedConfig writes into nested configs besides: generation, and none of the model's sizes.
void ignore_generation(SectionReader& section) {
  section.ignore({"add_cross_attention",
                  "bad_words_ids",
                  "cross_attention_hidden_size",
                  "diversity_penalty",
                  "do_sample",
                  "early_stopping",
                  "encoder_no_repeat_ngram_size",
                  "exponential_decay_length_penalty",
                  "finetuning_task",
                  "forced_bos_token_id",
                  "forced_eos_token_id",
                  "is_decoder",
                  "is_encoder_decoder",
                  "length_penalty",
                  "max_length",
                  "min_length",
                  "no_repeat_ngram_size",
                  "num_beam_groups",
                  "num_beams",
                  "num_return_sequences",
                  "output_scores",
                  "pruned_heads",
                  "remove_invalid_values",
                  "repetition_penalty",
                  "return_dict_in_generate",
                  "sep_token_id",
                  "suppress_tokens",
                  "temperature",
                  "tf_legacy_loss",
                  "tie_encoder_decoder",
                  "top_k",
                  "top_p",
                  "torchscript",
                  "typical_p",
                  "use_bfloat16"});
}

void read_language_model(const ModelKeys& outer) {
  SectionReader section(outer.reading, outer.section.section("text_config"), "model.text_config");
  const ModelKeys keys{section, outer.reading, outer.job, outer.model};
  const std::string type = section.word(
      "model_type",
      {.accepted = {"llama", "mistral", "qwen2", "qwen3"}, .not_yet = {"gemma", "phi"}, .may_guess = false},
      "llama");
  if (type.empty()) return;  // which keys it may have is not known
  if (type == "llama") read_llama_with_defaults(keys);
  if (type == "mistral") read_mistral(keys);
  if (type == "qwen2") read_qwen2(keys);
  if (type == "qwen3") read_qwen3(keys);
  ignore_generation(section);
  section.finish();
}

// Not written, the tower is LlavaConfig's own: CLIP's ViT-L/14 at 336 x 336. Written, what is left out is
// CLIPVisionConfig's default, ViT-B/32.
VisionTowerConfig read_tower(const ModelKeys& outer) {
  const ConfigNode* node = outer.section.section("vision_config");
  const bool is_written = node != nullptr;
  SectionReader section(outer.reading, node, "model.vision_config");
  const ModelKeys keys{section, outer.reading, outer.job, outer.model};
  const auto size = [&](const char* key, IntegerRange range, std::int64_t of_base, std::int64_t of_large) {
    return section.integer(key, range, is_written ? of_base : of_large);
  };
  section.word("model_type", {.accepted = {"clip_vision_model"}, .not_yet = {"siglip_vision_model"}},
               "clip_vision_model");
  VisionTowerConfig tower;
  tower.image_size = size("image_size", limits::image, 224, 336);
  tower.channels = section.integer("num_channels", limits::heads, 3);
  tower.patch_size = size("patch_size", limits::image, 32, 14);
  tower.layers = size("num_hidden_layers", limits::layers, 12, 24);
  tower.hidden_size = size("hidden_size", limits::width, 768, 1024);
  tower.ffn_hidden_size = size("intermediate_size", limits::width, 3072, 4096);
  tower.num_attention_heads = size("num_attention_heads", limits::heads, 12, 16);
  section.word("hidden_act", {{"quick_gelu", "gelu"}, {"relu", "silu"}}, "quick_gelu");  // equal kernels
  keys.reading.take(section.path_of("hidden_act"));
  if (section.real("attention_dropout", limits::probability, 0.0) > 0)
    keys.reading.problem(section.path_of("attention_dropout"),
                         "a dropout of the vision tower is not supported yet");
  section.ignore({"dropout", "initializer_factor", "projection_dim", "tie_word_embeddings", "vocab_size"});
  ignore_generation(section);
  ignore_bookkeeping(keys);
  section.finish();
  return tower;
}

void check_tower(const ModelKeys& keys, const VisionTowerConfig& tower) {
  const auto problem = [&](const char* key, std::string what, std::string hint = "") {
    keys.reading.problem(std::string("model.vision_config.") + key, std::move(what), std::move(hint));
  };
  if (tower.patch_size > 0 && tower.image_size > 0 && tower.image_size % tower.patch_size != 0)
    problem(
        "patch_size",
        fmt::format("image_size {} does not split into patches of {}", tower.image_size, tower.patch_size),
        fmt::format("{} does.",
                    std::max<std::int64_t>(tower.image_size / tower.patch_size, 1) * tower.patch_size));
  if (tower.num_attention_heads > 0 && tower.hidden_size % tower.num_attention_heads != 0)
    problem("hidden_size", fmt::format("hidden_size {} does not split into {} attention heads",
                                       tower.hidden_size, tower.num_attention_heads));
}

// Hugging Face's index into the embedding's output and each layer's, from the end if below 0.
std::int64_t read_features(const ModelKeys& keys, std::int64_t layers) {
  const std::int64_t most = limits::layers.most;
  const std::int64_t written = keys.section.integer("vision_feature_layer", {-most, most}, -2);
  const std::int64_t features = written < 0 ? layers + 1 + written : written;
  if (layers == 0 || (features >= 1 && features <= layers)) return features;
  keys.reading.problem(
      keys.section.path_of("vision_feature_layer"),
      fmt::format("vision_feature_layer {} is no layer of the {} of the vision tower", written, layers),
      fmt::format("1 to {}, or -{} to -1.", layers, layers));
  return 1;
}

// Keys that LlavaConfig writes once more beside its parts.
void check_repeated(const ModelKeys& keys, std::int64_t tokens) {
  SectionReader& section = keys.section;
  const auto check = [&](const char* key, const char* what, std::int64_t ours) {
    section.ignore({key});
    if (!section.has(key)) return;
    const std::int64_t written = section.integer(key, limits::vocabulary);
    keys.reading.take(section.path_of(key));
    if (written > 0 && ours > 0 && written != ours)
      keys.reading.problem(section.path_of(key),
                           fmt::format("{} {} and {} {} must agree", key, written, what, ours));
  };
  check("vocab_size", "text_config's", keys.model.vocab_size);
  check("image_seq_length", "the image's tokens,", tokens);
  section.ignore({"tie_word_embeddings"});
  if (!section.has("tie_word_embeddings")) return;
  const bool tied = section.boolean("tie_word_embeddings");
  keys.reading.take(section.path_of("tie_word_embeddings"));
  if (tied != keys.model.tie_word_embeddings)
    keys.reading.problem(section.path_of("tie_word_embeddings"),
                         "tie_word_embeddings and text_config's must agree", "write both.");
}

}  // namespace

void read_llava(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  VisionLanguageConfig llava;
  read_language_model(keys);
  llava.tower = read_tower(keys);
  check_tower(keys, llava.tower);
  llava.tower.features = read_features(keys, llava.tower.layers);
  llava.class_token_is_read =
      section.word("vision_feature_select_strategy", {{"default", "full"}, {}}, "default") == "full";
  llava.projector_bias = section.boolean("multimodal_projector_bias", true);
  read_activation(keys, "projector_hidden_act", gelu_words());
  if (llava.tower.patch_size > 0) check_repeated(keys, llava.tokens_of_image());
  section.ignore({"ignore_index", "image_token_id", "image_token_index"});
  ignore_bookkeeping(keys);
  if (keys.model.num_layers > 0) keys.model.num_layers += llava.tower.layers;
  keys.model.family = llava;
}

}  // namespace simrun
