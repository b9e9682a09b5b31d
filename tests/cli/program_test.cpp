#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "schedules/plan_file.h"
#include "tests/cli/parsed_output.h"
#include "tests/cli/run_simrun.h"

namespace simrun {
namespace {

namespace fs = std::filesystem;

TEST_CASE("program: of packed documents the summary says that MFU counts whole sequences") {
  const std::string packed =
      tiny +
      " --no-html --set training.seq_length=8192 --set 'training.documents={mean: 64, distribution: fixed}'";
  const std::string summary = run_simrun(packed).output;
  CHECK(summary.find("; MFU counts whole sequences, counting only these it is ") != std::string::npos);
  // In JSON their own FLOPs stand beside those of whole sequences.
  const ConfigNode json = parsed_json(run_simrun(packed + " --json").output);
  CHECK(number(member(json, "documents"), "model_flops_per_step") < number(json, "model_flops_per_step"));
}

TEST_CASE("program: --check tells a small job's numbers in units that show them") {
  const Ran ran = run_simrun(tiny_gpt_job + " --check");
  CHECK(ran.code == 0);
  // 9.0597e8 FLOPs of a step / (16 sequences x 64 tokens)
  CHECK(ran.output.find("model_flops_per_token       884.7 kFLOP\n") != std::string::npos);
  CHECK(ran.output.find("parameters  peak KiB\n") != std::string::npos);
  CHECK(ran.output.find(" 0.00\n") == std::string::npos);
}

TEST_CASE("program: a run writes page and Plan whole, and the Plan gives the same summary without the YAML") {
  const Scratch scratch;
  const std::string plan = scratch.file("tiny.plan");
  const Ran first = run_simrun(tiny + " --html " + scratch.file("tiny.html") + " --plan " + plan);
  CHECK(first.code == 0);
  CHECK(first.output.find("bubble") != std::string::npos);
  CHECK(read(scratch.file("tiny.html")).find("</html>") != std::string::npos);
  CHECK(scratch.files() == 2);
  CHECK(run_simrun_in_shell(plan + " --json").output == run_simrun(tiny + " --json").output);
}

TEST_CASE("program: the page lies beside the job unless told otherwise; --json writes none") {
  const Scratch scratch;
  const std::string job = scratch.write("job.yaml", read(tiny));
  CHECK(run_simrun(job + " --json").code == 0);
  CHECK(scratch.files() == 1);
  CHECK(run_simrun(job + " -q").output.empty());
  CHECK(fs::exists(scratch.file("job.html")));
}

TEST_CASE(
    "program: a plan that does not fit exits with 3, says what to change, and writes everything all the "
    "same") {
  const Scratch scratch;
  const Ran ran = run_simrun(tiny + " --set 'cluster.gpu={from: a100_sxm_80gb, memory: 2060 MiB}' --html " +
                             scratch.file("a.html"));
  CAPTURE(ran.output);
  CHECK(ran.code == 3);
  CHECK(ran.output.find("does not fit") != std::string::npos);
  CHECK(ran.output.find("microbatch") != std::string::npos);
  CHECK(ran.output.find("lever") != std::string::npos);
  CHECK(ran.output.find("reserved for context") != std::string::npos);
  CHECK(fs::exists(scratch.file("a.html")));
  const auto with_framework = [&](const std::string& memory) {
    return run_simrun(tiny + " --no-html --set 'cluster.gpu={from: a100_sxm_80gb, memory: " + memory + "}'" +
                      " --set 'framework={from: megatron_core, memory: {context: 1600 MiB}}'");
  };
  const Ran under = with_framework("5017 MiB");
  CAPTURE(under.output);
  CHECK(under.code == 3);
  CHECK(under.output.find("that the framework leaves for it") != std::string::npos);
  const Ran without_room = with_framework("2060 MiB");
  CAPTURE(without_room.output);
  CHECK(without_room.code == 3);
  CHECK(without_room.output.find("2.0 GiB, of which the framework alone needs 4.9 GiB") != std::string::npos);
  CHECK(without_room.output.find(" of 0.0 GiB on pp ") != std::string::npos);
}

TEST_CASE("program: what is wrong with the command line is said in one line, exit 2") {
  for (const char* arguments :
       {"", "--no-such-flag x.yaml", "a.yaml b.yaml", "--open a.yaml", "a.yaml --trace t.json",
        "a.yaml --json --check", "a.yaml --set nonsense", "no-such-file.yaml", "/"}) {
    CAPTURE(arguments);
    const Ran ran = run_simrun(arguments);
    CAPTURE(ran.output);
    CHECK(ran.code == 2);
    CHECK(ran.output.find("error: ") != std::string::npos);
  }
  CHECK(run_simrun("--open a.yaml").output == "simrun: error: --open is not supported yet\n");
  CHECK(run_simrun("--jsn a.yaml").output.find("did you mean '--json'?") != std::string::npos);
}

TEST_CASE(
    "program: an output that cannot be written is found before anything runs, and nothing is left behind") {
  const Scratch scratch;
  const std::string job = scratch.write("job.yaml", read(tiny));
  const Ran ran = run_simrun(job + " --html " + scratch.file("none/page.html") + " --plan " + job);
  CAPTURE(ran.output);
  CHECK(ran.code == 2);
  CHECK(ran.output.find("cannot write here: No such file or directory") != std::string::npos);
  CHECK(ran.output.find("this would overwrite the input") != std::string::npos);
  CHECK(scratch.files() == 1);
}

TEST_CASE("program: no output replaces a file that was read, another output, a device or a link") {
  const Scratch scratch;
  const std::string model = scratch.write("m.yaml", read(SIMRUN_SOURCE_DIR "/configs/models/gpt2.yaml"));
  const std::string job =
      scratch.write("job.yaml",
                    "simrun: 1\n"
                    "model: {from: m.yaml}\n"
                    "training: {seq_length: 64, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
                    "cluster: {from: dgx_h100, nodes: 1}\n");
  CHECK(run_simrun(job + " --no-html --plan " + model).output.find("this would overwrite the input") !=
        std::string::npos);
  const std::string twice = scratch.file("x");
  CHECK(run_simrun(job + " --html " + twice + " --plan " + twice).output.find("two outputs have this path") !=
        std::string::npos);
  fs::create_symlink("real.html", scratch.file("link.html"));
  CHECK(run_simrun(job + " --html " + scratch.file("link.html")).code == 0);
  CHECK(fs::is_symlink(scratch.file("link.html")));
  CHECK(fs::is_regular_file(scratch.file("real.html")));
  const std::string pipe = scratch.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(run_simrun(job + " --html " + pipe).output.find("it is not a regular file") != std::string::npos);
  CHECK(run_simrun(pipe).output.find("it is not a regular file") != std::string::npos);
  CHECK(fs::is_fifo(pipe));
}

TEST_CASE("program: a full standard output is an error") {
  CHECK(run_simrun(tiny + " --json >/dev/full").code == 2);
}

TEST_CASE("program: a step too long for 64-bit picoseconds is refused, not wrapped around", "[long]") {
  const Ran ran = run_simrun(tiny +
                             " --json --set 'cluster.gpu={from: a100_sxm_80gb, memory_bandwidth: 1 MB/s, "
                             "memory_efficiency: 0.01}' --set training.global_batch_size=1000000 "
                             "--set model.hidden_size=16384");
  CAPTURE(ran.output);
  CHECK(ran.code == 2);
  CHECK(ran.output.find("too long to simulate") != std::string::npos);
}

TEST_CASE("program: a truncated, altered or newer Plan file is refused") {
  const Scratch scratch;
  const std::string path = scratch.file("a.plan");
  REQUIRE(run_simrun(tiny + " --no-html --plan " + path).code == 0);
  const std::string whole = read(path);
  std::string altered = whole, newer = whole;
  altered[whole.size() / 2] = static_cast<char>(altered[whole.size() / 2] ^ 1);
  newer[8] = static_cast<char>(plan_format_version + 1);  // the format version follows the 8-byte magic
  for (const std::string& bytes : {whole.substr(0, whole.size() / 2), whole.substr(0, 10), altered, newer}) {
    const Ran ran = run_simrun(scratch.write("bad.plan", bytes));
    CAPTURE(ran.output);
    CHECK(ran.code == 2);
    CHECK(ran.output.find("bad.plan") != std::string::npos);
    CHECK(!fs::exists(scratch.file("bad.html")));
  }
}

TEST_CASE("program: every error of a job is reported in one run, with its place") {
  const Scratch scratch;
  const std::string job = scratch.write(
      "bad.yaml",
      "simrun: 1\n"
      "model: {from: models/gpt2.yaml}\n"
      "training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 7, precision: bf16}\n"
      "parallelism: {tensor_model_paralel_size: 2, cp_comm_type: ring}\n"
      "cluster: {from: dgx_h100, nodes: 1, inter_node: {bandwidth: 50}}\n");
  const Ran ran = run_simrun(job);
  CAPTURE(ran.output);
  CHECK(ran.code == 2);
  CHECK(ran.output.find("bad.yaml:4:15: error: unknown key 'tensor_model_paralel_size'") !=
        std::string::npos);
  CHECK(ran.output.find("did you mean 'tensor_model_parallel_size'?") != std::string::npos);
  CHECK(ran.output.find("bad.yaml:4:59: error: 'parallelism.cp_comm_type' cannot be 'ring'") !=
        std::string::npos);
  CHECK(ran.output.find("bad.yaml:5:") != std::string::npos);
  CHECK(ran.output.find("nothing was run.") != std::string::npos);
  CHECK(scratch.files() == 1);
}

TEST_CASE("program: --print-schedule, --check and --print-config print and write nothing") {
  const Scratch scratch;
  const std::string job = scratch.write("job.yaml", read(tiny));
  const Ran schedule = run_simrun(job + " --print-schedule");
  CHECK(schedule.code == 0);
  CHECK(schedule.output == "0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3\n1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3\n");
  CHECK(run_simrun(job + " --check").output.find("tokens_per_step") != std::string::npos);
  const std::string effective = scratch.write("job2.yaml", run_simrun(job + " --print-config").output);
  const std::string sha = "config_sha256";
  const std::string a = run_simrun(job + " --json").output, b = run_simrun(effective + " --json").output;
  CHECK(a.substr(a.find(sha), 90) == b.substr(b.find(sha), 90));
  CHECK(scratch.files() == 2);
}

}  // namespace
}  // namespace simrun
