#include <catch2/catch.hpp>
#include <string>

#include "tests/validation/loaded_row.h"

namespace simrun {
namespace {

// "layers x hidden", or why there is none.
std::string shape(const char* name, const Cells& others = {}) {
  static const LoadOptions options = source_presets();
  static const RowRules rules = load_row_rules(options);
  static KnownPresets presets(options);
  Cells cells{{Column::model, name},  {Column::layers, ""},     {Column::hidden, ""}, {Column::heads, ""},
              {Column::kv_heads, ""}, {Column::ffn_hidden, ""}, {Column::vocab, ""},  {Column::tp, "1"},
              {Column::pp, "1"},      {Column::vpp, "1"}};
  cells.insert(cells.end(), others.begin(), others.end());
  const RowJob made = job_of_row(measured_row(cells), rules, presets);
  if (const auto unknown = made.facts.find("unknown"); unknown != made.facts.end()) return unknown->second;
  return made.row[Column::layers] + " x " + made.row[Column::hidden];
}

}  // namespace

// (10e9 - 51,200 x 5,120) / (12 x 5,120^2) = 31.0; 50e9 is nearer to 65.2e9 than to 32.5e9:
// (50e9 - 51,200 x 8,192) / (12 x 8,192^2) = 61.6.
TEST_CASE("dimensions by size: as wide as the model of the nearest size, as deep as its parameters ask for") {
  CHECK(shape("GPT 10B") == "31 x 5120");
  CHECK(shape("GPT 50B") == "62 x 8192");
  CHECK(shape("dense 6.6B") == "32 x 4096");
  // Two tables of 32,000 words: (32e9 - 2 x 32,000 x 6,656) / (12 x 6,656^2) = 59.4.
  CHECK(shape("32B (llama-style)") == "59 x 6656");
  // GPT-NeoX has two, too: (1e9 - 2 x 50,432 x 2,048) / (12 x 2,048^2) = 15.8.
  CHECK(shape("GPT-NeoX around 1B") == "16 x 2048");
}

TEST_CASE("dimensions by size: layers come in whole virtual stages") {
  CHECK(shape("GPT 10B", {{Column::pp, "8"}}) == "32 x 5120");
  CHECK(shape("GPT 10B", {{Column::pp, "4"}, {Column::vpp, "5"}}) == "40 x 5120");
  // No model has more than a thousand.
  CHECK_THAT(shape("GPT 10B", {{Column::pp, "1000"}, {Column::vpp, "1000"}}),
             Catch::Contains("no cells with its dimensions"));
  CHECK_NOTHROW(shape("GPT 10B", {{Column::pp, "1000000000000000"}, {Column::vpp, "1000000000000000"}}));
}

TEST_CASE("dimensions by size: a row that prints a dimension, experts or another kind of model has none") {
  const std::string none = "no cells with its dimensions";
  CHECK(shape("GPT 10B", {{Column::layers, "40"}}).find(none) != std::string::npos);
  CHECK(shape("GPT-MoE 10B", {{Column::n_experts, "16"}}).find(none) != std::string::npos);
  for (const char* other :
       {"Jamba-52B", "GPT of some size", "Multi-modal GPT 8B", "Qwen-VL 9.6B", "GPT 90000T", "Llama 4 400B",
        "Mistral 141B-A39B", "Vision Llama 11B", "Swin Transformer 3B", "Llama 16B mixture of experts"}) {
    CAPTURE(other);
    CHECK_THAT(shape(other), Catch::Contains(none));
  }
}

// 64 layers of 12 x 1,024^2 are 805 M; a million words of 1,024 are 1.0 B.
TEST_CASE("dimensions by size: what would not be of that size, or not have the row's heads, is not guessed") {
  const std::string none = "no cells with its dimensions";
  CHECK_THAT(shape("GPT 350M", {{Column::pp, "16"}, {Column::vpp, "4"}}), Catch::Contains(none));
  CHECK_THAT(shape("GPT 350M", {{Column::vocab, "1000000"}}), Catch::Contains(none));
  CHECK_THAT(shape("GPT 20B", {{Column::heads, "48"}}), Catch::Contains(none));
  CHECK(shape("GPT 10B", {{Column::heads, "32"}}) == "31 x 5120");
}

TEST_CASE("dimensions by size: a model of a known name keeps its own") {
  CHECK(shape("GPT-3 13B") == "40 x 5120");
  CHECK(shape("OpenLM-1B") == "24 x 2048");
}

}  // namespace simrun
