#pragma once

#include <string>
#include <vector>

#include "tests/jobs.h"

namespace simrun {

// A layer of 16 heads of 64 that share 8 key-value heads, over 4,096 tokens, context parallel 4 and data
// parallel 2 on one node. A rank has 1,024 tokens, and their keys and values are 1,024 x 8 x 64 x 2 x 2 B = 2
// MiB.
inline Job context_job(const std::string& type, const std::vector<Override>& overrides = {}, int cp = 4) {
  std::vector<Override> all{{"parallelism.context_parallel_size", std::to_string(cp)}};
  if (cp > 1) all.push_back({"parallelism.cp_comm_type", type});
  if (type == "a2a+p2p")
    all.push_back({"parallelism.hierarchical_context_parallel_sizes", "[2, " + std::to_string(cp / 2) + "]"});
  all.insert(all.end(), overrides.begin(), overrides.end());
  return job_from(
      "simrun: 1\n"
      "model: {model_type: llama, num_hidden_layers: 1, hidden_size: 1024, intermediate_size: 2816,\n"
      "  num_attention_heads: 16, num_key_value_heads: 8, vocab_size: 32000, tie_word_embeddings: false}\n"
      "training: {seq_length: 4096, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
      "cluster: {from: dgx_h100, nodes: 1}\n",
      all);
}

inline constexpr const char* context_types[] = {"p2p", "all_gather", "a2a", "a2a+p2p"};

}  // namespace simrun
