#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "schedules/backward_split.h"
#include "schedules/compile.h"
#include "schedules/instruction_flops.h"
#include "schedules/lint.h"
#include "schedules/plan_file.h"
#include "tests/jobs.h"

// Pipeline schedules in whole plans: split backward passes and other placements than the loop.
namespace simrun {
namespace {

// 8 layers on 4 pipeline ranks of 2 GPUs, 8 microbatches, gradients reduced over 2 data-parallel ranks.
Job job_with(const std::string& schedule, int virtual_stages, std::vector<Override> overrides = {}) {
  overrides.push_back({"parallelism.pipeline_schedule", schedule});
  overrides.push_back({"parallelism.virtual_pipeline_model_parallel_size", std::to_string(virtual_stages)});
  overrides.push_back({"model.untie_embeddings_and_output_weights", "true"});
  overrides.push_back({"training.global_batch_size", "32"});  // 2 per microbatch x dp 2
  overrides.push_back({"cluster.gpus_per_node", "8"});
  return job_from(small_gpt(8, 1, 4, 1), overrides);
}

struct Case {
  const char* schedule;
  int virtual_stages;
};
const std::vector<Case> cases = {{"1f1b", 1}, {"gpipe", 1},  {"zb_h1", 1},          {"interleaved_1f1b", 2},
                                 {"zb_v", 2}, {"hanayo", 2}, {"interleaved_zb", 2}, {"looped_bfs", 2}};

double executed_flops(const Plan& plan) {
  double flops = 0;
  for (const Program& program : plan.programs)
    for (const Entry& entry : program.entries) flops += segment_flops(plan, plan.segments[entry.segment]);
  return flops;
}

}  // namespace

TEST_CASE("a plan of any schedule and placement is valid and reads back equal") {
  for (const Case& c : cases)
    for (const char* zero : {"0", "1"})
      for (const char* overlap : {"false", "true"}) {
        CAPTURE(c.schedule, zero, overlap);
        const Plan plan =
            compile(job_with(c.schedule, c.virtual_stages,
                             {{"optimizer.zero_stage", zero}, {"optimizer.overlap_grad_reduce", overlap}}));
        CHECK(lint(plan) == std::vector<std::string>{});
        CHECK(parse_plan(serialize(plan), "test.plan") == plan);
      }
}

TEST_CASE("schedules move work in time, they do not change it") {
  const double expected = executed_flops(compile(job_with("1f1b", 1)));
  for (const Case& c : cases) {
    CAPTURE(c.schedule);
    CHECK(executed_flops(compile(job_with(c.schedule, c.virtual_stages))) == Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("the first write of every main gradient overwrites it, all others add to it") {
  for (const Case& c : cases)
    for (const char* recompute : {"none", "selective", "full"}) {
      CAPTURE(c.schedule, recompute);
      const Plan plan =
          compile(job_with(c.schedule, c.virtual_stages, {{"recompute.granularity", recompute}}));
      for (const Program& program : plan.programs) {
        std::set<Index> written;
        for (const Entry& entry : program.entries) {
          const Segment& segment = plan.segments[entry.segment];
          if (segment.kind == PassKind::step || segment.kind == PassKind::communication) continue;
          for (const Instruction& instruction : segment.instructions)
            for (const Index output : instruction.outputs) {
              const Buffer& buffer = plan.buffers[output];
              if (buffer.category != Category::gradients || is_communication(instruction.opcode)) continue;
              REQUIRE(instruction.accumulate == written.contains(output));
              written.insert(output);
            }
        }
        CHECK(!written.empty());
      }
    }
}

TEST_CASE(
    "a split backward pass computes input gradients in I and weight gradients in W, each product once") {
  const Plan whole = compile(job_with("1f1b", 1)), split = compile(job_with("zb_h1", 1));
  std::map<PassKind, double> flops;
  for (const Segment& segment : split.segments)
    if (segment.chunk == 1) flops[segment.kind] = segment_flops(split, segment);
  double full = 0;
  for (const Segment& segment : whole.segments)
    if (segment.chunk == 1 && segment.kind == PassKind::backward) full = segment_flops(whole, segment);
  // Linear layers cost the same for both gradients; attention has input gradients only.
  CHECK(flops[PassKind::backward_input] + flops[PassKind::backward_weight] == Approx(full).epsilon(1e-12));
  CHECK(flops[PassKind::backward_weight] < flops[PassKind::backward_input]);
  CHECK(flops[PassKind::backward_weight] > 0.35 * full);
}

TEST_CASE("in a V nothing is sent at the turn, and one rank holds both ends of the model") {
  const Plan plan = compile(job_with("zb_v", 2));
  REQUIRE(plan.chunks.size() == 8);
  CHECK(plan.chunks[3].pipeline_rank == 3);
  CHECK(plan.chunks[4].pipeline_rank == 3);
  CHECK(plan.chunks[7].pipeline_rank == 0);
  CHECK(plan.chunks[0].embedding);
  CHECK(plan.chunks[7].loss);
  std::set<Index> channels;
  for (const Communication& communication : plan.communications)
    if (communication.peer.pipeline_rank >= 0) channels.insert(communication.channel);
  // 7 borders, activations and gradients each, without the one between stages 3 and 4.
  CHECK(channels.size() == 12);
}

TEST_CASE("tied embeddings on one rank of a V are refused") {
  std::vector<Override> tied = {{"parallelism.pipeline_schedule", "zb_v"},
                                {"parallelism.virtual_pipeline_model_parallel_size", "2"}};
  CHECK_THROWS_WITH(compile(job_from(small_gpt(8, 1, 4, 1), tied)), Catch::Contains("tied embeddings"));
}

}  // namespace simrun
