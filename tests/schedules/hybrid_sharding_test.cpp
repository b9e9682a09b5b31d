#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "tests/jobs.h"

// Data parallelism in two levels: hybrid sharding (HSDP) and the hierarchical all-reduce.
namespace simrun {
namespace {

// 4 layers on 2 nodes of 8 GPUs, all data parallel: 16 ranks, 2 microbatches of 2 sequences each.
Plan plan_with(std::vector<Override> overrides) {
  return compile(job_from(small_gpt(4, 1, 1, 2), overrides));
}

// Of one kind of collective in a step, gradient norm left out: over how many GPUs, how often each bucket on
// average, and how many elements per GPU, in units of the model's parameters N.
struct Volume {
  std::int64_t gpus = 0;
  double elements = 0;
};
std::map<Opcode, Volume> volumes(const Plan& plan) {
  std::map<Opcode, Volume> found;
  const Mesh& mesh = plan.stages[0].meshes[0];
  for (const Entry& entry : plan.programs[0].entries)
    for (const Instruction& what : plan.segments[entry.segment].instructions) {
      if (!is_communication(what.opcode) || what.label == "gradient norm") continue;
      Volume& of = found[what.opcode];
      std::int64_t gpus = 1;
      for (const std::uint8_t axis : plan.communications[what.communication].group.axes)
        gpus *= mesh.axes[axis].size;
      CHECK((of.gpus == 0 || of.gpus == gpus));
      of.gpus = gpus;
      const Index whole = what.opcode == Opcode::all_gather ? what.outputs[0] : what.inputs[0];
      of.elements +=
          static_cast<double>(plan.buffers[whole].elements()) / static_cast<double>(plan.job.parameters);
    }
  return found;
}

void check(const Volume& of, std::int64_t gpus, double elements) {
  CHECK(of.gpus == gpus);
  CHECK(of.elements == Approx(elements).epsilon(0.01));  // padding stays below 1 %
}

}  // namespace

TEST_CASE("HSDP: shards lie over the 8 ranks of an instance, and eighths are summed over 2 instances") {
  for (const char* zero : {"1", "2", "3"}) {
    CAPTURE(zero);
    std::map<Opcode, Volume> of = volumes(
        plan_with({{"optimizer.zero_stage", zero}, {"optimizer.num_distributed_optimizer_instances", "2"}}));
    // ZeRO-1 scatters and gathers N once per step; ZeRO-2 scatters for both microbatches, ZeRO-3 gathers for
    // their 4 passes. The sum over instances is once per step.
    check(of[Opcode::reduce_scatter], 8, *zero == '1' ? 1 : 2);
    check(of[Opcode::all_gather], 8, *zero == '3' ? 4 : 1);
    check(of[Opcode::all_reduce], 2, 1.0 / 8);
  }
}

TEST_CASE("HSDP keeps an eighth of the state where 16 ranks without it keep a sixteenth") {
  const auto optimizer_bytes = [](const char* instances) {
    std::int64_t bytes = 0;
    const Plan plan = plan_with(
        {{"optimizer.zero_stage", "3"}, {"optimizer.num_distributed_optimizer_instances", instances}});
    for (const Buffer& buffer : plan.buffers)
      if (buffer.category == Category::optimizer) bytes += buffer.bytes();
    return static_cast<double>(bytes) / static_cast<double>(plan.job.parameters);
  };
  CHECK(optimizer_bytes("1") == Approx(12.0 / 16).epsilon(0.01));
  CHECK(optimizer_bytes("2") == Approx(12.0 / 8).epsilon(0.01));
  CHECK(optimizer_bytes("16") == Approx(12.0).epsilon(0.01));  // every rank an instance: plain data parallel
}

TEST_CASE("a hierarchical all-reduce scatters in the node, sums eighths between nodes, gathers in the node") {
  std::map<Opcode, Volume> flat = volumes(plan_with({{"optimizer.all_reduce", "flat"}}));
  CHECK(flat.size() == 1);
  check(flat[Opcode::all_reduce], 16, 1);
  std::map<Opcode, Volume> of = volumes(plan_with({{"optimizer.all_reduce", "hierarchical"}}));
  check(of[Opcode::reduce_scatter], 8, 1);
  check(of[Opcode::all_reduce], 2, 1.0 / 8);
  check(of[Opcode::all_gather], 8, 1);
}

TEST_CASE("groups of neighbours: an instance is a node, its replicas have the same place in other nodes") {
  const Plan plan =
      plan_with({{"optimizer.zero_stage", "3"}, {"optimizer.num_distributed_optimizer_instances", "2"}});
  const Mesh& mesh = plan.stages[0].meshes[0];
  // tp 1, cp 1, dp cut into 8 neighbours and 2 of them.
  std::vector<std::int64_t> sizes;
  for (const Axis& axis : mesh.axes)
    if (axis.size > 1) sizes.push_back(axis.size);
  CHECK(sizes == std::vector<std::int64_t>{8, 2});
}

TEST_CASE("two-level data parallelism gives valid plans under every schedule and ZeRO stage") {
  const std::vector<std::pair<const char*, const char*>> schedules = {
      {"1f1b", "1"}, {"zb_h1", "1"},      {"interleaved_1f1b", "2"},
      {"zb_v", "2"}, {"dualpipe_v", "2"}, {"dualpipe", "1"}};
  const std::vector<std::vector<Override>> options = {
      {{"optimizer.all_reduce", "hierarchical"}},
      {{"optimizer.all_reduce", "hierarchical"}, {"optimizer.overlap_grad_reduce", "true"}},
      {{"optimizer.zero_stage", "1"}, {"optimizer.num_distributed_optimizer_instances", "2"}},
      {{"optimizer.zero_stage", "1"},
       {"optimizer.num_distributed_optimizer_instances", "2"},
       {"optimizer.overlap_grad_reduce", "true"},
       {"optimizer.overlap_param_gather", "true"}},
      {{"optimizer.zero_stage", "2"}, {"optimizer.num_distributed_optimizer_instances", "4"}},
      {{"optimizer.zero_stage", "3"}, {"optimizer.num_distributed_optimizer_instances", "2"}},
      {{"optimizer.zero_stage", "3"},
       {"optimizer.num_distributed_optimizer_instances", "2"},
       {"optimizer.no_sync", "true"}}};
  for (const auto& [schedule, virtual_stages] : schedules)
    for (std::vector<Override> overrides : options) {
      if (std::string(schedule) == "dualpipe" && overrides[0].value > "1" && overrides[0].value < "4")
        continue;
      CAPTURE(schedule, overrides[0].value, overrides.size());
      overrides.push_back({"parallelism.pipeline_schedule", schedule});
      overrides.push_back({"parallelism.virtual_pipeline_model_parallel_size", virtual_stages});
      overrides.push_back({"parallelism.sequence_parallel", "true"});
      overrides.push_back({"model.untie_embeddings_and_output_weights", "true"});
      // tp 2 x dp 8: four data-parallel ranks in a node, two nodes per stage.
      CHECK(lint(compile(job_from(small_gpt(8, 2, 2, 4), overrides))) == std::vector<std::string>{});
    }
}

TEST_CASE("instances that do not divide dp, and hierarchies without two levels, are refused") {
  const auto refusal = [](const std::vector<Override>& overrides) -> std::string {
    try {
      job_from(small_gpt(4, 1, 1, 2), overrides);
    } catch (const ConfigError& error) {
      return error.diagnostics().front().message + "; " + error.diagnostics().front().hint;
    }
    return "accepted";
  };
  CHECK(refusal({{"optimizer.zero_stage", "3"}, {"optimizer.num_distributed_optimizer_instances", "3"}}) ==
        "16 data-parallel ranks do not divide over 3 instances of the optimizer; 1, 2, 4, 8 and 16 do.");
  CHECK(refusal({{"optimizer.num_distributed_optimizer_instances", "2"}}) ==
        "2 instances need zero_stage 1, 2 or 3; without ZeRO every data-parallel rank is an instance.");
  CHECK(
      refusal({{"optimizer.zero_stage", "1"}, {"optimizer.all_reduce", "hierarchical"}}) ==
      "zero_stage 1 has no all-reduce to cut; its hierarchical form is num_distributed_optimizer_instances: "
      "one per node.");
  CHECK(refusal({{"optimizer.all_reduce", "hierarchical"}, {"cluster.nodes", "1"}}) ==
        "hierarchical needs two or more data-parallel ranks in each of two or more nodes, not 8 ranks of "
        "tensor "
        "x context 1 on nodes of 8 GPUs; flat does.");
}

}  // namespace simrun
