#include <catch2/catch.hpp>

#include "tests/cli/parsed_output.h"
#include "tests/cli/run_simrun.h"

namespace simrun {
namespace {

const std::string sample = SIMRUN_SOURCE_DIR "/tests/data/validation/sample.csv";
const std::string one_row = "--validate " + sample + " --filter id=kort-0001 ";

TEST_CASE("program: measurements are validated, filtered and written as CSV, page and JSON") {
  const Scratch scratch;
  const std::string csv = scratch.file("rows.csv"), page = scratch.file("rows.html");
  const Ran ran = run_simrun(one_row + "--csv " + csv + " --html " + page);
  CHECK(ran.code == 0);
  CHECK(ran.output.find("1 of 1 rows scored") != std::string::npos);
  CHECK(read(csv).starts_with(
      "id,source,group,set,run,counts,metric,measured_value,predicted,error,status,why,assumed"));
  CHECK(read(csv).find(
            "\nkort-0001,Korthikanti et al. (arXiv 2205.05198) Table 5,kort,,r1,1,iter_time_s,1.42,") !=
        std::string::npos);
  CHECK(read(page).find("href=\"#job-0\"") != std::string::npos);
  CHECK(read(page).find("id=\"job-0\"") != std::string::npos);
  CHECK(read(page).find("hidden_size: 6144") != std::string::npos);

  const ConfigNode scores = parsed_json(run_simrun(one_row + "--json").output);
  CHECK(member(member(member(scores, "sources"), "kort"), "time").find("mape") != nullptr);
}

TEST_CASE("program: --set holds for every row's job") {
  const Scratch scratch;
  const auto first_step = [&](const std::string& flags) {
    const std::string path = scratch.file("rows" + std::to_string(scratch.files()) + ".csv");
    REQUIRE(run_simrun(one_row + flags + " -q --csv " + path).code == 0);
    return read(path);
  };
  CHECK(first_step("") != first_step("--set cluster.gpu.matmul_efficiency=0.4"));
}

TEST_CASE("program: a table without a header is told so once, with the columns that it should have") {
  const Scratch scratch;
  const Ran ran = run_simrun("--validate " + scratch.write("none.csv", "a,b,c\n1,2,3\n"));
  CHECK(ran.code == 2);
  CHECK(ran.output.find("none.csv:1:1: error: the first line names no column of a table of measurements\n") !=
        std::string::npos);
  CHECK(ran.output.find("hint: its columns are id, source, hardware, ") != std::string::npos);
  CHECK(ran.output.find("1 error; nothing was run.") != std::string::npos);
}

TEST_CASE(
    "program: a wrong file, header, filter or company of --validate is refused; no scored row is exit 2") {
  const Scratch scratch;
  CHECK(run_simrun("--validate " + scratch.file("none.csv")).output.find("cannot read this file") !=
        std::string::npos);
  CHECK(run_simrun("--validate " + scratch.write("half.csv", "id,source\n")).code == 2);
  const Ran filter = run_simrun("--validate " + sample + " --filter modle=x --filter tp");
  CHECK(filter.code == 2);
  CHECK(filter.output.find("did you mean 'model'?") != std::string::npos);
  CHECK(filter.output.find("a filter is COLUMN=VALUE") != std::string::npos);
  CHECK(run_simrun("--filter tp=1 " + tiny).output.find("--filter goes with --fit or --validate") !=
        std::string::npos);
  CHECK(run_simrun(tiny + " --validate " + sample).output.find("--validate takes no job") !=
        std::string::npos);
  CHECK(run_simrun("--validate " + sample + " --sweep training.micro_batch_size=1,2").code == 2);
  CHECK(run_simrun("--validate " + sample + " --csv " + sample).output.find("overwrite") !=
        std::string::npos);
  const Ran unknown = run_simrun("--validate " + sample + " --set modle.layers=1");
  CHECK(unknown.code == 2);
  CHECK(unknown.output.find("unknown section 'modle'") != std::string::npos);
  CHECK(unknown.output.find("rows scored") == std::string::npos);
  const Ran none = run_simrun("--validate " + sample + " --filter source=kortt");
  CHECK(none.code == 2);
  CHECK(none.output.find("has source 'kortt'") != std::string::npos);
  CHECK(none.output.find("did you mean 'kort'?") != std::string::npos);
  CHECK(run_simrun("--validate " + sample + " --filter source=kort --filter id=kort-0001 -q").code == 0);
}

TEST_CASE("program: error bands are not written over where no row could be scored") {
  const Scratch scratch;
  const std::string bands = scratch.write("bands.yaml", "as it was");
  const Ran ran = run_simrun(one_row + "--set cluster.gpu.peak_flops.fp16=wrong --bands " + bands);
  CAPTURE(ran.output);
  CHECK(ran.code == 2);
  CHECK(ran.output.find("cluster.gpu.peak_flops.fp16") != std::string::npos);
  CHECK(read(bands) == "as it was");
}

TEST_CASE("program: a device is fitted to the rows that ran on it and written as part of its file",
          "[long]") {
  const Scratch scratch;
  const std::string fit = "--fit " + sample + " --filter id=kort-0001 ", out = scratch.file("a100.yaml");
  const Ran ran = run_simrun(fit + "--device a100_sxm_80gb --coefficients " + out);
  CHECK(ran.code == 0);
  CHECK(ran.output.find("on 1 rows of 1 sources") != std::string::npos);
  CHECK(ran.output.find("no other source to leave it to") != std::string::npos);
  CHECK(read(out).find("kernels:\n  sustained: ") != std::string::npos);
  const Ran elsewhere = run_simrun(fit + "--device h100_sxm");
  CHECK(elsewhere.code == 2);
  CHECK(elsewhere.output.find("rows of this file ran on a100_sxm_80gb") != std::string::npos);
  const Ran other_words = run_simrun(fit + "--device A100-SXM-80GB");
  CHECK(other_words.code == 0);
  CHECK(other_words.output == run_simrun(fit + "--device a100_sxm_80g").output);
  const Ran unknown = run_simrun(fit + "--device a100_sxm_80gbs");
  CHECK(unknown.code == 2);
  CHECK(unknown.output.find("there is no GPU 'a100_sxm_80gbs'") != std::string::npos);
  CHECK(unknown.output.find("did you mean 'a100_sxm_80gb'?") != std::string::npos);
  for (const char* wrong : {"", "--device a100_sxm_80gb --bands x", "--device a100_sxm_80gb --validate y",
                            "--device a100_sxm_80gb --dtype f32"}) {
    CAPTURE(wrong);
    CHECK(run_simrun(fit + wrong).code == 2);
  }
  CHECK(run_simrun("--coefficients x --validate " + sample).output ==
        "simrun: error: --coefficients does not go with --validate\n  hint: it goes with --fit.\n");
}

TEST_CASE("program: nothing is fitted to rows of several kinds of GPU, which are pointed at") {
  const Scratch scratch;
  const std::string groups =
      " --set 'cluster={gpus_per_node: 8, intra_node: {latency: 2.7 us}, inter_node: {bandwidth: 50 Gb/s, "
      "latency: 30 us}, node_groups: {fast: {nodes: 4, gpu: v100_sxm2_32gb}, slow: {nodes: 4, gpu: "
      "p100_sxm2}}}'";
  const std::string fit = "--fit " + sample + " --filter id=sc21-0003 ", out = scratch.file("v100.yaml");
  for (const char* device : {"v100_sxm2_32gb", "p100_sxm2"}) {
    const Ran ran = run_simrun(fit + "--device " + device + groups + " --coefficients " + out);
    CAPTURE(ran.output);
    CHECK(ran.code == 2);
    CHECK(ran.output.find(sample + ":2:1: error: this row ran on 32 v100_sxm2_32gb + 32 p100_sxm2") !=
          std::string::npos);
    CHECK(ran.output.find("hint: --filter") != std::string::npos);
    CHECK(read(out).empty());
  }
  const Ran elsewhere = run_simrun(fit + "--device t4" + groups);
  CHECK(elsewhere.output.find("rows of this file ran on 32 v100_sxm2_32gb + 32 p100_sxm2") !=
        std::string::npos);
}

}  // namespace
}  // namespace simrun
