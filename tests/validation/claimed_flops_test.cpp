#include "validation/claimed_flops.h"

#include <catch2/catch.hpp>

#include "configs/load_job.h"
#include "tests/validation/rows.h"
#include "validation/row_rules.h"

namespace simrun {

// gpt-oss-20b: 24 layers, every second one with a window of 128 keys; 64 heads of 64; of 32 experts of 2880 x
// 2880 four a token. One sequence of 4,096 tokens.
TEST_CASE(
    "Megatron-Bridge's earlier count has half of whole attention in every layer, and two matrices an "
    "expert") {
  const LoadOptions options = source_presets();
  const Job job =
      load_job_text(
          "simrun: 1\n"
          "model: {from: gpt-oss-20b}\n"
          "training: {seq_length: 4096, micro_batch_size: 1, global_batch_size: 1, precision: bf16}\n"
          "cluster: {from: dgx_h100, nodes: 1, gpus_per_node: 1, nics_per_node: 1}\n",
          "job.yaml", options)
          .job;
  Summary summary;
  summary.model_flops_per_step = 1e15;
  constexpr double tokens = 4096, width = 64 * 64;
  const double half = 6 * 4096 * width * tokens;
  const double counted = 12 * (12.0 * 4096 + 12.0 * 128) * width * tokens;  // scores of all layers
  const double gates = 24 * 6 * tokens * 4 * 2880 * 2880;
  CHECK(claimed_flops({{"flops", "causal_whole_no_gates"}}, job, summary) ==
        Approx(1e15 - counted + 24 * half - gates));
  CHECK(claimed_flops({{"flops", "causal"}}, job, summary) == Approx(1e15 - 12 * half));
  CHECK(claimed_flops({}, job, summary) == 1e15);
  // What is computed again counts; six per parameter that a token passes leaves all scores out.
  summary.hardware_flops_per_step = 1.25e15;
  CHECK(claimed_flops({{"flops", "hardware"}}, job, summary) == 1.25e15);
  CHECK(claimed_flops({{"flops", "6nd"}}, job, summary) == Approx(1e15 - 24 * half));
  CHECK(claimed_flops({{"flops", "8nd"}}, job, summary) == Approx((1e15 - 24 * half) * 8 / 6));
}

TEST_CASE(
    "flops: six or eight times parameters and tokens are read as a formula, a part of a longer one is not") {
  for (const char* words : {"6ND", "6*N*D", "6 N D", "6N", "6*N per token", "model FLOPs = 6 * N * tokens"}) {
    CAPTURE(words);
    CHECK(flops_formula_in(words) == "6nd");
  }
  for (const char* words : {"8N", "8*N*D with recompute", "8 N D"}) CHECK(flops_formula_in(words) == "8nd");
  for (const char* words : {"", "6N+12Lhs", "(6*N + 12*L*h*s)", "96*B*s*l*h^2", "8 nodes", "16N",
                            "6*N_params", "6*N(no embedding)", "12LHQT + 6ND", "6ND - 6E", "6*N*L"}) {
    CAPTURE(words);
    CHECK(flops_formula_in(words).empty());
  }
}

TEST_CASE("flops: hardware FLOPs in words count what is recomputed") {
  const RowRules rules = load_row_rules(source_presets());
  const auto kind = [&](const char* words) {
    const std::optional<RowRule> rule = first_applied(rules.flops, words);
    return rule && rule->facts.contains("flops") ? rule->facts.at("flops") : "";
  };
  CHECK_FALSE(first_applied(rules.flops, "MFU, not HFU")->facts.contains("flops"));
  for (const char* words : {"HFU", "HFU including recompute", "hardware FLOPs utilization"})
    CHECK(kind(words) == "hardware");
  CHECK(kind("hw FLOPs incl. full recompute: F=96*B*s*l*h^2") == "hardware_96");
}

}  // namespace simrun
