#include "schedules/unlike_stages.h"

#include <catch2/catch.hpp>
#include <set>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "schedules/stage_sizes.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

Job job_of(const std::string& sizes, int gpus, const std::string& layout = "Et|ttL") {
  return job_from(
      "simrun: 1\nmodel: {model_type: llama, num_hidden_layers: 3, hidden_size: 16, num_attention_heads: 4, "
      "num_key_value_heads: 4, intermediate_size: 32, vocab_size: 64}\n"
      "training: {seq_length: 8, micro_batch_size: 4, global_batch_size: 16, precision: bf16}\n"
      "parallelism: {pipeline_model_parallel_layout: '" +
      layout + "', " + sizes +
      "}\ncluster: {from: dgx_h100, nodes: 1, gpus_per_node: " + std::to_string(gpus) + "}\n");
}

}  // namespace

TEST_CASE("ranks that split the batch meet ranks that split tensors: each sends its part of the batch") {
  const std::vector<DeviceMesh> meshes =
      stage_meshes(job_of("pipeline_model_parallel_size: 2, stage_tensor_model_parallel_sizes: [1, 4], "
                          "stage_data_parallel_sizes: [2, 1]",
                          6));
  REQUIRE(meshes.size() == 2);
  CHECK(meshes[0].mesh.axes == std::vector<Axis>{{"tp0", 1}, {"tp1", 1}, {"cp", 1}, {"dp", 2}});
  CHECK(meshes[1].mesh.axes == std::vector<Axis>{{"tp0", 2}, {"tp1", 2}, {"cp", 1}, {"dp", 1}});
  // The innermost two of the four ranks have a half of the batch each.
  const auto [behind_of_before, before_of_behind] = border_between(meshes[0], meshes[1]);
  CHECK(behind_of_before == AxisMap{no_axis, no_axis, 2, 0});
  CHECK(before_of_behind == AxisMap{3, no_axis, 2, no_axis});
  CHECK(partner_places(meshes[0].mesh, meshes[1].mesh, behind_of_before) == std::vector<std::int64_t>{0, 1});
  CHECK(partner_places(meshes[1].mesh, meshes[0].mesh, before_of_behind) ==
        std::vector<std::int64_t>{0, 1, -1, -1});
  CHECK(axes_alone(meshes[0], behind_of_before).empty());
  CHECK(axes_alone(meshes[1], before_of_behind) == std::vector<AxisId>{1});
}

TEST_CASE("in common axes alone stages of 1 x 2 and 4 x 1 ranks have one pair of ranks that exchanges") {
  const std::vector<DeviceMesh> meshes =
      stage_meshes(job_of("pipeline_model_parallel_size: 2, stage_tensor_model_parallel_sizes: [1, 4], "
                          "stage_data_parallel_sizes: [2, 1]",
                          6));
  const auto [behind_of_before, before_of_behind] = border_of_common_axes(meshes[0], meshes[1]);
  CHECK(partner_places(meshes[0].mesh, meshes[1].mesh, behind_of_before) == std::vector<std::int64_t>{0, -1});
  CHECK(partner_places(meshes[1].mesh, meshes[0].mesh, before_of_behind) ==
        std::vector<std::int64_t>{0, -1, -1, -1});
  CHECK(axes_alone(meshes[0], behind_of_before) == std::vector<AxisId>{3});
  CHECK(axes_alone(meshes[1], before_of_behind) == std::vector<AxisId>{1, 0});
}

TEST_CASE("2 tensor-parallel ranks send half the batch each to the 2 x 2 behind them") {
  const std::vector<DeviceMesh> meshes =
      stage_meshes(job_of("pipeline_model_parallel_size: 2, stage_tensor_model_parallel_sizes: [2, 2], "
                          "stage_data_parallel_sizes: [1, 2]",
                          6));
  const auto [behind_of_before, before_of_behind] = border_between(meshes[0], meshes[1]);
  CHECK(partner_places(meshes[0].mesh, meshes[1].mesh, behind_of_before) == std::vector<std::int64_t>{0, 2});
  CHECK(partner_places(meshes[1].mesh, meshes[0].mesh, before_of_behind) ==
        std::vector<std::int64_t>{0, -1, 1, -1});
  // Behind, the part of either data-parallel rank reaches its first tensor-parallel rank.
  CHECK(axes_alone(meshes[1], before_of_behind) == std::vector<AxisId>{0});
}

TEST_CASE("4 data-parallel ranks send to 2 by halves of the batch, which is the outer axis of both") {
  const std::vector<DeviceMesh> meshes =
      stage_meshes(job_of("pipeline_model_parallel_size: 2, stage_data_parallel_sizes: [4, 2]", 6));
  CHECK(meshes[0].mesh.axes == std::vector<Axis>{{"tp", 1}, {"cp", 1}, {"dp0", 2}, {"dp1", 2}});
  CHECK(meshes[1].mesh.axes == std::vector<Axis>{{"tp", 1}, {"cp", 1}, {"dp0", 1}, {"dp1", 2}});
  const auto [behind_of_before, before_of_behind] = border_between(meshes[0], meshes[1]);
  // Ranks 0 and 1 have the quarters of the first half, ranks 2 and 3 those of the second.
  CHECK(partner_places(meshes[0].mesh, meshes[1].mesh, behind_of_before) ==
        std::vector<std::int64_t>{0, -1, 1, -1});
  CHECK(partner_places(meshes[1].mesh, meshes[0].mesh, before_of_behind) == std::vector<std::int64_t>{0, 2});
  const Layout quarters{{{0, {3, 2}, Tiling::contiguous, -1}}, {}, {}};
  const Layout halves{{{0, {3}, Tiling::contiguous, -1}}, {}, {}};
  CHECK(layout_across(quarters, behind_of_before) == halves);
  CHECK(axes_alone(meshes[1], before_of_behind).empty());
}

