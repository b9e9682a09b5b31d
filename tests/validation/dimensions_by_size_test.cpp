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
       {"Jamba-52B", "GPT of some size", "Multimodal GPT 8B", "Qwen-VL 9.6B", "GPT 90000T"})
    CHECK(shape(other).find(none) != std::string::npos);
}

TEST_CASE("dimensions by size: a model of a known name keeps its own") {
  CHECK(shape("GPT-3 13B") == "40 x 5120");
  CHECK(shape("OpenLM-1B") == "24 x 2048");
}

}  // namespace simrun
