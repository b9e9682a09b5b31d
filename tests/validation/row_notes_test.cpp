#include <catch2/catch.hpp>

#include "tests/validation/loaded_row.h"

// What fixed words in a row's notes make of its job (configs/validation/notes.yaml).
namespace simrun {
namespace {

TEST_CASE("row: what notes say of bf16 states, of one reduction per step and of adapters") {
  const auto optimizer = [](const char* notes, const char* zero_stage) {
    return load_row({{Column::notes, notes}, {Column::zero_stage, zero_stage}}).job.optimizer;
  };
  const OptimizerConfig pure = optimizer("fused AdamW; all states bf16", "0");
  CHECK_FALSE(pure.main_params_dtype);
  CHECK(pure.exp_avg_dtype == Dtype::bf16);
  CHECK(pure.main_grads_dtype == Dtype::bf16);
  CHECK(optimizer("fused AdamW", "0").main_params_dtype == Dtype::fp32);
  CHECK(optimizer("gradients reduced once per step", "2").no_sync);
  CHECK_FALSE(optimizer("", "2").no_sync);
  const Cells adapters = {{Column::notes, "LoRA rank 16 on attention projections, the rest frozen"}};
  const LoadedRow lora = load_row(adapters);
  REQUIRE(lora.job.training.lora);
  CHECK(lora.job.training.lora->rank == 16);
  CHECK(lora.job.training.lora->targets.size() == 2);
  CHECK_FALSE(lora.made.facts.contains("unsupported"));
  REQUIRE(load_row({{Column::notes, "LoRA"}}).job.training.lora);
  CHECK(load_row({{Column::notes, "LoRA"}}).job.training.lora->rank == 8);  // PEFT's
  for (const char* notes : {"LoRA rank=64", "LoRA (r=64)", "rank-64 LoRA", "LoRA with rank 64"}) {
    CAPTURE(notes);
    CHECK(load_row({{Column::notes, notes}}).job.training.lora->rank == 64);
  }
  CHECK_FALSE(load_row({{Column::notes, "MLA kv_lora 512"}}).job.training.lora);
  CHECK(load_row({{Column::notes, "LoRA r=16 on q,k,v,o"}}).job.training.lora->targets.size() == 2);
  CHECK(load_row({{Column::notes, "QLoRA rank 16"}}).made.facts.contains("unsupported"));
  const LoadOptions options = source_presets();
  KnownPresets presets(options);
  const MeasuredRow hybrid = measured_row({{Column::notes, "no LoRA"}, {Column::model, "a Mamba hybrid"}});
  CHECK(job_of_row(hybrid, load_row_rules(options), presets).facts.contains("unsupported"));
  const LoadedRow whole = load_row({{Column::notes, "full fine-tuning (not LoRA)"}});
  CHECK_FALSE(whole.made.facts.contains("unsupported"));
  CHECK_FALSE(whole.job.training.lora);
}

TEST_CASE("row: MLPerf's parameters are gathered in fp8, those of mxfp8 in bf16") {
  const auto gathers = [](const char* precision, const char* hardware) {
    const LoadedRow row = load_row({{Column::source, "mlcommons/training_results_v5.0"},
                                    {Column::precision, precision},
                                    {Column::hardware, hardware}});
    return row.job.training.fp8.value().param_gather;
  };
  CHECK(gathers("fp8", "H100-80GB"));
  CHECK_FALSE(gathers("mxfp8", "B200"));
}

TEST_CASE("row: fp8 with scales per row is priced on the H100 that it was measured on") {
  const auto recipe_of = [](const char* hardware) {
    return load_row({{Column::hardware, hardware},
                     {Column::precision, "fp8"},
                     {Column::notes, "use=clean; float8 rowwise"}})
        .job.training.fp8->recipe;
  };
  CHECK(recipe_of("H100 80GB") == Fp8Recipe::blockwise);
  CHECK(recipe_of("H200 141GB") != Fp8Recipe::blockwise);
}

TEST_CASE("row: MaxText's dense dispatch of dropped tokens is products with masks, sequence by sequence") {
  const LoadedRow row = load_row(
      {{Column::source, "MaxText report"},
       {Column::model, "DeepSeekV3"},
       {Column::seq_len, "4096"},
       {Column::tp, "1"},
       {Column::n_experts, "8"},
       {Column::topk, "2"},
       {Column::notes, "token-dropping MoE with capacity_factor 1.25 and dense matmuls (megablox off)"}});
  CHECK(row.job.moe.capacity_factor == 1.25);
  CHECK(row.job.moe.token_dispatcher == TokenDispatcher::einsum);
  CHECK(row.job.moe.group_size == 4096);
}

}  // namespace
}  // namespace simrun
