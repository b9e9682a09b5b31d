#include <catch2/catch.hpp>

#include "tests/configs/small_job.h"

// training.precision: fp8 with its recipe, and nvfp4.
namespace simrun {
namespace {

std::string with_precision(const std::string& keys, const std::string& sections = "") {
  return test::edited(test::edited("precision: bf16", keys), "cluster:", sections + "cluster:");
}

constexpr const char* zero_1 = "optimizer: {zero_stage: 1}\n";
const std::string blackwell = "cluster: {from: dgx_h100, nodes: 1, gpu: {from: h100_sxm, mxfp8: true}}";

}  // namespace

TEST_CASE("fp8 is beside bf16; its recipe is Megatron-LM's default unless written") {
  CHECK_FALSE(test::load(test::small_job).training.fp8.has_value());
  const Training training = test::load(with_precision("precision: fp8")).training;
  CHECK(training.precision == Dtype::bf16);
  CHECK(training.fp8 == Fp8Config{Fp8Recipe::delayed, false});
  CHECK(
      test::load(with_precision("precision: fp8\n  fp8_recipe: blockwise\n  fp8_param_gather: true", zero_1))
          .training.fp8 == Fp8Config{Fp8Recipe::blockwise, true});
}

TEST_CASE("the effective config of every fp8 recipe is read back as the same job") {
  for (const char* recipe : {"delayed", "tensorwise", "blockwise", "mxfp8"}) {
    CAPTURE(recipe);
    const std::string text =
        test::edited(with_precision(std::string("precision: fp8\n  fp8_recipe: ") + recipe +
                                        (recipe == std::string("mxfp8") ? "" : "\n  fp8_param_gather: true"),
                                    zero_1),
                     "cluster: {from: dgx_h100, nodes: 1}", blackwell);
    const LoadedJob first = load_job_text(text, "job.yaml", test::with_presets());
    const LoadedJob again = load_job_text(first.effective_yaml, "job.yaml", test::with_presets());
    CHECK(again.job.training == first.job.training);
    CHECK(again.job.cluster == first.job.cluster);
    CHECK(again.job.config_sha256 == first.job.config_sha256);
  }
}

TEST_CASE(
    "nvfp4 is beside bf16 on a GPU that has it, and its effective config is read back as the same job") {
  const std::string text =
      test::edited(with_precision("precision: nvfp4"), "cluster: {from: dgx_h100, nodes: 1}",
                   "cluster: {from: dgx_b200, nodes: 1}");
  const LoadedJob first = load_job_text(text, "job.yaml", test::with_presets());
  CHECK(first.job.training.precision == Dtype::bf16);
  CHECK(first.job.training.fp8 == Fp8Config{Fp8Recipe::nvfp4, false});
  const LoadedJob again = load_job_text(first.effective_yaml, "job.yaml", test::with_presets());
  CHECK(again.job.training == first.job.training);
  CHECK(again.job.cluster == first.job.cluster);
}

TEST_CASE("nvfp4 is a recipe of its own and gathers weights in bf16") {
  const std::string keys = "precision: nvfp4\n  fp8_recipe: mxfp8\n  fp8_param_gather: true";
  const std::vector<Diagnostic> problems = test::problems_of(test::edited(
      with_precision(keys), "cluster: {from: dgx_h100, nodes: 1}", "cluster: {from: dgx_b200, nodes: 1}"));
  REQUIRE(problems.size() == 2);
  CHECK(problems[0].message == "fp8_recipe means nothing with precision: nvfp4");
  CHECK(problems[1].message == "fp8_param_gather means nothing with precision: nvfp4");
}

TEST_CASE(
    "nvfp4 on a GPU that has no fp4 is refused where it is written, with the narrowest type that it has") {
  const auto on = [](const char* gpu) {
    return test::refusal(test::edited(with_precision("precision: nvfp4"),
                                      "cluster: {from: dgx_h100, nodes: 1}",
                                      std::string("cluster: {from: dgx_h100, nodes: 1, gpu: ") + gpu + "}"));
  };
  CHECK(on("h100_sxm") ==
        "job.yaml:12:14: error: h100_sxm has no peak_flops for fp4\n"
        "  hint: precision: fp8.\n"
        "1 error; nothing was run.\n");
  CHECK(on("a100_sxm_80gb").find("hint: precision: bf16.") != std::string::npos);
}

TEST_CASE("fp8 on a GPU that has none is refused where it is written, with a type that it has") {
  const auto on = [](const char* gpu) {
    return test::refusal(test::edited(with_precision("precision: fp8"), "cluster: {from: dgx_h100, nodes: 1}",
                                      std::string("cluster: {from: dgx_h100, nodes: 1, gpu: ") + gpu + "}"));
  };
  CHECK(on("a100_sxm_80gb") ==
        "job.yaml:12:14: error: a100_sxm_80gb has no peak_flops for fp8\n"
        "  hint: precision: bf16.\n"
        "1 error; nothing was run.\n");
  CHECK(on("v100_sxm2_32gb").find("hint: precision: fp16.") != std::string::npos);
}

TEST_CASE("what fp8 cannot be combined with is refused, each with one way out") {
  struct Case {
    const char* keys;
    const char* sections;
    const char* message;
    const char* hint;
  };
  const std::vector<Case> cases = {
      {"precision: fp8\n  fp8_recipe: mxfp8", "", "13:15 h100_sxm has no matrix products of mxfp8",
       "fp8_recipe: blockwise."},
      {"precision: fp8\n  fp8_recipe: block", "", "13:15 'training.fp8_recipe' cannot be 'block'", ""},
      {"precision: bf16\n  fp8_recipe: blockwise", "", "13:15 fp8_recipe means nothing with precision: bf16",
       "it belongs to precision: fp8."},
      {"precision: fp16\n  fp8_param_gather: true", "",
       "13:21 fp8_param_gather means nothing with precision: fp16", "it belongs to precision: fp8."},
      {"precision: fp8\n  fp8_param_gather: true", "", "13:21 fp8 parameters need zero_stage 1, 2 or 3",
       "fp8_param_gather: false."},
      {"precision: fp8\n  fp8_param_gather: true", "optimizer: {zero_stage: 1, main_params_dtype: none}\n",
       "13:21 fp8 parameters need main parameters", "optimizer.main_params_dtype: fp32."},
      {"precision: fp8", "recompute: {granularity: selective, modules: [layernorm]}\n",
       "fp8_recipe: delayed keeps the fp8 copy of what 'layernorm' would discard",
       "fp8_recipe: tensorwise."}};
  for (const Case& of : cases) {
    CAPTURE(of.keys, of.sections);
    const std::vector<Diagnostic> problems = test::problems_of(with_precision(of.keys, of.sections));
    REQUIRE(problems.size() == 1);
    const Diagnostic& problem = problems.front();
    CHECK_THAT(fmt::format("{}:{} {}", problem.position.line, problem.position.column, problem.message),
               Catch::Contains(of.message));
    if (of.hint[0] != 0) CHECK(problem.hint == of.hint);
  }
}

TEST_CASE("fp8 is for the linear layers of transformers") {
  const std::string text =
      "simrun: 1\nmodel: {from: resnet-50}\n"
      "training: {micro_batch_size: 4, global_batch_size: 32, precision: fp8}\n"
      "cluster: {from: dgx_h100, nodes: 1}\n";
  CHECK_THAT(test::refusal(text),
             Catch::Contains("fp8 is for the linear layers of transformers; resnet has none"));
}

}  // namespace simrun
