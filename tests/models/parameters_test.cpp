#include <catch2/catch.hpp>

#include "models/decoder.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

std::int64_t parameters_of(const std::string& model) {
  return count_parameters(decoder_graph(
      job_from("simrun: 1\nmodel: " + model +
               "\ntraining: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
               "cluster: {from: dgx_h100, nodes: 1}\n")));
}

TEST_CASE("parameters: published models have the published number of parameters") {
  CHECK(parameters_of("{from: models/llama3-8b.yaml}") == 8'030'261'248);
  CHECK(parameters_of("{from: models/llama3-70b.yaml}") == 70'553'706'496);
  CHECK(parameters_of("{from: models/gpt2.yaml}") == 124'439'808);
}

TEST_CASE("parameters: further published models, from their Hugging Face configs") {
  // Llama-2 7B, Mistral 7B and Qwen2 7B: the safetensors index of each repository.
  CHECK(
      parameters_of("{model_type: llama, num_hidden_layers: 32, hidden_size: 4096, intermediate_size: 11008, "
                    "num_attention_heads: 32, vocab_size: 32000}") == 6'738'415'616);
  CHECK(parameters_of(
            "{model_type: mistral, num_hidden_layers: 32, hidden_size: 4096, intermediate_size: 14336, "
            "num_attention_heads: 32, num_key_value_heads: 8, vocab_size: 32000}") == 7'241'732'096);
  CHECK(
      parameters_of("{model_type: qwen2, num_hidden_layers: 28, hidden_size: 3584, intermediate_size: 18944, "
                    "num_attention_heads: 28, num_key_value_heads: 4, vocab_size: 152064, "
                    "tie_word_embeddings: false}") == 7'615'616'512);
}

TEST_CASE("parameters: GPT-3 175B as Megatron-LM counts it, and as a pencil does") {
  const std::int64_t layers = 96, h = 12288, v = 51200, s = 2048;
  // 12 h^2 matrices, 4 + 3 + 1 + 1 biases and 4 norm vectors per layer = 13 h; word and position tables; the
  // final norm.
  const std::int64_t by_hand = layers * (12 * h * h + 13 * h) + (v + s) * h + 2 * h;
  CHECK(by_hand == 174'615'846'912);
  CHECK(count_parameters(decoder_graph(preset_job("gpt3-175b-1024xa100"))) == by_hand);
}

TEST_CASE("parameters: tensor parallelism pads the vocabulary but not the count") {
  const Job job = preset_job("llama3-70b-64xh100");
  const Graph graph = decoder_graph(job);
  const Dimension& vocab = graph.dimensions[graph.dimension("vocab")];
  CHECK(vocab.size == 128256);
  CHECK(vocab.padded_size == 129024);  // the next multiple of 128 x 8
  CHECK(count_parameters(graph) == 70'553'706'496);
}

}  // namespace
}  // namespace simrun
