#include <catch2/catch.hpp>

#include "small_job.h"

using namespace simrun;
using namespace simrun::test;

namespace {

std::string job_of(const std::string& model, const std::string& training = "seq_length: 1024") {
  return "simrun: 1\nmodel: " + model + "\ntraining: {" + training +
         ", micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
         "cluster: {from: dgx_h100, nodes: 1}\n";
}

Job loaded(const std::string& model, const std::string& training = "seq_length: 1024") {
  const LoadedJob first = load_job_text(job_of(model, training), "job.yaml", with_presets());
  const Job again = load_job_text(first.effective_yaml, "job.yaml", LoadOptions{}).job;
  CHECK(again == first.job);
  return first.job;
}

std::string problems(const std::string& model, const std::string& training = "seq_length: 1024") {
  std::string text;
  for (const Diagnostic& problem : problems_of(job_of(model, training)))
    text += problem.message + " | " + problem.hint + "\n";
  return text;
}

const VisionLanguageConfig& llava_of(const Job& job) {
  return *family_as<VisionLanguageConfig>(job.model.family);
}

// As llava-hf/llava-1.5-7b-hf ships it: what LlamaConfig's defaults say is not written.
const std::string shipped = R"({"architectures": ["LlavaForConditionalGeneration"], "ignore_index": -100,
  "image_token_index": 32000, "model_type": "llava", "pad_token_id": 32001, "projector_hidden_act": "gelu",
  "text_config": {"_name_or_path": "lmsys/vicuna-7b-v1.5", "architectures": ["LlamaForCausalLM"],
    "max_position_embeddings": 4096, "model_type": "llama", "rms_norm_eps": 1e-05, "torch_dtype": "float16",
    "vocab_size": 32064},
  "tie_word_embeddings": false, "torch_dtype": "float16", "transformers_version": "4.36.0.dev0",
  "vision_config": {"hidden_size": 1024, "image_size": 336, "intermediate_size": 4096,
    "model_type": "clip_vision_model", "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14,
    "projection_dim": 768, "vocab_size": 32000},
  "vision_feature_layer": -2, "vision_feature_select_strategy": "default", "vocab_size": 32064})";

}  // namespace

TEST_CASE("LLaVA's config.json loads as it is shipped, as the preset's model") {
  const Job job = loaded(shipped);
  CHECK(job.model == loaded("{from: llava-1.5-7b}").model);
  CHECK(job.model.num_layers == 24 + 32);
  CHECK(job.model.hidden_size == 4096);
  CHECK(job.model.activation == Activation::swiglu);
  CHECK(llava_of(job).tower.features == 23);      // the last layer but one of 24
  CHECK(llava_of(job).tokens_of_image() == 576);  // (336 / 14)^2
  CHECK(job.training.images_per_sample == 1);
}

TEST_CASE("what a vision_config leaves out is CLIP's base model, and without one the tower is CLIP's large") {
  const VisionTowerConfig base =
      llava_of(loaded("{model_type: llava, text_config: {}, vision_config: {}}")).tower;
  CHECK(base.layers == 12);
  CHECK(base.patches() == 49);  // (224 / 32)^2
  const Job bare = loaded("{model_type: llava}");
  CHECK(llava_of(bare).tower == VisionTowerConfig{});
  CHECK(bare.model.vocab_size == 32000);
}

TEST_CASE("a feature layer counts from the embedding, or from the end") {
  const auto features = [](const std::string& key) {
    return llava_of(loaded("{from: llava-1.5-7b, vision_feature_layer: " + key + "}")).tower.features;
  };
  CHECK(features("-1") == 24);
  CHECK(features("-24") == 1);
  CHECK(features("23") == 23);
  for (const char* none : {"0", "25", "-25"})
    CHECK(problems("{from: llava-1.5-7b, vision_feature_layer: " + std::string(none) + "}") ==
          "vision_feature_layer " + std::string(none) +
              " is no layer of the 24 of the vision tower | 1 to 24, or -24 to -1.\n");
}

TEST_CASE("the whole tower's output has the class token too") {
  const Job job = loaded("{from: llava-1.5-7b, vision_feature_select_strategy: full}");
  CHECK(llava_of(job).tokens_of_image() == 577);
}

