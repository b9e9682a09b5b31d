#include <catch2/catch.hpp>

#include "configs/diagnostics.h"
#include "tests/context_jobs.h"

// The keys of context parallelism, and what they ask of the rest of the job.
namespace simrun {
namespace {

// "path message" of the only problem, or all of them.
std::string problem(const std::string& type, const std::vector<Override>& overrides, int cp = 4) {
  try {
    context_job(type, overrides, cp);
  } catch (const ConfigError& error) {
    std::string text;
    for (const Diagnostic& diagnostic : error.diagnostics())
      text += (text.empty() ? "" : "; ") + diagnostic.message + " | " + diagnostic.hint;
    return text;
  }
  return "";
}

}  // namespace

TEST_CASE("context parallelism: its defaults are Megatron-LM's, its sizes are derived") {
  const Parallelism ring = context_job("p2p").parallelism;
  CHECK(ring.cp_comm_type == ContextExchange::p2p);
  CHECK(ring.context_parallel_layout == ContextLayout::zigzag);
  CHECK(ring.data_parallel_size == 2);  // 8 GPUs / 4
  CHECK(ring.context_a2a_size == 1);
  CHECK(context_job("a2a").parallelism.context_a2a_size == 4);
  CHECK(context_job("a2a+p2p").parallelism.context_a2a_size == 2);
  CHECK(context_job("p2p").microbatches() == 4);  // 8 sequences / dp 2
}

TEST_CASE("context parallelism: what does not divide is said with both numbers and the nearest that do") {
  CHECK(problem("p2p", {{"training.seq_length", "4100"}}) ==
        "seq_length 4100 does not split into context parallel 4 x 2 zigzag blocks = 8 parts | 4096 and 4104 "
        "do.");
  CHECK(
      problem("p2p", {{"training.seq_length", "4100"}, {"parallelism.context_parallel_layout", "contiguous"}})
          .empty());
  CHECK(problem("p2p", {{"training.seq_length", "4104"},
                        {"parallelism.tensor_model_parallel_size", "2"},
                        {"parallelism.sequence_parallel", "true"}}) ==
        "seq_length 4104 does not split into context parallel 4 x 2 zigzag blocks x tensor parallel 2 "
        "(sequence_parallel) = 16 parts | 4096 and 4112 do.");
  CHECK(problem("a2a", {{"parallelism.tensor_model_parallel_size", "4"}, {"cluster.nodes", "2"}}) ==
        "core_attention: 2 key-value heads of a tensor-parallel rank (8 / 4) do not split into 4 by "
        "all-to-all | "
        "at most 2.");
  CHECK(problem("a2a+p2p", {{"parallelism.hierarchical_context_parallel_sizes", "[4, 2]"}}) ==
        "4 x 2 = 8 is not context_parallel_size 4 | [all-to-all among neighbours, ring over these groups].");
  CHECK(problem("p2p", {}, 3) ==
        "seq_length 4096 does not split into context parallel 3 x 2 zigzag blocks = 6 parts | 4092 and 4098 "
        "do.; 8 GPUs (1 nodes x 8) do not divide by tensor 1 x context 3 x pipeline 1 = 3 | 3 nodes do.");
  CHECK(problem("p2p", {{"cluster.nodes", "7"}}, 3).ends_with("| 6 and 9 nodes do."));
}

TEST_CASE(
    "context parallelism: beyond the key-value heads all-to-all gives each rank a copy, or is refused") {
  const auto on_two_nodes = [](const std::string& key, const std::string& value) {
    return problem("a2a", {{"cluster.nodes", "2"}, {key, value}}, 16);
  };
  CHECK(on_two_nodes("training.lora", "{rank: 4, targets: [qkv]}").empty());
  CHECK(on_two_nodes("training.lora", "{rank: 4, targets: [q]}") ==
        "an adapter of q alone needs all-to-all over at most the 8 key-value heads | qkv takes one of all "
        "three.");
  CHECK(
      on_two_nodes("model.model_type", "olmo2") ==
      "norms that weight each of 8 key-value heads do not go with copies of them for 16 ranks | at most 8.");
  CHECK(problem("a2a", {{"cluster.nodes", "8"}}, 64) ==
        "core_attention: 16 attention heads do not split into 64 by all-to-all | at most 16.");
  CHECK(problem("a2a",
                {{"model.num_attention_heads", "48"},
                 {"model.num_key_value_heads", "16"},
                 {"model.head_dim", "64"},
                 {"training.seq_length", "4224"},
                 {"cluster.nodes", "3"}},
                24) ==
        "core_attention: all-to-all over 24 ranks gives them unequal copies of 16 key-value heads | 16 and "
        "48 do.");
  // Of divisors of 40 those that divide 8 or that 8 divides.
  CHECK(problem("a2a",
                {{"model.num_attention_heads", "40"},
                 {"model.num_key_value_heads", "8"},
                 {"model.head_dim", "64"},
                 {"cluster.nodes", "2"}},
                16) ==
        "core_attention: 40 attention heads do not split into 16 by all-to-all | 8 and 40 do.");
  // Of two heads tensor parallelism makes four copies, which are not enough for two ranks each, but eight
  // are.
  std::vector<Override> copied{{"parallelism.tensor_model_parallel_size", "4"},
                               {"model.num_key_value_heads", "2"}};
  CHECK(problem("a2a", copied, 2).empty());
  copied.push_back({"cluster.nodes", "4"});
  CHECK(problem("a2a", copied, 8) ==
        "core_attention: 4 attention heads of a tensor-parallel rank (16 / 4) do not split into 8 by "
        "all-to-all | at most 4.");
}

TEST_CASE("context parallelism: unfused attention only where every rank has whole rows of scores") {
  CHECK(problem("a2a", {{"training.attention", "unfused"}}).empty());
  CHECK(problem("p2p", {{"training.attention", "unfused"}}) ==
        "core_attention: unfused attention has no log-sum-exp to join parts of a sequence by | attention: "
        "flash, or "
        "cp_comm_type: a2a.");
}

TEST_CASE("context parallelism: the sizes of a hybrid belong to it alone, and are two") {
  CHECK(problem("p2p", {{"parallelism.hierarchical_context_parallel_sizes", "[2, 2]"}}) ==
        "hierarchical_context_parallel_sizes means nothing without cp_comm_type: a2a+p2p | it cuts the group "
        "into "
        "[all-to-all, ring].");
  CHECK(problem("a2a+p2p", {{"parallelism.hierarchical_context_parallel_sizes", "4"}}) ==
        "'parallelism.hierarchical_context_parallel_sizes' must be a list of 2 whole numbers | ");
}

}  // namespace simrun
