#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "schedules/compile.h"
#include "sim/pass_level.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

std::int64_t fullest(const Timeline& timeline) {
  std::int64_t most = 0;
  for (const RankTimeline& rank : timeline.ranks) most = std::max(most, rank.peak.bytes);
  return most;
}

void check_equal(const Plan& plan, double within) {
  const Timeline whole = simulate(plan, {.looks_for_contention = false});
  const PassLevelRun passes = PassLevelEngine(pass_level_plan(plan)).run();
  CAPTURE(plan.job.schedule, to_seconds(whole.step), to_seconds(passes.step));
  CHECK(std::abs(to_seconds(passes.step) / to_seconds(whole.step) - 1) <= within);
  CHECK(passes.peak_bytes == fullest(whole));
}

}  // namespace

TEST_CASE(
    "two ranks, two microbatches: the step is the passes one behind the other, with the transfers between") {
  PassLevelPlan plan;
  plan.streams = 8;
  plan.reducing_stream = 3;
  plan.transfers = 4;  // activations and gradients of two microbatches
  const auto pass = [](Picoseconds time, std::int64_t net) {
    return PassLevelSegment{
        .behind = time, .net_bytes = net, .peak_bytes = std::max<std::int64_t>(net, 0) + 1};
  };
  const auto end_of_transfer = [](PassLevelKind kind, std::uint8_t stream) {
    return PassLevelSegment{.kind = kind, .behind = 3, .stream = stream};
  };
  plan.segments = {pass(10, 5),
                   pass(20, -5),
                   end_of_transfer(PassLevelKind::send, 5),
                   end_of_transfer(PassLevelKind::recv, 4),
                   end_of_transfer(PassLevelKind::send, 7),
                   end_of_transfer(PassLevelKind::recv, 6)};
  plan.ranks.resize(2);
  plan.ranks[0].entries = {{0, -1}, {2, 0}, {0, -1}, {2, 1}, {5, 2}, {1, 2}, {5, 3}, {1, 3}};
  plan.ranks[1].entries = {{3, 0}, {0, 0}, {3, 1}, {1, -1}, {4, 2}, {0, 1}, {1, -1}, {4, 3}};
  plan.ranks[0].start_bytes = 100;
  // Rank 1: F 13-23, B 23-43, F 43-53, B 53-73; rank 0's last B 76-96. Rank 0 holds two microbatches.
  const PassLevelRun run = PassLevelEngine(plan).run();
  CHECK(run.step == 96);
  CHECK(run.peak_bytes == 100 + 2 * 5 + 1);
}

TEST_CASE("pass by pass the step and the peak of small jobs are the whole engine's within 0.1 %", "[long]") {
  struct Shape {
    int tensor, pipeline, virtual_stages;
    const char* schedule;
  };
  const std::vector<Shape> shapes = {
      {1, 1, 1, "1f1b"},  {8, 1, 1, "1f1b"},      {1, 2, 1, "1f1b"},
      {2, 4, 1, "1f1b"},  {8, 4, 1, "1f1b"},      {2, 4, 2, "interleaved_1f1b"},
      {1, 8, 1, "gpipe"}, {2, 4, 1, "zb_h1"},     {4, 2, 4, "interleaved_1f1b"},
      {2, 4, 2, "zb_v"},  {1, 4, 2, "looped_bfs"}};
  for (const Shape& shape : shapes)
    for (const char* recompute : {"none", "selective", "full"})
      for (const int zero_stage : {0, 1})
        for (const char* overlaps : {"true", "false"}) {
          CAPTURE(shape.tensor, shape.pipeline, shape.virtual_stages, recompute, zero_stage, overlaps);
          std::vector<Override> overrides = {
              {"parallelism.pipeline_schedule", shape.schedule},
              {"parallelism.sequence_parallel", shape.tensor > 1 ? "true" : "false"},
              {"parallelism.virtual_pipeline_model_parallel_size", std::to_string(shape.virtual_stages)},
              {"optimizer.zero_stage", std::to_string(zero_stage)},
              {"optimizer.overlap_grad_reduce", overlaps}};
          if (std::string(recompute) != "none") overrides.push_back({"recompute.granularity", recompute});
          // Passes of zb_v end with collectives that the next pass of another stage hides.
          const double within = std::string(shape.schedule) == "zb_v" ? 2e-3 : 1e-3;
          check_equal(compile(job_from(small_gpt(8, shape.tensor, shape.pipeline, 4), overrides)), within);
        }
}

TEST_CASE("pass by pass the published jobs take what the whole engine says", "[long]") {
  for (const char* job :
       {"gpt3-175b-1024xa100", "llama3-70b-64xh100", "llama3-70b-cp2-64xh100", "gpt-1t-3072xa100"}) {
    CAPTURE(job);
    check_equal(compile(preset_job(job)), 1e-3);
  }
}

