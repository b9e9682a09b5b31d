#include <catch2/catch.hpp>

#include "tests/validation/loaded_row.h"

// What cells deny, qualify or count, and what notes say of cells that are empty.
namespace simrun {
namespace {

LoadedRow on_one_stage(Cells cells) {
  cells.insert(cells.end(), {{Column::pp, "1"}, {Column::vpp, "1"}});
  return load_row(cells);
}

LoadedRow of_words(const char* notes, Cells cells = {}) {
  for (const Column column : {Column::recompute, Column::sp, Column::zero_stage, Column::micro_batch})
    cells.insert(cells.begin(), {column, ""});
  cells.emplace_back(Column::notes, notes);
  return on_one_stage(cells);
}

TEST_CASE("row: a type that a cell denies is not the row's") {
  for (const char* cell : {"BF16 (no FP8)", "bf16, fp8 off", "w/o FP8, bf16", "BF16 (FP8 disabled)"}) {
    CAPTURE(cell);
    CHECK_FALSE(on_one_stage({{Column::precision, cell}}).job.training.fp8.has_value());
  }
  CHECK(on_one_stage({{Column::precision, "FP8 (BF16 off)"}, {Column::hardware, "H100"}})
            .job.training.fp8.has_value());
}

TEST_CASE("row: recompute of some layers is not that of all") {
  const RecomputeConfig block = on_one_stage({{Column::recompute, "block 3 layers"}}).job.recompute;
  CHECK(block.granularity == RecomputeGranularity::full);
  CHECK(block.method == RecomputeMethod::block);
  CHECK(block.num_layers == 3);
  for (const char* quarter : {"full, 1 of 4 layers", "full activation ckpt on 25% of layers"}) {
    CAPTURE(quarter);
    const LoadedRow row = on_one_stage({{Column::recompute, quarter}});
    CHECK(row.job.recompute.method == RecomputeMethod::block);
    CHECK(row.job.recompute.num_layers == row.job.model.num_layers / 4);
  }
  const auto granularity = [](const char* cell) {
    return on_one_stage({{Column::recompute, cell}}).job.recompute.granularity;
  };
  CHECK(granularity("no full, selective only") == RecomputeGranularity::selective);
  CHECK(granularity("no recompute") == RecomputeGranularity::none);
  CHECK(granularity("none (0 of 32 layers)") == RecomputeGranularity::none);
  CHECK(on_one_stage({{Column::recompute, "full, every transformer block (FSDP2)"}}).job.recompute.method !=
        RecomputeMethod::block);
}

TEST_CASE("row: FSDP that keeps weights gathered is ZeRO-2") {
  const auto stage = [](const char* cell) {
    return on_one_stage({{Column::zero_stage, cell}}).job.optimizer.zero_stage;
  };
  for (const char* cell : {"FSDP (ZeRO-2)", "ZeRO-2 via FSDP", "2 (FSDP)", "FSDP1 grad op",
                           "FSDP2, reshard_after_forward=False"}) {
    CAPTURE(cell);
    CHECK(stage(cell) == 2);
  }
  for (const char* cell :
       {"FSDP", "FSDP2", "3 (FSDP)", "full shard", "2D (FSDP+TP)", "FSDP2 (ZeRO-3, not ZeRO-2)"})
    CHECK(stage(cell) == 3);
}

TEST_CASE("row: a schedule's cell says how many virtual stages there are") {
  const auto chunks = [](const char* cell) {
    return load_row({{Column::schedule, cell}, {Column::vpp, ""}, {Column::pp, "2"}, {Column::layers, "16"}})
        .job.parallelism.virtual_pipeline_model_parallel_size;
  };
  for (const char* cell : {"1F1B (interleaved, v=4)", "Interleaved 1F1B (VPP=4)", "interleaved, 4 chunks"}) {
    CAPTURE(cell);
    CHECK(chunks(cell) == 4);
  }
  CHECK(chunks("1F1B, interleaving off") == 1);
  CHECK(chunks("GPipe, 8 chunks") == 1);
}

TEST_CASE("row: a batch of fewer sequences than data-parallel ranks is another job's") {
  const auto fault = [](const char* batch) {
    return on_one_stage({{Column::n_gpus, "32"},
                         {Column::tp, "2"},
                         {Column::cp, "1"},
                         {Column::dp, ""},
                         {Column::micro_batch, ""},
                         {Column::global_batch, batch}})
        .made.row.fault;
  };
  CHECK(fault("4") == "global_batch 4 has no sequence for each of 16 data-parallel ranks");
  CHECK(fault("32").empty());
}

TEST_CASE("row: experts of a row whose name's model has none are in that model's layers") {
  const auto named = [](const char* model, const char* experts) {
    Cells cells{{Column::model, model}, {Column::n_experts, experts}, {Column::topk, "2"}};
    for (const Column column :
         {Column::layers, Column::hidden, Column::heads, Column::kv_heads, Column::ffn_hidden, Column::vocab})
      cells.emplace_back(column, "");
    return on_one_stage(cells);
  };
  const LoadedRow row = named("Llama 3 8B", "8");
  CHECK(row.job.model.experts.count == 8);
  CHECK(row.job.model.num_layers == 32);
  CHECK(row.job.model.hidden_size == 4096);
  CHECK(named("DBRX", "16").made.job.value("model.from") == "dbrx");
}

TEST_CASE("row: notes fill cells that are empty, and no others") {
  const auto granularity = [](const char* notes) { return of_words(notes).job.recompute.granularity; };
  CHECK(granularity("full activation recomputation") == RecomputeGranularity::full);
  CHECK(granularity("selective recompute") == RecomputeGranularity::selective);
  CHECK(granularity("without full recompute") == RecomputeGranularity::none);
  CHECK(of_words("ZeRO stage 2").job.optimizer.zero_stage == 2);
  CHECK(of_words("without distributed optimizer").job.optimizer.zero_stage == 0);
  CHECK(of_words("micro-batch size 4", {{Column::global_batch, "64"}}).job.training.micro_batch_size == 4);
  CHECK(of_words("micro-batch size 4, bf16", {{Column::global_batch, "64"}}).job.training.micro_batch_size ==
        4);
  CHECK_FALSE(of_words("no sequence parallelism", {{Column::tp, "2"}}).job.parallelism.sequence_parallel);
  CHECK(of_words("with sequence parallelism", {{Column::tp, "2"}}).job.parallelism.sequence_parallel);
  CHECK(on_one_stage({{Column::notes, "full activation recomputation"}, {Column::recompute, "none"}})
            .job.recompute.granularity == RecomputeGranularity::none);
}

TEST_CASE("row: gated experts beside a shared one have no biases") {
  const LoadedRow row = of_words(
      "2 shared experts", {{Column::n_experts, "8"}, {Column::topk, "2"}, {Column::ffn_hidden, "1408"}});
  CHECK(row.job.model.experts.shared_ffn_hidden_size == 2816);
  CHECK_FALSE(row.job.model.mlp_bias);
}

}  // namespace
}  // namespace simrun
