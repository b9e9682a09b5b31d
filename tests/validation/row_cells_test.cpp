#include "validation/row_cells.h"

#include <catch2/catch.hpp>

#include "tests/validation/rows.h"
#include "validation/cell_words.h"

namespace simrun {
namespace {

std::string read_cell(Column column, const char* cell) {
  const MeasuredRow row = plain_cells(measured_row({{column, cell}}));
  return row.fault.empty() ? row[column] : row.fault;
}

TEST_CASE("cells: a size is a positive whole number, with thousands or an exponent; all else is quoted") {
  CHECK(read_cell(Column::n_gpus, "1,024") == "1024");
  CHECK(read_cell(Column::vocab, "1,024,000") == "1024000");
  CHECK(read_cell(Column::n_gpus, "1e3") == "1000");
  CHECK(read_cell(Column::seq_len, "2048.0") == "2048");
  for (const char* wrong : {"~8", "0", "-8", "eight", "8x8", "2.5", "2,5", "12,34", "1e99", "nan"}) {
    const std::string fault = std::string("n_gpus '") + wrong + "' is no positive whole number";
    CHECK(read_cell(Column::n_gpus, wrong) == fault);
  }
  CHECK(read_cell(Column::gpus_per_node, "-8") == "gpus_per_node '-8' is no positive whole number");
  CHECK(read_cell(Column::global_batch, "-5") == "global_batch '-5' is no positive whole number");
  CHECK(read_cell(Column::n_experts, "0").empty());  // a dense model
}

TEST_CASE("cells: what is computed again may be named in parentheses, in Megatron-LM's words alone") {
  CHECK(recomputed_modules_in("selective (moe_act, mlp)") == "[moe_act, mlp]");
  CHECK(recomputed_modules_in("selective (moe, shared_experts)") == "[moe, shared_experts]");
  CHECK(recomputed_modules_in("selective (expert activation)").empty());
  CHECK(recomputed_modules_in("selective").empty());
  CHECK(recomputed_modules_in("full, moe layers").empty());
}

TEST_CASE("cells: a sequence of a power of two and one more token has a label behind it") {
  CHECK(without_label_token("65537") == "65536");
  CHECK(without_label_token("2049") == "2048");
  for (const char* other : {"65536", "65538", "513", "1", "", "2049 tokens"})
    CHECK_FALSE(without_label_token(other));
}

TEST_CASE("cells: 'not stated' and its like are blank in any column") {
  for (const char* blank : {"n/a", "N/A", "-", "not stated", "Unknown", "?", "\xE2\x80\x94"})
    for (const Column column : {Column::n_gpus, Column::schedule, Column::model, Column::inter_link}) {
      CAPTURE(blank);
      CHECK(read_cell(column, blank).empty());
    }
  CHECK(read_cell(Column::model, "none of these") == "none of these");
}

TEST_CASE("cells: words are known in any case and order") {
  const auto all = [](Column column, const char* meant, std::vector<const char*> spellings) {
    for (const char* spelling : spellings) {
      CAPTURE(spelling);
      CHECK(read_cell(column, spelling) == meant);
    }
  };
  all(Column::flash_attention, "1", {"1", "yes", "TRUE", "On", "FlashAttention-2", "FA3"});
  all(Column::sp, "0", {"0", "No", "false", "OFF"});
  all(Column::schedule, "interleaved-1f1b",
      {"Interleaved 1F1B", "1F1B interleaved", "Interleaved-1F1B", "1F1B-interleaved", "interleaved"});
  all(Column::schedule, "1f1b",
      {"1F1B", "PipeDream-Flush", "non-interleaved 1F1B", "1F1B without interleaving",
       "1F1B (interleaving not stated for this table)"});
  all(Column::schedule, "gpipe", {"GPipe", "AFAB"});
  all(Column::schedule, "zb1p", {"Zero bubble", "ZB-1p", "ZB-H1"});
  all(Column::precision, "bf16", {"bf16", "BF16", "bfloat16"});
  all(Column::precision, "fp16", {"float16", "half", "FP16 mixed precision"});
  all(Column::precision, "", {"amp", "mixed", "4-bit base", "nf4 base, fp32 LoRA"});
  CHECK(read_cell(Column::precision, "float8") == "fp8");
  CHECK(read_cell(Column::precision, "fp4") == "nvfp4");
  CHECK(read_cell(Column::precision, "fp8-cs") == "fp8-cs");  // a recipe, which the job reads
  all(Column::recompute, "none", {"no recompute", "no AC", "none (flash attention)"});
  all(Column::recompute, "full", {"gradient checkpointing", "Activation recomputation"});
  CHECK(read_cell(Column::recompute, "not full").starts_with("recompute 'not full' is none of"));
  all(Column::recompute, "full", {"non-uniform, full", "norm + full"});
  all(Column::zero_stage, "fsdp", {"node-local FSDP"});
  all(Column::zero_stage, "0", {"no FSDP", "no sharding", "no ZeRO"});
  all(Column::zero_stage, "1", {"dist-opt", "use_distributed_optimizer", "Z1"});
  CHECK(read_cell(Column::n_gpus, "64 GPUs") == "64");
  all(Column::recompute, "full", {"yes", "True", "full", "full (uniform, 1)"});
  all(Column::recompute, "none", {"no", "false", "None"});
  all(Column::zero_stage, "1", {"1", "ZeRO-1", "zero1", "1 (distributed optimizer)"});
  all(Column::zero_stage, "3", {"3", "zero3", "ZeRO stage 3"});
  all(Column::zero_stage, "fsdp", {"FSDP", "FULL_SHARD"});
  all(Column::zero_stage, "2", {"SHARD_GRAD_OP", "zero-2"});
  all(Column::zero_stage, "0", {"ddp", "none", "NO_SHARD"});
}

TEST_CASE("cells: a word that is unknown is quoted, with those that are known") {
  CHECK(read_cell(Column::recompute, "partial") == "recompute 'partial' is none of none, selective, full");
  CHECK(read_cell(Column::sp, "maybe") == "sp 'maybe' is none of yes, no");
  CHECK(read_cell(Column::schedule, "round robin").starts_with("schedule 'round robin' is none of 1f1b, "));
  CHECK(read_cell(Column::precision, "int8").starts_with("precision 'int8' is none of bf16, "));
}

TEST_CASE("cells: more layers than any model has are refused, so that one row cannot stop the others") {
  CHECK(read_cell(Column::layers, "1000") == "1000");
  for (const char* many : {"1001", "5000", "999999999"})
    CHECK(read_cell(Column::layers, many) ==
          std::string("layers '") + many + "' are more than the 1000 that a row may have");
}

TEST_CASE("cells: sizes that do not make up the GPUs are named") {
  const auto said = [](const char* gpus, const char* dp) {
    return contradiction_of_sizes(measured_row({{Column::n_gpus, gpus}, {Column::dp, dp}}));
  };
  CHECK(said("8", "16") == "tp 2 x pp 2 x dp 16 are 64 GPUs, and n_gpus is 8");
  CHECK(said("8", "2").empty());
  CHECK(said("8", "").empty());
  CHECK(said("", "16").empty());
}

}  // namespace
}  // namespace simrun
