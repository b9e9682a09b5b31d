#include <catch2/catch.hpp>
#include <cmath>

#include "schedules/plan_file.h"
#include "tests/cli/parsed_output.h"
#include "tests/cli/run_simrun.h"

namespace simrun {
namespace {

std::vector<std::string> texts(const ConfigNode& node) {
  std::vector<std::string> all;
  for (const ConfigNode& item : node.children) all.push_back(item.text);
  return all;
}

bool is_null(const ConfigNode& node, const std::string& key) {
  return member(node, key).kind == ConfigNode::Kind::null;
}

ConfigNode executed(const std::string& arguments) {
  const Ran ran = run_simrun(arguments + " --execute --json");
  CAPTURE(ran.output);
  REQUIRE(ran.code == 0);
  return member(parsed_json(ran.output), "execute");
}

TEST_CASE("--execute: eight ranks compute what one rank does, in the bytes that were predicted") {
  const Ran ran = run_simrun(tiny_gpt_job + " --execute --json");
  CAPTURE(ran.output);
  REQUIRE(ran.code == 0);
  const ConfigNode json = parsed_json(ran.output);
  CHECK(number(json, "peak_memory_bytes") > 0);  // the simulation's keys are there as ever
  const ConfigNode& run = member(json, "execute");
  CHECK(member(run, "device").text == "cpu");
  CHECK(member(run, "transport").text == "threads");
  CHECK(number(run, "ranks") == 8);
  CHECK(number(run, "steps") == 2);
  // An untrained model of 256 equally likely bytes: log 256 = 5.545.
  REQUIRE(member(run, "loss").children.size() == 2);
  CHECK(std::stod(member(run, "loss").children[0].text) == Approx(std::log(256)).epsilon(0.01));
  REQUIRE(member(run, "reference_loss").children.size() == 2);
  CHECK(number(run, "max_loss_error") <= 1e-5);
  CHECK(number(run, "max_gradient_error") <= 1e-5);
  CHECK(number(run, "max_gradient_error") > 0);  // f32 sums in another order: it was computed twice
  CHECK(is_null(run, "first_tensor"));
  CHECK(is_null(run, "fault"));
  REQUIRE(member(run, "predicted_peak_bytes").children.size() == 8);
  CHECK(texts(member(run, "predicted_peak_bytes")) == texts(member(run, "allocated_peak_bytes")));
  CHECK(number(run, "predicted_step_s") == number(json, "step_time_s"));
  CHECK(number(run, "measured_step_s") > 0);
}

TEST_CASE("--execute --dtype f64: loss, gradients and parameters behind two steps are equal to 1e-10",
          "[long]") {
  const ConfigNode run = executed(tiny_gpt_job + " --dtype f64");
  for (const char* error : {"max_loss_error", "max_gradient_error", "max_parameter_error"}) {
    CAPTURE(error);
    CHECK(number(run, error) <= 1e-10);
  }
  // 8-byte numbers in place of the plan's 4, and token indices of 8 bytes in both.
  const ConfigNode in_f32 = executed(tiny_gpt_job + " --dtype f32 --no-reference");
  const double f64 = std::stod(member(run, "allocated_peak_bytes").children[0].text);
  const double f32 = std::stod(member(in_f32, "allocated_peak_bytes").children[0].text);
  CHECK(f64 < 2 * f32);
  CHECK(f64 > 1.99 * f32);
}

TEST_CASE("--execute: another seed draws another model, the same seed the same bits", "[long]") {
  const auto loss = [](const std::string& flags) {
    return member(executed(tiny_gpt_job + " --steps 1 --no-reference " + flags), "loss").children.at(0).text;
  };
  CHECK(loss("--seed 1") == loss("--seed 1"));
  CHECK(loss("--seed 1") != loss("--seed 2"));
}

TEST_CASE("--execute --device null: memory and messages without numbers, for bf16 jobs too") {
  const ConfigNode run = executed(tiny + " --device null");
  CHECK(number(run, "ranks") == 4);
  CHECK(member(run, "loss").children.empty());
  CHECK(is_null(run, "measured_step_s"));
  CHECK(member(run, "no_reference").text == "the null device computes nothing");
  CHECK(texts(member(run, "predicted_peak_bytes")) == texts(member(run, "allocated_peak_bytes")));
}

TEST_CASE("--execute: a Plan file runs as the job does, with nothing to compare it with") {
  const Scratch scratch;
  const std::string plan = scratch.file("tiny.plan");
  REQUIRE(run_simrun(tiny_gpt_job + " --no-html --plan " + plan).code == 0);
  const ConfigNode run = executed(plan);
  CHECK(member(run, "no_reference").text == "a Plan file has no job that one rank could run");
  CHECK(is_null(run, "reference_loss"));
  CHECK(texts(member(run, "loss")) == texts(member(executed(tiny_gpt_job + " --no-reference"), "loss")));
}

TEST_CASE("--execute: routed tokens take the memory that routing asks for, in parts of a run too") {
  const Scratch scratch;
  const std::string job = scratch.write(
      "experts.yaml",
      "simrun: 1\n"
      "model: {model_type: mixtral, num_hidden_layers: 2, hidden_size: 32, intermediate_size: 64, "
      "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 256, num_local_experts: 4, "
      "num_experts_per_tok: 2}\n"
      "training: {seq_length: 16, micro_batch_size: 1, global_batch_size: 4, precision: bf16}\n"
      "parallelism: {expert_model_parallel_size: 2}\n"
      "cluster: {from: dgx_h100, nodes: 1, gpus_per_node: 2}\n");
  for (const std::string& flags : {std::string(" --dtype f64"), std::string(" --dtype bf16 --no-reference"),
                                   " --steps 3 --save-every 1 --save " + scratch.file("x.ckpt")}) {
    CAPTURE(flags);
    const ConfigNode run = executed(job + flags);
    CHECK(texts(member(run, "predicted_peak_bytes")) == texts(member(run, "allocated_peak_bytes")));
  }
}

TEST_CASE("--execute: ranks whose copies of a parameter part ways are exit 4, with the reason") {
  const Scratch scratch;
  const std::string path = scratch.file("wrong.plan");
  const std::string job = SIMRUN_SOURCE_DIR "/configs/jobs/tiny-gpt-8ranks.yaml --set optimizer.zero_stage=0";
  REQUIRE(run_simrun(job + " --no-html --plan " + path).code == 0);
  Plan plan = read_plan(path);
  // The sum of gradients over data-parallel ranks is taken over the tensor-parallel ones instead.
  int changed = 0;
  for (const Segment& segment : plan.segments)
    for (const Instruction& what : segment.instructions) {
      if (what.opcode != Opcode::all_reduce || what.phase != Phase::reduction) continue;
      Group& group = plan.communications[what.communication].group;
      const std::vector<Axis>& axes = plan.stages[0].meshes[group.mesh].axes;
      if (group.axes.size() != 1 || axes[group.axes[0]].name != "dp") continue;
      for (std::uint8_t axis = 0; axis < axes.size(); ++axis)
        if (axes[axis].name == "tp") group.axes = {axis};
      ++changed;
    }
  REQUIRE(changed > 0);
  const Ran ran = run_simrun(scratch.write("wrong.plan", serialize(plan)) + " --execute --no-html");
  CAPTURE(ran.output);
  CHECK(ran.code == 4);
  CHECK(ran.output.find("NOT AS PLANNED: ranks that hold the same gradient") != std::string::npos);
}

TEST_CASE("--execute: what cannot run is refused before anything runs, at the key that would change it") {
  const Scratch scratch;
  const std::string wide = scratch.write(
      "wide.yaml",
      "simrun: 1\n"
      "model: {from: gpt2}\n"
      "training: {seq_length: 64, micro_batch_size: 1, global_batch_size: 128, precision: bf16}\n"
      "cluster: {from: dgx_a100, nodes: 16}\n");
  const Ran ran = run_simrun(wide + " --execute");
  CAPTURE(ran.output);
  CHECK(ran.code == 2);
  CHECK(ran.output.find("128 ranks; threads run up to 64") != std::string::npos);
  CHECK(scratch.files() == 1);
  const Ran large = run_simrun(SIMRUN_SOURCE_DIR "/configs/jobs/llama3-70b-64xh100.yaml --execute --no-html");
  CAPTURE(large.output);
  CHECK(large.code == 2);
  CHECK(large.output.find("all ranks together take") != std::string::npos);
  CHECK(run_simrun(tiny_gpt_job + " --execute --device cuda").code == 2);
}

TEST_CASE("--execute: flags that go with it are refused without it, and those that do not with it") {
  for (const char* flag : {"--device cpu", "--dtype f32", "--steps 2", "--reference", "--no-reference",
                           "--seed 1", "--learning-rate 0.1"}) {
    CAPTURE(flag);
    const Ran ran = run_simrun(tiny_gpt_job + " " + flag);
    CHECK(ran.code == 2);
    CHECK(ran.output.find(" goes with ") != std::string::npos);
    CHECK(ran.output.find("--execute\n") != std::string::npos);
  }
  for (const char* flags : {"--check", "--print-config", "--sweep training.micro_batch_size=1,2", "--steps 0",
                            "--dtype f16", "--device null --dtype f32", "--learning-rate nan", "--seed -1"}) {
    CAPTURE(flags);
    CHECK(run_simrun(tiny_gpt_job + " --execute " + flags).code == 2);
  }
  CHECK(run_simrun(tiny_gpt_job + " " + tiny_gpt_job + " --execute").code == 2);
}

TEST_CASE("--execute: the terminal's report names the run, the difference and the memory") {
  const Ran ran = run_simrun(tiny_gpt_job + " --execute --no-html");
  CAPTURE(ran.output);
  CHECK(ran.code == 0);
  for (const char* words : {"executed on 8 cpu ranks (threads), f32, 2 steps",
                            "the same model and data without parallelism, 16 microbatches",
                            "on every rank the bytes predicted", "measured here"})
    CHECK(ran.output.find(words) != std::string::npos);
}

}  // namespace
}  // namespace simrun
