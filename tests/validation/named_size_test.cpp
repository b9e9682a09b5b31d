#include "validation/named_size.h"

#include <catch2/catch.hpp>
#include <string>

#include "tests/validation/loaded_row.h"

namespace simrun {
namespace {

TEST_CASE("named size: the first number with a unit, not one of several models") {
  CHECK(parameters_named("Skywork-13B") == 13e9);
  CHECK(parameters_named("nanochat d20 561M") == 561e6);
  CHECK(parameters_named("Llama 3 7B shape (8.03B)") == 7e9);
  CHECK(parameters_named("GPT 1.5B") == 1.5e9);
  CHECK(parameters_named("1T-wide") == 1e12);
  CHECK_FALSE(parameters_named("Mixtral-8x7B"));
  CHECK_FALSE(
      parameters_named("Mixtral 8\xC3\x97"
                       "7B"));
  CHECK_FALSE(parameters_named("13Bx"));
  CHECK_NOTHROW(parameters_named(std::string(400, '9') + "B"));
  CHECK_FALSE(parameters_named("GPT L24 h1024"));
}

Cells model(const char* name, const char* layers, const char* hidden, const char* ffn) {
  return {{Column::model, name},    {Column::layers, layers}, {Column::hidden, hidden},
          {Column::heads, "32"},    {Column::kv_heads, "32"}, {Column::ffn_hidden, ffn},
          {Column::vocab, "64000"}, {Column::tp, "1"},        {Column::pp, "1"},
          {Column::vpp, "1"}};
}

// A layer of width 4,608 has 4 x 4608^2 = 85 M parameters of attention, and 57 M per matrix of 12,288: 52 of
// them 13.3 B with three matrices and 10.3 B with two, and 0.3 B per embedding.
TEST_CASE("named size: MLPs of three matrices where only they make the model as large as its name") {
  CHECK(is_gated_by_size(measured_row(model("Skywork-13B", "52", "4608", "12288"))));
  CHECK_FALSE(is_gated_by_size(measured_row(model("Skywork-11B", "52", "4608", "12288"))));
  CHECK_FALSE(is_gated_by_size(measured_row(model("Skywork", "52", "4608", "12288"))));
  // Of width 4 h the two are 12 and 16 h^2 per layer.
  CHECK_FALSE(is_gated_by_size(measured_row(model("GPT-7B", "32", "4096", "16384"))));
  Cells experts = model("Internal-352B", "60", "4096", "14336");
  experts.insert(experts.end(), {{Column::n_experts, "32"}, {Column::topk, "3"}});
  CHECK(is_gated_by_size(measured_row(experts)));
}

TEST_CASE("row: a model that no rule knows has Llama's or Mixtral's layers if its size says so") {
  const LoadedRow gated = load_row(model("Unheard-13B", "52", "4608", "12288"));
  CHECK(gated.job.model.activation == Activation::swiglu);
  CHECK(assumes(gated.made, "gated MLPs, by the model's size"));
  Cells experts = model("qwen-8x7b-e16k4", "4", "4096", "7168");
  experts.insert(experts.end(), {{Column::n_experts, "16"}, {Column::topk, "4"}, {Column::ep, "8"}});
  CHECK(load_row(experts).job.model.experts.count == 16);
  CHECK(load_row(model("Unheard-11B", "52", "4608", "12288")).job.model.activation != Activation::swiglu);
}

}  // namespace
}  // namespace simrun
