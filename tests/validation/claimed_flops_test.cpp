#include "validation/claimed_flops.h"

#include <catch2/catch.hpp>

#include "configs/load_job.h"
#include "models/flops.h"
#include "models/model_graph.h"
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

// TFLOP/s by tokens/s of Megatron-Bridge's tables are 22.278 GFLOP per token of Nemotron 3 Nano and, with two
// layers that predict further tokens, 84.73 of Super, both at 8,192 tokens: without routers and without the
// products that join two states to one.
TEST_CASE("Megatron-Bridge's count of hybrids is that of Mamba layers twice as wide as the model") {
  struct Published {
    std::string model;
    double gflop, routers, joins;
  };
  for (const Published& of :
       {Published{"{from: nemotron3-nano-30b-a3b}", 22.278, 6e-9 * 23 * 2688 * 128, 0},
        Published{"{from: nemotron3-super-120b-a12b, mtp_num_layers: 2, mtp_hybrid_override_pattern: \"*E\"}",
                  84.73, 6e-9 * 42 * 4096 * 512, 6e-9 * 2 * 2 * 4096 * 4096}}) {
    CAPTURE(of.model);
    const Job job =
        load_job_text("simrun: 1\nmodel: " + of.model +
                          "\ntraining: {seq_length: 8192, micro_batch_size: 1, global_batch_size: 1, "
                          "precision: bf16}\n"
                          "cluster: {from: dgx_h100, nodes: 1, gpus_per_node: 1, nics_per_node: 1}\n",
                      "job.yaml", source_presets())
            .job;
    Summary summary;
    summary.model_flops_per_step = model_flops(build_graph(job));
    const double counted = claimed_flops({{"flops", "causal"}}, job, summary) / 8192 / 1e9;
    CHECK(counted - of.routers - of.joins == Approx(of.gflop).epsilon(5e-4));
  }
}

TEST_CASE(
    "flops: six or eight times parameters and tokens are read as a formula, a part of a longer one is not") {
  for (const char* words : {"6ND", "6*N*D", "6 N D", "6N", "6*N per token", "model FLOPs = 6 * N * tokens"}) {
    CAPTURE(words);
    CHECK(flops_formula_in(words) == "6nd");
  }
  for (const char* words :
       {"8N", "8*N*D with recompute", "8 N D", "8 * parameters * tokens (forward 4 times)", "8 params"})
    CHECK(flops_formula_in(words) == "8nd");
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
  CHECK(kind("hardware TFLOPs with checkpointing (forward counted twice)") == "hardware_96");
  CHECK(kind("hw FLOPs incl. full recompute: F=96*B*s*l*h^2") == "hardware_96");
}

}  // namespace simrun
