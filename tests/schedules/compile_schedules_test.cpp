#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "schedules/backward_split.h"
#include "schedules/compile.h"
#include "schedules/instruction_flops.h"
#include "schedules/lint.h"
#include "schedules/pipeline_schedule.h"
#include "schedules/plan_file.h"
#include "tests/jobs.h"

// Pipeline schedules in whole plans: split backward passes and other placements than the loop.
namespace simrun {
namespace {

// 8 layers on 4 pipeline ranks of 2 GPUs, 8 microbatches, gradients reduced over 2 data-parallel ranks.
Job job_with_schedule(const std::string& schedule, int virtual_stages, std::vector<Override> overrides = {}) {
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
const std::vector<Case> cases = {
    {"1f1b", 1},     {"gpipe", 1},   {"zb_h1", 1},          {"interleaved_1f1b", 2},
    {"zb_v", 2},     {"hanayo", 2},  {"interleaved_zb", 2}, {"looped_bfs", 2},
    {"dualpipe", 1}, {"chimera", 1}, {"dualpipe_v", 2},     {"interleaved_1f1b_overlap", 2}};

double executed_flops(const Plan& plan) {
  double flops = 0;
  for (const Program& program : plan.programs)
    for (const Entry& entry : program.entries) flops += segment_flops(plan, plan.segments[entry.segment]);
  return flops;
}

}  // namespace

TEST_CASE("a plan of any schedule and placement is valid and reads back equal", "[long]") {
  for (const Case& c : cases)
    for (const char* zero : {"0", "1"})
      for (const char* overlap : {"false", "true"}) {
        CAPTURE(c.schedule, zero, overlap);
        const Plan plan = compile(
            job_with_schedule(c.schedule, c.virtual_stages,
                              {{"optimizer.zero_stage", zero}, {"optimizer.overlap_grad_reduce", overlap}}));
        CHECK(lint(plan) == std::vector<std::string>{});
        CHECK(parse_plan(serialize(plan), "test.plan") == plan);
      }
}

TEST_CASE("every schedule that a job may name gives a valid plan for the sizes that it accepts", "[long]") {
  int plans = 0, refusals = 0;
  for (const ScheduleEntry& entry : pipeline_schedules()) {
    if (entry.name == "seq1f1b" || entry.name == "pipedream") continue;
    for (const int ranks : {2, 3, 4})
      for (const int virtual_stages : {1, 2, 4})
        for (const int microbatches : {2, 4, 6, 8}) {
          CAPTURE(entry.name, ranks, virtual_stages, microbatches);
          Job job = job_from(small_gpt(48, 1, 1, 1));
          Parallelism& parallelism = job.parallelism;
          parallelism.pipeline_schedule = entry.name;
          parallelism.pipeline_model_parallel_size = ranks;
          parallelism.virtual_pipeline_model_parallel_size = virtual_stages;
          parallelism.data_parallel_size = 1;
          job.training.global_batch_size = job.training.micro_batch_size * microbatches;
          job.model.num_layers = 12;
          const int stages = ranks * virtual_stages;
          parallelism.stages.assign(static_cast<std::size_t>(stages), {});
          for (int layer = 0; layer < 12; ++layer)
            ++parallelism.stages[static_cast<std::size_t>(layer % stages)].layers;
          parallelism.stages.front().embedding = true;
          parallelism.stages.back().loss = true;
          PipelineShape shape;
          shape.ranks = ranks;
          shape.virtual_stages = virtual_stages;
          shape.microbatches = microbatches;
          const bool other_count = stage_count(entry.placement, ranks, virtual_stages) != stages;
          if (stages > 12 || other_count || !entry.refusal(shape).empty()) {
            CHECK_THROWS_AS(compile(job), std::invalid_argument);
            ++refusals;
            continue;
          }
          CHECK(lint(compile(job)) == std::vector<std::string>{});
          ++plans;
        }
  }
  CHECK(plans > 200);
  CHECK(refusals > 200);
}

TEST_CASE("schedules move work in time, they do not change it") {
  const double expected = executed_flops(compile(job_with_schedule("1f1b", 1)));
  for (const Case& c : cases) {
    CAPTURE(c.schedule);
    CHECK(executed_flops(compile(job_with_schedule(c.schedule, c.virtual_stages))) ==
          Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("the first write of every main gradient overwrites it, all others add to it") {
  for (const Case& c : cases)
    for (const char* recompute : {"none", "selective", "full"}) {
      CAPTURE(c.schedule, recompute);
      const Plan plan =
          compile(job_with_schedule(c.schedule, c.virtual_stages, {{"recompute.granularity", recompute}}));
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
  const Plan whole = compile(job_with_schedule("1f1b", 1)), split = compile(job_with_schedule("zb_h1", 1));
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
  const Plan plan = compile(job_with_schedule("zb_v", 2));
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

TEST_CASE("tied embeddings are one parameter on a rank that holds both ends of the model") {
  // Copies of the word embeddings in the plan, and reductions of theirs alone.
  const auto copies = [](const char* schedule, const char* virtual_stages) {
    const Plan plan = compile(job_from(
        small_gpt(8, 1, 4, 1), {{"parallelism.pipeline_schedule", schedule},
                                {"parallelism.virtual_pipeline_model_parallel_size", virtual_stages}}));
    CHECK(lint(plan) == std::vector<std::string>{});
    int embeddings = 0;
    for (const Buffer& buffer : plan.buffers)
      if (buffer.category == Category::weights && buffer.parent != no_index &&
          buffer.name.find("word_embedding") != std::string::npos)
        ++embeddings;
    int summed = 0;
    for (const Segment& segment : plan.segments)
      for (const Instruction& instruction : segment.instructions)
        summed += instruction.label == "tied embedding gradients" ? 1 : 0;
    return std::array{embeddings, summed};
  };
  CHECK(copies("1f1b", "1") == std::array{2, 2});  // first and last rank sum their copies
  CHECK(copies("zb_v", "2") == std::array{1, 0});  // rank 0 has both ends
  // Both copies of stage 0 and of stage 3 lie on ranks 0 and 3: one parameter each, summed like all others.
  CHECK(copies("dualpipe", "1") == std::array{2, 0});
}

TEST_CASE("bidirectional schedules hold every stage on two ranks and sum the gradients of the pair") {
  for (const char* schedule : {"dualpipe", "chimera"})
    for (const char* zero : {"0", "1"})
      for (const char* overlap : {"false", "true"}) {
        CAPTURE(schedule, zero, overlap);
        const Plan plan = compile(job_with_schedule(
            schedule, 1, {{"optimizer.zero_stage", zero}, {"optimizer.overlap_grad_reduce", overlap}}));
        REQUIRE(plan.chunks.size() == 8);
        std::map<std::int32_t, std::set<std::int32_t>> ranks;
        for (const Chunk& chunk : plan.chunks) ranks[chunk.stage].insert(chunk.pipeline_rank);
        CHECK(ranks[0] == std::set<std::int32_t>{0, 3});
        CHECK(ranks[1] == std::set<std::int32_t>{1, 2});
        CHECK(ranks[2] == std::set<std::int32_t>{1, 2});
        // Every rank reduces two stages' gradients over 2 pipeline ranks x 2 data-parallel ranks.
        for (const Program& program : plan.programs) {
          int reductions = 0;
          for (const Entry& entry : program.entries)
            for (const Instruction& instruction : plan.segments[entry.segment].instructions) {
              if (instruction.label != "gradient reduction") continue;
              const Group& group = plan.communications[instruction.communication].group;
              const std::int32_t other = 3 - program.pipeline_rank;
              CHECK(group.pipeline_ranks ==
                    std::vector<std::int32_t>{std::min(program.pipeline_rank, other),
                                              std::max(program.pipeline_rank, other)});
              CHECK(group.axes.size() == 1);
              CHECK(instruction.opcode ==
                    (std::string(zero) == "1" ? Opcode::reduce_scatter : Opcode::all_reduce));
              ++reductions;
            }
          // With overlap the 52 M word embeddings are more than a bucket: another one behind it.
          const bool has_embedding = program.pipeline_rank == 0 || program.pipeline_rank == 3;
          CHECK(reductions == (has_embedding && std::string(overlap) == "true" ? 3 : 2));
        }
      }
}

TEST_CASE("with two copies of every stage ZeRO-1 divides the optimizer state by twice the ranks") {
  const auto optimizer_bytes = [](const Plan& plan, std::int32_t rank) {
    std::int64_t bytes = 0;
    std::set<Index> counted;
    for (const Entry& entry : plan.programs[static_cast<std::size_t>(rank)].entries)
      for (const Instruction& instruction : plan.segments[entry.segment].instructions)
        for (const Index output : instruction.outputs)
          if (plan.buffers[output].category == Category::optimizer && counted.insert(output).second)
            bytes += plan.buffers[output].bytes();
    return static_cast<double>(bytes);
  };
  const Plan one = compile(job_with_schedule("1f1b", 1, {{"optimizer.zero_stage", "1"}}));
  const Plan two = compile(job_with_schedule("dualpipe", 1, {{"optimizer.zero_stage", "1"}}));
  // Rank 1 holds stage 1, or stages 1 and 2: twice the parameters over twice the ranks.
  CHECK(optimizer_bytes(two, 1) == Approx(optimizer_bytes(one, 1)).epsilon(1e-3));
  // Of the stages 0 and 3 that ranks 0 and 3 hold, and of 1 and 2.
  std::set<std::string> pieces;
  for (const Buffer& buffer : two.buffers)
    if (buffer.name.ends_with("shard")) pieces.insert(buffer.split.front());
  CHECK(pieces == std::set<std::string>{"pp:0+3,dp", "pp:1+2,dp"});
}

TEST_CASE("an overlapped pair has the instructions of both passes, each in its order") {
  const Plan plan =
      compile(job_from(small_gpt(8, 2, 4, 1), {{"parallelism.pipeline_schedule", "dualpipe"},
                                               {"parallelism.sequence_parallel", "true"},
                                               {"model.untie_embeddings_and_output_weights", "true"},
                                               {"training.global_batch_size", "16"}}));
  REQUIRE(lint(plan) == std::vector<std::string>{});
  int pairs = 0;
  for (const Program& program : plan.programs)
    for (const Entry& entry : program.entries) {
      const Segment& pair = plan.segments[entry.segment];
      if (pair.kind != PassKind::overlapped) continue;
      ++pairs;
      REQUIRE(entry.binding_count == 2);
      std::array<std::vector<std::string>, 2> labels;
      int turns = 0;
      for (std::size_t i = 0; i < pair.instructions.size(); ++i) {
        labels[pair.instructions[i].binding].push_back(pair.instructions[i].label);
        turns += i > 0 && pair.instructions[i].binding != pair.instructions[i - 1].binding ? 1 : 0;
      }
      // Two layers of four collectives each in the forward pass, behind every one of which the backward runs.
      CHECK(turns >= 15);
      const auto forward = std::find_if(plan.segments.begin(), plan.segments.end(), [&](const Segment& s) {
        return s.kind == PassKind::forward && s.chunk == program.bindings[entry.first_binding].chunk;
      });
      std::vector<std::string> expected;
      for (const Instruction& instruction : forward->instructions) expected.push_back(instruction.label);
      CHECK(labels[0] == expected);
    }
  CHECK(pairs > 0);
}

}  // namespace simrun
