#include <catch2/catch.hpp>
#include <string>

#include "tests/cli/run_simrun.h"

namespace simrun {

TEST_CASE("--plan alpa prints the best plan beside others and writes it as a job that simulates to its time",
          "[long]") {
  const Scratch scratch;
  const std::string best = scratch.file("best.yaml");
  const std::string job = SIMRUN_SOURCE_DIR "/configs/jobs/tiny-gpt-8ranks.yaml";
  const Ran planned = run_simrun("--plan alpa " + job + " -o " + best);
  CAPTURE(planned.output);
  REQUIRE(planned.code == 0);
  for (const char* words : {"simulated ", "layers[0-3].qkv", "Megatron-like: ", "ZeRO-3, "})
    CHECK(planned.output.find(words) != std::string::npos);
  const Ran run = run_simrun(best + " --check");
  CAPTURE(run.output);
  CHECK(run.code == 0);
  // It executes like any other job.
  const Ran executed = run_simrun(best + " --execute --no-html");
  CAPTURE(executed.output);
  CHECK(executed.code == 0);
}

TEST_CASE("what --plan alpa does not search is refused all at once, each at its key") {
  const Scratch scratch;
  const std::string job = scratch.write("job.yaml",
                                        "simrun: 1\n"
                                        "model: {from: llama2-7b}\n"
                                        "training:\n"
                                        "  precision: bf16\n  seq_length: 4096\n  global_batch_size: 16\n"
                                        "  lora: {rank: 16, targets: [qkv]}\n"
                                        "  documents: {mean: 1000, distribution: lognormal, sigma: 1.0}\n"
                                        "plan: {fix: {tensor_model_parallel_size: 2}, minimise: memory}\n"
                                        "cluster: {from: dgx_h100, nodes: 1}\n");
  const Ran refused = run_simrun("--plan alpa " + job);
  CAPTURE(refused.output);
  CHECK(refused.code == 2);
  std::size_t at = 0;  // in the order of their places
  for (const char* said :
       {":7:3: error: LoRA is not searched", ":8:3: error: packed documents are not searched",
        ":9:42: error: plan.fix.tensor_model", ":9:56: error: --plan alpa makes the step short",
        "4 errors; nothing was run."}) {
    CAPTURE(said);
    at = refused.output.find(said, at);
    CHECK(at != std::string::npos);
  }
  CHECK(scratch.files() == 1);
}

TEST_CASE("--plan alpa refuses limits that it does not know, and minimise: memory") {
  const std::string job = SIMRUN_SOURCE_DIR "/configs/jobs/tiny-gpt-8ranks.yaml";
  const Ran fixed = run_simrun("--plan alpa " + job + " --set plan.fix.tensor_model_parallel_size=2");
  CAPTURE(fixed.output);
  CHECK(fixed.code == 2);
  CHECK(fixed.output.find("pipeline_model_parallel_size") != std::string::npos);
  const Ran memory = run_simrun("--plan alpa " + job + " --set plan.minimise=memory");
  CHECK(memory.code == 2);
}

}  // namespace simrun
