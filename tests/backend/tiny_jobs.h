#pragma once

#include <string>
#include <vector>

#include "tests/jobs.h"

namespace simrun {

// Models of a few thousand parameters whose every dimension is another number. GPT: layer norms, learned
// positions, biases, gelu, tied embeddings. Llama: RMS norms, rope, swiglu, grouped queries, own output
// matrix.
inline const char* const tiny_gpt =
    "model: {model_type: gpt, num_layers: 4, hidden_size: 24, num_attention_heads: 4, ffn_hidden_size: 40, "
    "vocab_size: 50, max_position_embeddings: 12, hidden_dropout: 0, attention_dropout: 0}\n";
inline const char* const tiny_llama =
    "model: {model_type: llama, num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, "
    "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 50, max_position_embeddings: 12}\n";

struct TinyJob {
  const char* model = tiny_gpt;
  std::string parallelism = "{}";
  std::string optimizer = "{}";
  std::string training = "";  // further keys, each behind a comma
  std::string more = "";      // further sections
  int gpus = 1;
  int micro_batch_size = 1;
  int nodes = 1;  // each with `gpus`
};

// Eight sequences of 8 tokens per step.
inline Job tiny_job(const TinyJob& of) {
  return job_from("simrun: 1\n" + std::string(of.model) + "training: {seq_length: 8, micro_batch_size: " +
                  std::to_string(of.micro_batch_size) + ", global_batch_size: 8, precision: fp32" +
                  of.training + "}\nparallelism: " + of.parallelism + "\noptimizer: " + of.optimizer + "\n" +
                  of.more + "cluster: {from: dgx_a100, nodes: " + std::to_string(of.nodes) +
                  ", gpus_per_node: " + std::to_string(of.gpus) + "}\n");
}

}  // namespace simrun
