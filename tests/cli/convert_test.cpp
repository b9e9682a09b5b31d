// --export and --import on the command line.
#include <catch2/catch.hpp>

#include "tests/cli/run_simrun.h"

namespace simrun {
namespace {

const std::string llama_job = SIMRUN_SOURCE_DIR "/configs/jobs/llama3-8b-8xh100.yaml";

TEST_CASE("--export megatron, then --import megatron gives a job of the same derived numbers") {
  const Scratch scratch;
  const std::string script = scratch.file("run.sh"), back = scratch.file("back.yaml");
  CHECK(run_simrun(llama_job + " --export megatron -q -o " + script).output.empty());
  const Ran ran = run_simrun("--import megatron " + script + " -o " + back);
  CHECK(ran.code == 0);
  CHECK(ran.output.starts_with("wrote " + back));
  const auto step = [](const std::string& path) {
    const std::string json = run_simrun(path + " --json").output;
    return json.substr(json.find("\"step_time_s\""), 40);
  };
  CHECK(step(back) == step(llama_job));
  // bash itself takes the script.
  CHECK(std::system(("bash -n " + script).c_str()) == 0);
}

TEST_CASE("--export torchtitan writes the schedule beside the recipe") {
  const Scratch scratch;
  CHECK(run_simrun(tiny + " --export torchtitan -o " + scratch.file("job.py")).code == 0);
  CHECK(read(scratch.file("job.py")).find("def tiny_4xa100(") != std::string::npos);
  CHECK(read(scratch.file("job.csv")).starts_with("0F0,0F1,0B0,"));
  CHECK(run_simrun(tiny + " --export torchtitan").output.find("def tiny_4xa100(") != std::string::npos);
}

TEST_CASE("a wrong --export or --import says what is wrong, and writes nothing") {
  const Scratch scratch;
  const std::string bad = scratch.write("bad.sh", "--num-layers 2\n--foo 1\n");
  const Ran ran = run_simrun("--import megatron " + bad + " -o " + scratch.file("job.yaml"));
  CHECK(ran.code == 2);
  CHECK(ran.output.find(bad + ":2:1: error: Megatron-LM has no flag '--foo'\n  --foo 1\n  ^\n") !=
        std::string::npos);
  CHECK(scratch.files() == 1);
  CHECK(run_simrun("--import megatron " + scratch.file("none")).code == 2);
  CHECK(run_simrun(llama_job + " --export megatron -o " + llama_job)
            .output.find("this would overwrite the input") != std::string::npos);
  CHECK(run_simrun(llama_job + " --export megatron --execute")
            .output.find("--execute does not go with --export") != std::string::npos);
  CHECK(run_simrun(llama_job + " --export megatron --import megatron").code == 2);
  CHECK(
      run_simrun(llama_job + " -o x").output.find("-o goes with --export, --import, --plan or --calibrate") !=
      std::string::npos);
}

}  // namespace
}  // namespace simrun
