// What is said of a plan that does not fit.
#include <catch2/catch.hpp>

#include "tests/cli/run_simrun.h"

namespace simrun {
namespace {

std::string misfit(const std::string& more) {
  const Ran ran = run_simrun(tiny_gpt_job + " --no-html --set cluster.reserved_memory=1MiB " + more);
  CAPTURE(ran.output);
  CHECK(ran.code == 3);
  const std::size_t at = ran.output.find("does not fit: ");
  REQUIRE(at != std::string::npos);
  return ran.output.substr(at);
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("misfit: a larger tensor parallel is a lever where the data-parallel ranks follow from it") {
  const std::string text = misfit("--set cluster.gpu.memory=1.7MiB");
  CAPTURE(text);
  CHECK(says(text, "Largest lever: parallelism.tensor_model_parallel_size: 4 brings the peak to"));
  CHECK(says(text, ", which fits."));
}

TEST_CASE("misfit: full recompute is a lever where some modules are recomputed already, whoever says so") {
  const std::string large =
      "--set cluster.gpu.memory=9MiB --set model.num_layers=32 --set model.max_position_embeddings=512 --set "
      "training.seq_length=512 --set training.attention=unfused --set "
      "parallelism.tensor_model_parallel_size=4 ";
  for (const char* recompute :
       {"'recompute={granularity: selective, modules: [core_attn]}'", "recompute.granularity=selective"}) {
    const std::string text = misfit(large + "--set " + recompute);
    CAPTURE(recompute, text);
    CHECK(
        says(text, "Largest lever: recompute: {granularity: full} brings the peak to 4.6 MiB, which fits."));
  }
}

TEST_CASE("misfit: what a lever leaves out is said, and pulling it does what is claimed") {
  const std::string job =
      tiny_gpt_job + " --no-html --set cluster.reserved_memory=1MiB --set cluster.gpu.memory=1.7MiB ";
  const std::string text = misfit("--set cluster.gpu.memory=1.7MiB --set parallelism.data_parallel_size=2");
  CAPTURE(text);
  CHECK(says(text,
             "tensor_model_parallel_size: 4 (without parallelism.data_parallel_size) brings the peak to "));
  const std::size_t at = text.find("brings the peak to ") + 19;
  const std::string peak = text.substr(at, text.find(',', at) - at);
  CHECK(
      says(run_simrun(job + "--set parallelism.tensor_model_parallel_size=4").output, "peak memory " + peak));
}

TEST_CASE("misfit: of several kinds of GPU the lever is that of the one with least to spare") {
  const std::string job = SIMRUN_SOURCE_DIR
      "/configs/jobs/bert-large-16xv100-p100.yaml --no-html --set "
      "cluster.reserved_memory=12GiB ";
  const Ran ran = run_simrun(job);
  CAPTURE(ran.output);
  CHECK(says(ran.output, "optimizer.zero_stage: 3 brings the peak to 3.5 GiB, which fits."));
  CHECK(run_simrun(job + "--set optimizer.zero_stage=3").code == 0);
}

TEST_CASE("misfit: under a framework a lever promises what the changed job then has") {
  const std::string job =
      SIMRUN_SOURCE_DIR "/configs/jobs/llama3-8b-8xh100.yaml --no-html --set framework=megatron_core ";
  const std::string small = "--set cluster.gpu.memory=40GiB ";
  const Ran ran = run_simrun(job + small);
  CAPTURE(ran.output);
  const std::size_t at = ran.output.find("Largest lever: ");
  REQUIRE(at != std::string::npos);
  const std::string lever = ran.output.substr(at + 15, ran.output.find(" brings", at) - at - 15);
  const std::size_t of = ran.output.find("brings the peak to ", at) + 19;
  const std::string peak = ran.output.substr(of, ran.output.find(',', of) - of);
  const std::size_t colon = lever.find(": ");
  const Ran changed =
      run_simrun(job + small + "--set '" + lever.substr(0, colon) + "=" + lever.substr(colon + 2) + "'");
  CAPTURE(changed.output);
  CHECK(says(changed.output, "peak memory " + peak));
  CHECK((changed.code == 0) == says(ran.output.substr(at), ", which fits."));
}

}  // namespace simrun
