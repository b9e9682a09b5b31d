#include <catch2/catch.hpp>

#include "small_job.h"

using namespace simrun;
using namespace simrun::test;

namespace {

std::string job_of(const std::string& model, const std::string& sequence = "") {
  return "simrun: 1\nmodel: " + model + "\ntraining: {" + sequence +
         "micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
         "cluster: {from: dgx_h100, nodes: 1}\n";
}

Job loaded(const std::string& model, const std::string& sequence = "") {
  const LoadedJob first = load_job_text(job_of(model, sequence), "job.yaml", with_presets());
  const Job again = load_job_text(first.effective_yaml, "job.yaml", LoadOptions{}).job;
  CHECK(again.model == first.job.model);
  CHECK(again.training == first.job.training);
  CHECK(again.config_sha256 == first.job.config_sha256);
  return first.job;
}

std::string problem_of(const std::string& model, const std::string& sequence = "") {
  try {
    load_job_text(job_of(model, sequence), "job.yaml", with_presets());
  } catch (const ConfigError& error) {
    std::string text;
    for (const Diagnostic& problem : error.diagnostics())
      text += problem.message + " | " + problem.hint + "\n";
    return text;
  }
  return "";
}

}  // namespace

TEST_CASE("a vision transformer's sequence is its patches and the class token") {
  const Job job = loaded("{from: vit-huge-14}");
  CHECK(job.training.seq_length == 257);  // (224 / 14)^2 + 1
  CHECK_FALSE(job.model.causal_attention);
}

TEST_CASE("image models take no seq_length, and others still need one") {
  CHECK(
      problem_of("{from: resnet-50}", "seq_length: 512, ") ==
      "seq_length 512 means nothing to a model that reads images | leave it out; the size of the batch is in "
      "images.\n");
  CHECK(problem_of("{from: bert-base}").find("seq_length") != std::string::npos);
}

TEST_CASE("the convolutional families say what of their sizes does not fit") {
  CHECK(problem_of("{from: vit-base-16, patch_size: 15}") ==
        "image_size 224 does not split into patches of 15 | 210 does.\n");
  CHECK(problem_of("{from: vgg-16, num_layers: 17}") ==
        "there is no variant of 17 layers | one of 11, 13, 16, 19.\n");
  CHECK(problem_of("{from: vgg-16, image_size: 100}") ==
        "image_size 100 does not halve five times | 96 does.\n");
  CHECK(problem_of("{from: resnet-50, depths: [3, 4, 6]}") ==
        "3 depths for 4 hidden_sizes; at most 8 resolutions, one each | \n");
  CHECK(problem_of("{from: resnet-50, depths: [3, 4, six, 3]}").find("'model.depths'") != std::string::npos);
  CHECK(problem_of("{from: wide-resnet-1b, num_layers: 51}") ==
        "there is no variant of 51 layers | one of 50, 101, 152.\n");
  CHECK(problem_of("{from: resnet-50, image_size: 100000, embedding_size: 1000000}")
            .find("too large to count") != std::string::npos);
}

TEST_CASE("a pipeline's layers are blocks of a ResNet and convolutions of VGG") {
  CHECK(loaded("{from: resnet-50}").model.num_layers == 16);
  CHECK(loaded("{from: wide-resnet-13b}").model.num_layers == 33);
  CHECK(loaded("{from: vgg-16}").model.num_layers == 13);
}

TEST_CASE("BERT's config.json loads: post-norm layers that attend to both sides") {
  const Job job = loaded(
      R"({"architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1,
  "gradient_checkpointing": false, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768,
  "initializer_range": 0.02, "intermediate_size": 3072, "layer_norm_eps": 1e-12,
  "max_position_embeddings": 512, "model_type": "bert", "num_attention_heads": 12, "num_hidden_layers": 12,
  "pad_token_id": 0, "position_embedding_type": "absolute", "transformers_version": "4.6.0.dev0",
  "type_vocab_size": 2, "use_cache": true, "vocab_size": 30522})",
      "seq_length: 512, ");
  CHECK(job.model.norm_placement == NormPlacement::post);
  CHECK_FALSE(job.model.causal_attention);
  CHECK(job.training.hidden_dropout == 0.1);
}

TEST_CASE("T5's config.json loads: both stacks are layers, one dropout serves both") {
  const Job job = loaded(
      R"({"architectures": ["T5ForConditionalGeneration"], "d_ff": 2048, "d_kv": 64, "d_model": 512,
  "decoder_start_token_id": 0, "dropout_rate": 0.2, "eos_token_id": 1, "initializer_factor": 1.0,
  "is_encoder_decoder": true, "layer_norm_epsilon": 1e-06, "model_type": "t5", "n_positions": 512,
  "num_heads": 8, "num_layers": 6, "output_past": true, "pad_token_id": 0,
  "relative_attention_num_buckets": 32, "use_cache": true, "vocab_size": 32128})",
      "seq_length: 512, decoder_seq_length: 114, ");
  CHECK(job.model.num_layers == 12);
  CHECK(job.training.hidden_dropout == 0.2);
  CHECK(job.training.attention_dropout == 0.2);
  CHECK(job.training.decoder_seq_length == 114);
  CHECK(loaded("{from: gnmt}", "seq_length: 50, ").training.decoder_seq_length == 50);
}

TEST_CASE("only encoder-decoders have a decoder_seq_length, within the positions that they have") {
  CHECK(problem_of("{from: bert-base}", "seq_length: 512, decoder_seq_length: 114, ")
            .find("unknown key 'decoder_seq_length'") == 0);
  CHECK(problem_of("{from: m6-10b}", "seq_length: 512, decoder_seq_length: 2000, ") ==
        "decoder_seq_length 2000 is longer than the model's 1024 positions | \n");
}
