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
