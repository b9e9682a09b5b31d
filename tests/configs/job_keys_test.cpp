#include <algorithm>
#include <catch2/catch.hpp>

#include "configs/load_job.h"
#include "configs/presets.h"

// What a program that offers a choice of values asks the loader.
namespace simrun {
namespace {

const std::string presets = SIMRUN_SOURCE_DIR "/configs";

JobKeys keys_of(const std::string& training) {
  return job_keys(
      "simrun: 1\nmodel: {from: gpt2}\ntraining: {" + training +
          "}\nparallelism: {pipeline_model_parallel_size: 3}\ncluster: {from: dgx_a100, nodes: 1}\n",
      "job.yaml", {{}, {presets}});
}

}  // namespace

TEST_CASE("a key has its value, written, of a preset or by default, and what else the loader would take") {
  const JobKeys keys =
      keys_of("seq_length: 1024, micro_batch_size: 1, global_batch_size: 8, precision: bf16");
  CHECK(keys.values.at("training.micro_batch_size") == "1");
  CHECK(keys.values.at("optimizer.zero_stage") == "0");
  CHECK(keys.values.at("cluster.gpus_per_node") == "8");
  const KeyRule& stage = keys.rules.at("optimizer.zero_stage");
  CHECK(stage.kind == KeyRule::Kind::integer);
  CHECK(std::pair(stage.least, stage.most) == std::pair<std::int64_t, std::int64_t>(0, 3));
  CHECK(keys.rules.at("parallelism.sequence_parallel").kind == KeyRule::Kind::boolean);
  const std::vector<std::string>& words = keys.rules.at("training.precision").words;
  CHECK(std::ranges::find(words, "bf16") != words.end());
}

TEST_CASE("a job that is wrong has keys all the same; what was refused has a rule and no value") {
  const JobKeys keys =
      keys_of("seq_length: 1024, micro_batch_size: 3, global_batch_size: 8, precision: bf61");
  CHECK(keys.values.count("training.precision") == 0);
  CHECK(keys.rules.count("training.precision") == 1);
  CHECK(keys.values.at("training.micro_batch_size") == "3");  // 8 / 3: wrong together, right alone
  CHECK(keys.values.at("cluster.nodes") == "1");
  CHECK(job_keys("[1, 2]", "job.yaml", {}).rules.empty());
}

TEST_CASE("presets are listed by name, each once, however many folders have it") {
  const std::vector<std::string> names = preset_names("clusters", {presets, presets, "/nowhere"});
  CHECK(std::ranges::is_sorted(names));
  CHECK(std::ranges::count(names, "dgx_h100") == 1);
  CHECK(preset_names("clusters", {}).empty());
}

}  // namespace simrun