TEST_CASE("every mix of small stages compiles to a plan without faults, and names its sizes") {
  for (const char* tensor : {"[1, 1, 1]", "[1, 2, 4]", "[4, 2, 1]", "[2, 1, 2]", "[2, 4, 2]"})
    for (const auto& [data, gpus] :
         {std::pair{"[1, 2, 4]", 0}, std::pair{"[4, 2, 1]", 0}, std::pair{"[2, 1, 2]", 0}}) {
      CAPTURE(tensor, data);
      const auto size = [](const char* list, int i) { return list[1 + 3 * i] - '0'; };
      int world = gpus;
      for (int i = 0; i < 3; ++i) world += size(tensor, i) * size(data, i);
      for (const char* more : {"", ", sequence_parallel: true", ", stage_broadcast_chunks: 3"}) {
        const Job job =
            job_of(std::string("pipeline_model_parallel_size: 3, stage_tensor_model_parallel_sizes: ") +
                       tensor + ", stage_data_parallel_sizes: " + data + more,
                   world, "Et|t|tL");
        const Plan plan = compile(job);
        CHECK(lint(plan) == std::vector<std::string>{});
        CHECK(plan.ranks() == world);
        CHECK(ranks_along(plan.stages[1].meshes.front(), "dp") == size(data, 1));
        if (std::string(data) == "[1, 2, 4]") CHECK(ranks_along_text(plan, "dp") == "1,2,4");
      }
    }
}

TEST_CASE("what is broadcast behind a border goes over it in chunks, which tile its buffer") {
  const Plan plan = compile(job_of(
      "pipeline_model_parallel_size: 2, stage_data_parallel_sizes: [1, 2], stage_broadcast_chunks: 3", 3));
  REQUIRE(lint(plan) == std::vector<std::string>{});
  // Four sequences of eight tokens, 16 wide: 512 elements, in 170, 171 and 171.
  for (const Opcode opcode : {Opcode::send, Opcode::recv, Opcode::broadcast}) {
    std::vector<std::int64_t> sizes, offsets, channels;
    for (const Segment& segment : plan.segments)
      for (const Instruction& of : segment.instructions) {
        if (of.opcode != opcode || of.phase != Phase::forward) continue;
        const Buffer& chunk = plan.buffers[opcode == Opcode::recv ? of.outputs.front() : of.inputs.front()];
        sizes.push_back(chunk.elements());
        offsets.push_back(chunk.parent_offset);
        CHECK(plan.buffers[chunk.parent].elements() == 512);
        CHECK(chunk.bytes() == 0);  // the whole's
        channels.push_back(plan.communications[of.communication].channel);
      }
    CHECK(sizes == std::vector<std::int64_t>{170, 171, 171});
    CHECK(offsets == std::vector<std::int64_t>{0, 170, 341});
    if (opcode != Opcode::broadcast)
      CHECK(std::set<std::int64_t>(channels.begin(), channels.end()).size() == 3);
  }
  // Gradients are gathered before they go back to the only rank: whole.
  for (const Segment& segment : plan.segments)
    for (const Instruction& of : segment.instructions)
      if (of.opcode == Opcode::send && of.phase == Phase::backward_input)
        CHECK(plan.buffers[of.inputs.front()].elements() == 512);
}

TEST_CASE("as many chunks as make the last one come first, by the links of the cluster") {
  Job job = job_of("pipeline_model_parallel_size: 2, stage_data_parallel_sizes: [1, 2]", 3);
  job.cluster.nodes = 3;
  job.cluster.gpus_per_node = job.cluster.nics_per_node = 1;
  job.cluster.inter_node = {.bandwidth = 10e9, .latency_s = 1e-6, .efficiency = 1};
  job.cluster.gpu.kernel_launch_s = 3e-6;
  const DeviceMesh behind = stage_meshes(job)[1];
  const std::vector<AxisId> alone =
      axes_alone(behind, border_between(stage_meshes(job)[0], behind).before_of_behind);
  const auto chunks = [&](std::int64_t bytes, std::int64_t elements) {
    return broadcast_chunks(job, behind, {0, 1, bytes, elements, alone});
  };
  // n chunks of 1 us + 1 ms / n over the border, each broadcast in 4 us + 1 ms / n: n + 1 of the slower, less
  // 3 us, are 2,005 us whole, 1,065 us of 16 chunks.
  CHECK(chunks(10'000'000, 5'000'000) == 16);
  // 10 us: of one chunk 11 + 14 = 25 us, of two 6 + 9 x 2 = 24, of three 4.3 + 7.3 x 3 = 26.3.
  CHECK(chunks(100'000, 50'000) == 2);
  CHECK(chunks(1'000, 500) == 1);
  CHECK(chunks(10'000'000, 5) == 5);  // of an element each
  CHECK(broadcast_chunks(job, behind, {0, 1, 10'000'000, 5'000'000, {}}) == 1);
  job.parallelism.stage_broadcast_chunks = 7;
  CHECK(chunks(1'000, 500) == 7);
}

TEST_CASE("sizes that are all alike are the job's own sizes") {
  const Job lists = job_of("pipeline_model_parallel_size: 2, stage_tensor_model_parallel_sizes: [2, 2]", 8);
  CHECK_FALSE(lists.parallelism.has_unlike_stages());
  CHECK(compile(lists).stages ==
        compile(job_of("pipeline_model_parallel_size: 2, tensor_model_parallel_size: 2", 8)).stages);
}

}  // namespace simrun
