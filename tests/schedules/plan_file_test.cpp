#include "schedules/plan_file.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "configs/diagnostics.h"
#include "schedules/compile.h"
#include "schedules/plan_message.h"
#include "tests/jobs.h"
#include "tests/schedules/full_plan.h"
#include "tests/schedules/plan_refusal.h"

namespace simrun {

TEST_CASE("a plan file reads back as the plan that was written") {
  const Plan plan = two_stage_plan();
  CHECK(parse_plan(serialize(plan), "some.plan") == plan);
  CHECK(serialize(parse_plan(serialize(plan), "some.plan")) == serialize(plan));
}

TEST_CASE("the message carries every field, doubles exactly") {
  const Plan plan = plan_with_every_field();
  CHECK(decode_plan(encode_plan(plan)) == plan);
  CHECK(decode_plan(encode_plan(Plan{})) == Plan{});
}

// Frameworks run kernels of their own: a gate beside its product, masks of experts.
TEST_CASE("a plan of every framework reads back as it was written") {
  namespace fs = std::filesystem;
  int plans = 0;
  for (const fs::directory_entry& file : fs::directory_iterator(SIMRUN_SOURCE_DIR "/configs/frameworks"))
    for (const char* model :
         {"llama", "gemma2, num_key_value_heads: 4, sliding_window: 16",
          "mixtral, num_key_value_heads: 4, num_local_experts: 4, num_experts_per_tok: 2"}) {
      CAPTURE(file.path().string(), model);
      const Plan plan = compile(
          job_from("simrun: 1\nmodel: {model_type: " + std::string(model) +
                   ", num_hidden_layers: 2, hidden_size: 64, intermediate_size: 128, num_attention_heads: 4, "
                   "vocab_size: 100}\ntraining: {seq_length: 64, micro_batch_size: 1, global_batch_size: 4, "
                   "precision: "
                   "bf16}\nparallelism: {tensor_model_parallel_size: 2}\ncluster: {from: dgx_a100, nodes: 1, "
                   "gpus_per_node: 4}\nframework: " +
                   file.path().stem().string() + "\n"));
      CHECK(parse_plan(serialize(plan), "some.plan") == plan);
      ++plans;
    }
  CHECK(plans >= 3 * 20);
}

TEST_CASE("a plan file is found by its magic and read from disk") {
  const std::string path = "plan_file_test.plan";
  std::ofstream(path, std::ios::binary) << serialize(two_stage_plan());
  CHECK(is_plan_file(path));
  CHECK(read_plan(path) == two_stage_plan());
  std::ofstream(path, std::ios::binary) << "model_type: gpt\n";
  CHECK_FALSE(is_plan_file(path));
  std::remove(path.c_str());
  CHECK_FALSE(is_plan_file(path));
  CHECK_THROWS_AS(read_plan(path), ConfigError);
}

TEST_CASE("a plan file cut off at any byte is refused") {
  const std::string bytes = serialize(two_stage_plan());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(refusal(bytes.substr(0, size)).empty());
  }
  CHECK(refusal(bytes.substr(0, 20)) == "the plan file is cut off in its header");
  CHECK(refusal(bytes + "x").find("bytes behind its header") != std::string::npos);
}

TEST_CASE("a plan file with any byte altered is refused") {
  const std::string bytes = serialize(two_stage_plan());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    CAPTURE(i);
    std::string altered = bytes;
    altered[i] = static_cast<char>(altered[i] ^ 0x20);
    CHECK_FALSE(refusal(altered).empty());
  }
  std::string altered = bytes;
  altered.back() = static_cast<char>(altered.back() ^ 1);
  CHECK(refusal(altered) == "the plan file was altered: its checksum does not match");
}

TEST_CASE("a plan file without NICs and fabric has a NIC per GPU on a non-blocking fabric") {
  Plan plan = two_stage_plan();
  plan.cluster.nics_per_node = 0;
  plan.cluster.fabric.oversubscription = 0;  // absent
  const Plan read = parse_plan(serialize(plan), "some.plan");
  CHECK(read.cluster.nics_per_node == 4);
  CHECK(read.cluster.fabric == Fabric{});
}

TEST_CASE("200,000 entries are less than 2 MB and read back") {
  Plan plan = two_stage_plan();
  Program& program = plan.programs[0];
  program.entries.clear();
  program.bindings.clear();
  for (Index i = 0; i < 200'000; ++i) {
    program.entries.push_back({i % 12, i, 1, Steps::every, i / 2});
    program.bindings.push_back({.chunk = i % 2, .microbatch = static_cast<std::int32_t>(i / 8)});
  }
  const std::string message = encode_plan(plan);
  CHECK(message.size() < 2'000'000);
  CHECK(decode_plan(message) == plan);
}

}  // namespace simrun