TEST_CASE("other language models stand behind the tower by their own keys") {
  const Job job = loaded(
      "{model_type: llava, text_config: {model_type: qwen2, num_hidden_layers: 4, hidden_size: 896, "
      "intermediate_size: 4864, num_attention_heads: 14, num_key_value_heads: 2, vocab_size: 152000, "
      "tie_word_embeddings: true}, tie_word_embeddings: true}");
  CHECK(job.model.qkv_bias);
  CHECK(job.model.num_key_value_heads == 2);
  CHECK(job.model.tie_word_embeddings);
  CHECK(problems("{model_type: llava, text_config: {model_type: gemma, vocab_size: 5}}") ==
        "'gemma' for 'model.text_config.model_type' is not supported yet | one of llama, mistral, qwen2, "
        "qwen3.\n");
}

TEST_CASE("images must leave room for text in the sequence that counts their tokens") {
  CHECK(loaded("{from: llava-1.5-7b}", "seq_length: 2048, images_per_sample: 3").training.images_per_sample ==
        3);
  // 3 x 576 = 1728
  CHECK(loaded("{from: llava-1.5-7b}", "seq_length: 1729, images_per_sample: 3").training.seq_length == 1729);
  CHECK(problems("{from: llava-1.5-7b}", "seq_length: 1728, images_per_sample: 3") ==
        "seq_length 1728 counts images' tokens, and 3 of 576 leave none for text | 1729 and more do.\n");
  CHECK(problems("{from: llama3-8b}", "seq_length: 1024, images_per_sample: 1").find("images_per_sample") !=
        std::string::npos);
}

TEST_CASE("what LLaVA's parts say differently, and what is not there yet, is refused, all at once") {
  CHECK(problems("{from: llava-1.5-7b, vocab_size: 32000, tie_word_embeddings: true, image_seq_length: 577, "
                 "vision_config: {patch_size: 15, hidden_size: 1000, attention_dropout: 0.1}}",
                 "seq_length: 1024, documents: {mean: 100}") ==
        "vocab_size 32000 and text_config's 32064 must agree | \n"
        "tie_word_embeddings and text_config's must agree | write both.\n"
        "image_seq_length 577 and the image's tokens, 484 must agree | \n"
        "image_size 336 does not split into patches of 15 | 330 does.\n"
        "hidden_size 1000 does not split into 16 attention heads | \n"
        "a dropout of the vision tower is not supported yet | \n"
        "documents are not supported with llava yet | \n");
  CHECK(problems("{from: llava-1.5-7b, vision_config: {model_type: siglip_vision_model}}")
            .find("'siglip_vision_model' for 'model.vision_config.model_type' is not supported yet") == 0);
  CHECK(problems("{from: llava-1.5-7b, vision_config: {image_size: 100000, patch_size: 1}}",
                 "seq_length: 100000000")
            .find("too large to count") != std::string::npos);
}

TEST_CASE("tensor parallel must divide the tower's heads and the language model's") {
  const auto with_tp = [](const std::string& model) {
    std::string text;
    for (const Diagnostic& problem :
         problems_of(job_of(model) + "parallelism: {tensor_model_parallel_size: 8}\n"))
      text += problem.message + " | " + problem.hint + "\n";
    return text;
  };
  CHECK(with_tp("{from: llava-1.5-7b}").empty());
  CHECK(with_tp("{from: llava-1.5-7b, vision_config: {num_attention_heads: 4}}") ==
        "4 attention heads of the vision tower do not split into tensor parallel 8 | at most 4.\n");
}

TEST_CASE("context parallelism over images is refused") {
  const std::string text =
      refusal(job_of("{from: llava-1.5-7b}") + "parallelism: {context_parallel_size: 2}\n");
  CHECK(text.find("context parallelism of llava is not supported yet") != std::string::npos);
}

TEST_CASE("what is frozen of LLaVA survives the effective config") {
  CHECK(loaded("{from: llava-1.5-7b, frozen: [vision_tower, \"layers[55]\"]}").model.frozen.size() == 2);
  CHECK(problems("{from: llava-1.5-7b, frozen: [\"layers[56]\"]}") ==
        "the scope 'layers[56]' names layer 56 | the model's are 0 to 55.\n");
}
