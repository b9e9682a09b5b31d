#include <catch2/catch.hpp>

#include "models/decoder.h"
#include "models/flops.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

enum class Convention { full, causal };

// Training FLOPs per token in units of 1e9, as a framework's own throughput table implies them (its TFLOP/s
// divided by its tokens/s): dgxc-benchmarking, NeMo, Megatron-Bridge and llm-foundry count the whole score
// matrix or the causal half of it, as named.
struct Published {
  const char* what;
  const char* model;
  int sequence;
  Convention convention;
  double gflops_per_token;
};

const char* const gpt3_5b =
    "{model_type: gpt, num_layers: 24, hidden_size: 4096, num_attention_heads: 32, vocab_size: 51200}";
const char* const gpt3_20b =
    "{model_type: gpt, num_layers: 44, hidden_size: 6144, num_attention_heads: 48, vocab_size: 51200}";
const char* const nemotron_8b =
    "{from: nemotron4-340b, num_hidden_layers: 32, hidden_size: 4096, intermediate_size: 16384, "
    "num_attention_heads: 32, num_key_value_heads: 32}";
const char* const nemotron_22b =
    "{from: nemotron4-340b, num_hidden_layers: 40, hidden_size: 6144, intermediate_size: 24576, "
    "num_attention_heads: 48, num_key_value_heads: 48}";

// llm-foundry's benchmark: learned positions, 50,368 tokens, multi-head attention.
std::string mpt(int layers, int width, int heads) {
  return "{model_type: mpt, n_layers: " + std::to_string(layers) + ", d_model: " + std::to_string(width) +
         ", n_heads: " + std::to_string(heads) + ", vocab_size: 50368, attn_config: {alibi: false}}";
}

double gflops_per_token(const std::string& model, int sequence, Convention convention) {
  const Job job =
      job_from("simrun: 1\nmodel: " + model + "\ntraining: {seq_length: " + std::to_string(sequence) +
               ", micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
               "cluster: {from: dgx_h100, nodes: 1}\n");
  const Graph graph = decoder_graph(job);
  double flops = model_flops(graph);
  if (convention == Convention::causal)
    for (const Operator& op : graph.operators)
      if (op.opcode == Opcode::attention) flops -= operator_flops(graph, op, Extents::unpadded).total() / 2;
  const auto tokens = static_cast<double>(graph.dimensions[graph.dimension("batch")].size * sequence);
  return flops / tokens / 1e9;
}

TEST_CASE("model FLOPs per token: those of the published throughput tables, within 0.5 %") {
  const std::string mpt_7b = mpt(32, 4096, 32), mpt_13b = mpt(40, 5120, 40), mpt_30b = mpt(48, 7168, 56),
                    mpt_70b = mpt(80, 8192, 64);
  const std::vector<Published> rows = {
      {"Llama 3 8B", "{from: llama3-8b}", 8192, Convention::causal, 51.5},
      {"Llama 3 8B", "{from: llama3-8b}", 8192, Convention::full, 57.9},
      {"Llama 3 70B", "{from: llama3-70b}", 8192, Convention::causal, 449},
      {"Llama 3 70B", "{from: llama3-70b}", 8192, Convention::full, 481.5},
      {"Llama 3 70B, fine-tuning", "{from: llama3-70b}", 4096, Convention::causal, 432.5},
      {"Llama 3.1 405B", "{from: llama3-405b}", 8192, Convention::causal, 2525},
      {"Llama 3.1 405B", "{from: llama3-405b}", 8192, Convention::full, 2625},
      {"Llama 2 7B", "{from: llama2-7b}", 4096, Convention::full, 46.1},
      {"Llama 2 13B", "{from: llama2-13b}", 4096, Convention::full, 87.2},
      {"Llama 2 70B", "{from: llama2-70b}", 4096, Convention::full, 444.3},
      {"GPT-3 5B", gpt3_5b, 2048, Convention::full, 32.7},
      {"GPT-3 20B", gpt3_20b, 2048, Convention::full, 128.2},
      {"GPT-3 175B", "{from: gpt3-175b}", 2048, Convention::full, 1076.6},
      {"Nemotron 8B", nemotron_8b, 4096, Convention::full, 51.4},
      {"Nemotron 22B", nemotron_22b, 4096, Convention::full, 130.3},
      {"Nemotron-4 340B", "{from: nemotron4-340b}", 4096, Convention::full, 2104},
      {"MPT 7B", mpt_7b.c_str(), 2048, Convention::full, 43.1},
      {"MPT 13B", mpt_13b.c_str(), 2048, Convention::full, 82.0},
      {"MPT 30B", mpt_30b.c_str(), 2048, Convention::full, 188.2},
      {"MPT 70B", mpt_70b.c_str(), 2048, Convention::full, 404.8},
      {"DeepSeek-V3", "{from: deepseek-v3}", 4096, Convention::causal, 249.7},
      {"DeepSeek-V3, MTP", "{from: deepseek-v3, num_nextn_predict_layers: 1}", 4096, Convention::causal,
       260.0},
      {"Qwen3-30B-A3B", "{from: qwen3-30b-a3b}", 4096, Convention::causal, 23.0},
      {"Qwen3-235B-A22B", "{from: qwen3-235b-a22b}", 4096, Convention::causal, 148.0},
      {"GPT-OSS-120B", "{from: gpt-oss-120b}", 4096, Convention::causal, 32.6},
  };
  for (const Published& row : rows) {
    CAPTURE(row.what, row.sequence);
    CHECK(gflops_per_token(row.model, row.sequence, row.convention) ==
          Approx(row.gflops_per_token).epsilon(0.005));
  }
}

TEST_CASE("model FLOPs: a sliding window counts its own columns of the score matrix and no others") {
  // Mistral 7B at 32,768 tokens: 12 x 32 layers x 32 heads x 128 x keys per token, 4096 of them instead of
  // 32768.
  const std::string full = "{from: mistral-7b, sliding_window: null}", window = "{from: mistral-7b}";
  const double per_key = 12.0 * 32 * 32 * 128 / 1e9;
  CHECK(gflops_per_token(full, 32768, Convention::full) - gflops_per_token(window, 32768, Convention::full) ==
        Approx(per_key * (32768 - 4096)));
  CHECK(gflops_per_token(full, 2048, Convention::full) == gflops_per_token(window, 2048, Convention::full));
}

}  // namespace
}  // namespace simrun
