#include <array>
#include <catch2/catch.hpp>
#include <cstdio>

#include "tests/cli/parsed_output.h"
#include "tests/cli/run_simrun.h"

namespace simrun {
namespace {

std::string unzipped(const std::string& path) {
  std::string bytes;
  std::FILE* pipe = ::popen(("gzip -dc " + path).c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> chunk{};
  for (std::size_t count = 0; (count = std::fread(chunk.data(), 1, chunk.size(), pipe)) > 0;)
    bytes.append(chunk.data(), count);
  CHECK(::pclose(pipe) == 0);
  return bytes;
}

TEST_CASE("program: --trace writes the format that the name asks for, several at once") {
  const Scratch scratch;
  const std::string json = scratch.file("t.json"), zipped = scratch.file("t.json.gz"),
                    perfetto = scratch.file("t.perfetto-trace");
  const Ran ran =
      run_simrun(tiny + " --no-html --trace " + json + " --trace " + zipped + " --trace " + perfetto);
  CAPTURE(ran.output);
  CHECK(ran.code == 0);
  CHECK(scratch.files() == 3);
  CHECK(member(parsed_json(read(json)), "traceEvents").children.size() > 100);
  CHECK(unzipped(zipped) == read(json));
  CHECK(read(perfetto).size() > 1000);
  for (const std::string& path : {json, zipped, perfetto})
    CHECK(ran.output.find("wrote " + path) != std::string::npos);
  const std::string first = read(zipped);
  CHECK(run_simrun(tiny + " --json --trace " + zipped).code == 0);
  CHECK(read(zipped) == first);
}

TEST_CASE("program: a trace whose name tells no format is refused with the three that do") {
  CHECK(run_simrun("a.yaml --trace t.pb").output ==
        "simrun: error: --trace cannot tell the format of 't.pb' from its name\n"
        "  hint: end it in .json or .json.gz (Chrome's trace format) or .perfetto-trace.\n");
}

TEST_CASE("program: --schedule-csv is --print-schedule with commas, one row per pipeline rank") {
  const Scratch scratch;
  CHECK(run_simrun(tiny + " --no-html --schedule-csv " + scratch.file("s.csv")).code == 0);
  CHECK(read(scratch.file("s.csv")) == "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n");
}

TEST_CASE("program: every output is probed before anything runs") {
  const Scratch scratch;
  const std::string job = scratch.write("job.yaml", read(tiny)), same = scratch.file("same.json");
  for (const std::string& outputs :
       {"--trace " + same + " --trace " + same, "--trace " + same + " --schedule-csv " + same,
        "--html " + same + " --trace " + same, "--plan " + same + " --schedule-csv " + same}) {
    CAPTURE(outputs);
    const Ran ran = run_simrun(job + " " + outputs);
    CHECK(ran.code == 2);
    CHECK(ran.output.find("two outputs have this path") != std::string::npos);
  }
  CHECK(run_simrun(job + " --schedule-csv " + job).output.find("this would overwrite the input") !=
        std::string::npos);
  CHECK(run_simrun(job + " --trace " + scratch.file("none/t.json")).output.find("cannot write here") !=
        std::string::npos);
  CHECK(run_simrun("a.yaml --check --schedule-csv s.csv").output ==
        "simrun: error: --schedule-csv does not go with --check\n");
  CHECK(scratch.files() == 1);
}

TEST_CASE("program: --engine chooses, the summary says which ran, another word is refused") {
  for (const char* engine : {"fast", "simgrid"}) {
    const ConfigNode json = parsed_json(run_simrun(tiny + " --json --engine " + engine).output);
    CHECK(member(json, "engine").text == engine);
  }
  CHECK(run_simrun(tiny + " --json --engine auto").output == run_simrun(tiny + " --json").output);
  const Ran wrong = run_simrun("a.yaml --engine exact");
  CHECK(wrong.code == 2);
  CHECK(wrong.output.find("simgrid") != std::string::npos);
}

}  // namespace
}  // namespace simrun
