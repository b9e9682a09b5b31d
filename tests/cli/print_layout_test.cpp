#include <catch2/catch.hpp>
#include <sstream>

#include "tests/cli/run_simrun.h"

namespace simrun {
namespace {

const std::string llama = SIMRUN_SOURCE_DIR "/configs/jobs/llama3-8b-8xh100.yaml";

bool has_line(const std::string& text, const std::string& begin) {
  return text.find("\n" + begin) != std::string::npos;
}

TEST_CASE(
    "--print-layout shows equal layers once, each operator's layout and each collective, in 100 columns") {
  const Ran ran = run_simrun(llama +
                             " --print-layout --set parallelism.tensor_model_parallel_size=4 --set "
                             "parallelism.sequence_parallel=true");
  CAPTURE(ran.output);
  REQUIRE(ran.code == 0);
  CHECK(has_line(ran.output, "layers 1-31\n"));
  CHECK(has_line(ran.output, "  qkv                                batch dp, kv_heads tp\n"));
  // 8192 tokens x 4096 x 2 B, gathered before qkv and scattered behind the attention projection.
  CHECK(has_line(ran.output,
                 "    forward   all_gather     tp (4)       67.11 MB  input_norm: sequence tp -> whole\n"));
  CHECK(has_line(ran.output,
                 "    forward   reduce_scatter tp (4)       67.11 MB  attention_projection: sum over tp -> "
                 "sequence tp\n"));
  CHECK(has_line(ran.output, "  attention_projection               batch dp, kv_heads tp -> sum over tp\n"));
  std::istringstream lines(ran.output);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
}

TEST_CASE("--print-layout --json has the same, with bytes and whole causes") {
  const Ran ran = run_simrun(llama +
                             " --print-layout --json --set parallelism.tensor_model_parallel_size=4 --set "
                             "parallelism.sequence_parallel=false");
  REQUIRE(ran.code == 0);
  CHECK(ran.output.find("\"operation\": \"all_reduce\", \"axes\": \"tp\", \"ranks\": 4, \"bytes\": 67108864, "
                        "\"change\": \"attention_projection: sum over tp -> whole\"") != std::string::npos);
  CHECK(
      ran.output.find("\"cause\": \"attention_projection: batch split over dp, partial sum over tp -> batch "
                      "split over dp for attention_add\"") != std::string::npos);
}

TEST_CASE("a layout section that the model cannot follow is refused with its lines, exit 2") {
  const Scratch scratch;
  const std::string job = scratch.write("job.yaml", read(llama) + "layout:\n  - split: {haeds: tp}\n");
  const Ran ran = run_simrun(job + " --check");
  CAPTURE(ran.output);
  CHECK(ran.code == 2);
  CHECK(ran.output.find("error: the model has no dimension 'haeds'\n    - split: {haeds: tp}\n") !=
        std::string::npos);
  CHECK(ran.output.find("hint: did you mean 'heads'?") != std::string::npos);
  CHECK(run_simrun(llama + " --print-layout --check").code == 2);
}

}  // namespace
}  // namespace simrun
