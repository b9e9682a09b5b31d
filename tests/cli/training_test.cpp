#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/cli/parsed_output.h"
#include "tests/cli/run_simrun.h"

namespace simrun {
namespace {

const std::string text = SIMRUN_SOURCE_DIR "/configs/data/public-domain.txt";
const std::string alone =
    tiny_gpt_job +
    " --set cluster.gpus_per_node=1 --set parallelism.tensor_model_parallel_size=1"
    " --set parallelism.pipeline_model_parallel_size=1 --set training.global_batch_size=4";

std::vector<double> losses(const std::string& arguments) {
  const Ran ran = run_simrun(arguments + " --execute --json --no-reference");
  CAPTURE(ran.output);
  REQUIRE(ran.code == 0);
  const ConfigNode json = parsed_json(ran.output);
  std::vector<double> loss;
  for (const ConfigNode& step : member(member(json, "execute"), "loss").children)
    loss.push_back(std::stod(step.text));
  return loss;
}

TEST_CASE("training: the shipped model learns the shipped text", "[long]") {
  const std::vector<double> loss = losses(alone + " --data " + text + " --steps 60 --learning-rate 0.003");
  REQUIRE(loss.size() == 60);
  CHECK(loss.front() == Approx(std::log(256)).epsilon(0.02));
  // Letters as frequent as in English alone are 2.9 nats.
  CHECK(loss.back() < 3.2);
}

TEST_CASE("training: a checkpoint is gone on from in another layout, and --save-every changes nothing",
          "[long]") {
  const Scratch scratch;
  const std::string file = scratch.file("run.ckpt"), f64 = " --dtype f64 --data " + text;
  const std::vector<double> whole = losses(tiny_gpt_job + f64 + " --steps 4");
  CHECK(losses(tiny_gpt_job + f64 + " --steps 4 --save-every 1 --save " + scratch.file("each.ckpt")) ==
        whole);
  losses(tiny_gpt_job + f64 + " --steps 2 --save " + file);
  const std::vector<double> rest = losses(
      tiny_gpt_job + f64 + " --steps 2 --load " + file +
      " --set parallelism.tensor_model_parallel_size=4 --set parallelism.pipeline_model_parallel_size=1"
      " --set optimizer.zero_stage=3");
  REQUIRE(rest.size() == 2);
  for (std::size_t step : {0, 1}) CHECK(rest[step] == Approx(whole[2 + step]).epsilon(1e-12));
  // --load and --save may be one file.
  CHECK(losses(tiny_gpt_job + f64 + " --steps 1 --load " + file + " --save " + file) ==
        std::vector<double>{whole[2]});
  CHECK(losses(tiny_gpt_job + f64 + " --steps 1 --load " + file) == std::vector<double>{whole[3]});
  CHECK(scratch.files() == 2);
}

TEST_CASE("training: what cannot be read, trained on or gone on from is refused before anything runs") {
  const Scratch scratch;
  const std::string file = scratch.file("run.ckpt");
  losses(alone + " --steps 1 --save " + file);
  const std::string whole = read(file);
  struct Case {
    std::string flags, said;
  };
  for (const Case& c :
       {Case{" --data " + scratch.file("none.txt"), "cannot read: "},
        Case{" --data " + scratch.write("short.txt", "too short"), "training.seq_length"},
        Case{" --data " + text + " --set model.vocab_size=100", "model.vocab_size"},
        Case{" --load " + scratch.file("none.ckpt"), "cannot read: "},
        Case{" --load " + scratch.write("cut.ckpt", whole.substr(0, whole.size() / 2)),
             "is cut short or altered"},
        Case{" --load " + text, "is no checkpoint of simrun"},
        Case{" --load " + file + " --set model.hidden_size=96",
             "--set model.hidden_size=96: error: " + file + ": the checkpoint is of another model"},
        Case{" --load " + file + " --set optimizer.name=sgd", "is of another optimizer"},
        Case{" --load " + file + " --seed 1", "--seed does not go with --load"},
        Case{" --save-every 1", "--save-every goes with --save"},
        Case{" --save " + scratch.file("none/x.ckpt"), "cannot write here"},
        Case{" --data " + text + " --save " + text, "this would overwrite the input"},
        Case{" --device null --save " + scratch.file("x.ckpt"), "does not go with --device null"}}) {
    CAPTURE(c.flags);
    const Ran ran = run_simrun(alone + " --execute" + c.flags);
    CAPTURE(ran.output);
    CHECK(ran.code == 2);
    CHECK(ran.output.find(c.said) != std::string::npos);
  }
  CHECK(read(file) == whole);
}

TEST_CASE("training: a full disk is one message, and the checkpoint that was there is whole") {
  const Scratch scratch;
  const std::string file = scratch.file("run.ckpt");
  losses(alone + " --steps 1 --save " + file);
  const std::string whole = read(file);
  // Files of at most 64 blocks of 1 KiB; the checkpoint is a megabyte. As a full disk, the write fails.
  const std::string limited = "sh -c 'trap \"\" XFSZ; ulimit -f 64; exec \"$@\"' sh " SIMRUN_PROGRAM " ";
  const std::string command = "SIMRUN_CONFIGS=" SIMRUN_SOURCE_DIR "/configs " + limited + alone +
                              " --execute --no-reference --json --steps 1 --save " + file + " >/dev/null 2>" +
                              scratch.file("said");
  const int status = std::system(command.c_str());
  CHECK(WEXITSTATUS(status) == 2);
  const std::string said = read(scratch.file("said"));
  CHECK(said.find("cannot write " + file) != std::string::npos);
  CHECK(std::count(said.begin(), said.end(), '\n') == 1);
  CHECK(read(file) == whole);
  CHECK(scratch.files() == 2);  // nothing half written is left
}

TEST_CASE("training: killed at any moment, the checkpoint that is there is whole", "[long]") {
  const Scratch scratch;
  const std::string file = scratch.file("run.ckpt");
  for (int kill_after = 0; kill_after < 5; ++kill_after) {
    const ::pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const std::string command =
          "exec " SIMRUN_PROGRAM " " + alone +
          " --execute --no-reference -q --no-html --steps 1000000 --save-every 1 --save " + file +
          " >/dev/null 2>&1";
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    for (int wait = 0; wait < 600 && !std::filesystem::exists(file); ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::this_thread::sleep_for(std::chrono::milliseconds(37 * kill_after));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    REQUIRE(std::filesystem::exists(file));
    const Ran ran = run_simrun(alone + " --execute --no-reference --json --steps 1 --load " + file);
    CAPTURE(ran.output);
    CHECK(ran.code == 0);
  }
}

}  // namespace
}  // namespace simrun