TEST_CASE(
    "periods that are skipped change nothing: whatever passes take, the step is that of all its events") {
  std::mt19937 random(1);
  int skipped = 0;
  for (const char* schedule : {"1f1b", "gpipe", "interleaved_1f1b", "zb_h1", "looped_bfs"})
    for (const int pipeline : {1, 2, 4}) {
      const bool has_chunks =
          std::string(schedule) == "interleaved_1f1b" || std::string(schedule) == "looped_bfs";
      if (has_chunks && pipeline == 1) continue;
      PassLevelPlan plan = pass_level_plan(
          compile(job_from(small_gpt(8, 1, pipeline, 1),
                           {{"parallelism.pipeline_schedule", schedule},
                            {"parallelism.virtual_pipeline_model_parallel_size", has_chunks ? "2" : "1"},
                            {"optimizer.zero_stage", "1"},
                            {"optimizer.overlap_grad_reduce", "true"},
                            {"optimizer.overlap_param_gather", "true"},
                            {"training.global_batch_size", std::to_string(64 * 8 / pipeline)}})));
      for (int variation = 0; variation < 8; ++variation) {  // each of 32 microbatches
        CAPTURE(schedule, pipeline, variation);
        PassLevelEngine engine(plan);
        const PassLevelRun run = engine.run(), whole = engine.run_whole();
        CHECK(run.step == whole.step);
        CHECK(run.peak_bytes == whole.peak_bytes);
        skipped += run.events < whole.events ? 1 : 0;
        for (PassLevelSegment& segment : plan.segments) {
          segment.behind = 1 + random() % (variation < 3 ? 4 : 1000);
          if (segment.kind != PassLevelKind::pass) continue;
          segment.before = random() % 3;
          segment.earliest_end = variation % 2 == 0 ? random() % 20'000 : 0;
          segment.reductions.assign(random() % 2, {1, static_cast<Picoseconds>(1 + random() % 500)});
        }
      }
    }
  CHECK(skipped >= 10);  // of 104
}

TEST_CASE(
    "a bubble that goes round among the ranks is back where it was after as many microbatches as they hold") {
  // 8 ranks, forward 10, backward 20, transfers 1: a microbatch is back after 8 x 30 + 14, and 8 are under
  // way.
  PassLevelPlan plan =
      pass_level_plan(compile(job_from(small_gpt(8, 1, 8, 1), {{"training.global_batch_size", "1024"}})));
  for (PassLevelSegment& segment : plan.segments) {
    segment.before = 0;
    segment.behind = segment.kind != PassLevelKind::pass ? 1 : segment.net_bytes > 0 ? 10 : 20;
    segment.earliest_end = 0;
    segment.reductions = {};
  }
  PassLevelEngine engine(plan);
  const PassLevelRun run = engine.run(), whole = engine.run_whole();
  CHECK(run.step == whole.step);
  CHECK(run.events < whole.events / 4);
}

TEST_CASE("a pass that ends at its earliest is no sign that the next one moves as far") {
  PassLevelPlan plan;
  plan.streams = 2;
  plan.segments.resize(2);
  plan.segments[0].behind = 10;
  plan.segments[0].earliest_end = 100;
  plan.segments[1].behind = 20;
  plan.ranks.resize(1);
  for (int microbatch = 0; microbatch < 16; ++microbatch)
    plan.ranks[0].entries.insert(plan.ranks[0].entries.end(), {{0, -1}, {1, -1}});
  PassLevelEngine engine(plan);
  const PassLevelRun run = engine.run();
  CHECK(run.step == 100 + 20 + 15 * (10 + 20));
  CHECK(run.events < 32);
  CHECK(engine.run_whole().step == run.step);
}

TEST_CASE("ranks that each wait for what the other sends later are refused") {
  PassLevelPlan plan;
  plan.streams = 4;
  plan.transfers = 2;
  plan.segments.resize(3);
  plan.segments[0].behind = 1;
  plan.segments[1].kind = PassLevelKind::send;
  plan.segments[1].stream = 2;
  plan.segments[2].kind = PassLevelKind::recv;
  plan.segments[2].stream = 3;
  plan.ranks.resize(2);
  plan.ranks[0].entries = {{2, 1}, {0, 1}, {1, 0}};
  plan.ranks[1].entries = {{2, 0}, {0, 0}, {1, 1}};
  CHECK_THROWS_WITH(PassLevelEngine(plan), "the ranks of a pipeline wait for each other");
}

TEST_CASE("1F1B repeats with every microbatch: two passes of each rank, and the two ends of each transfer") {
  // 4 ranks, 32 microbatches: 8 passes and 6 transfers each; a transfer's second end lets it begin.
  const PassLevelOrder order = pass_level_order(
      pass_level_plan(compile(job_from(small_gpt(8, 1, 4, 1), {{"training.global_batch_size", "128"}}))));
  CHECK(order.period.length == 8 + 2 * 6);
  CHECK(order.period.shift == 6);
  CHECK(order.period.times >= 32 - 8);
  CHECK(order.events.size() == 32 * (8 + 2 * 6));
}

TEST_CASE("what is no run of whole passes is refused with the reason") {
  const std::string job = small_gpt(8, 1, 2, 1);
  CHECK_THROWS_WITH(
      pass_level_plan(compile(job_from(
          job, {{"imperfections.jitter", "{distribution: normal, coefficient_of_variation: 0.1}"}}))),
      "ranks of a stage are unequal");
}

TEST_CASE("with ZeRO-2 and 3 passes that wait for reductions are refused, or take what the engine says") {
  int refused = 0;
  for (const int zero_stage : {2, 3})
    for (const int pipeline : {1, 2, 4})
      for (const int sequences : {64, 256}) {
        CAPTURE(zero_stage, pipeline, sequences);
        const Plan plan = compile(
            job_from(small_gpt(8, 1, pipeline, 4), {{"training.global_batch_size", std::to_string(sequences)},
                                                    {"optimizer.zero_stage", std::to_string(zero_stage)},
                                                    {"optimizer.overlap_grad_reduce", "true"}}));
        try {
          check_equal(plan, 1e-3);
        } catch (const std::invalid_argument& error) {
          CHECK(std::string(error.what()) == "passes wait for reductions of gradients");
          ++refused;
        }
      }
  CHECK(refused > 0);
}

}  // namespace simrun
