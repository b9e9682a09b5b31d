#include "planner/pipeline_costs.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "schedules/pipeline_schedule.h"

namespace simrun {
namespace {

// Of a rank of Megatron-LM's interleaved schedule (Narayanan et al. 2021, section 2.2), pass after pass:
// groups of as many microbatches as there are ranks go through its stages, backward passes through the last
// one first; it runs so many forward passes ahead.
double most_live(int ranks, int rank, int microbatches, const std::vector<double>& stage_bytes) {
  const int stages = static_cast<int>(stage_bytes.size()), passes = microbatches * stages;
  const auto stage_of = [&](int pass) { return pass % (ranks * stages) / ranks; };
  const int ahead = std::min(passes, 2 * (ranks - rank - 1) + (stages - 1) * ranks + 1);
  double live = 0, most = 0;
  for (int forward = 0; forward < passes; ++forward) {
    live += stage_bytes[static_cast<std::size_t>(stage_of(forward))];
    most = std::max(most, live);
    if (const int backward = forward - ahead + 1; backward >= 0)
      live -= stage_bytes[static_cast<std::size_t>(stages - 1 - stage_of(backward))];
  }
  return most;
}

}  // namespace

TEST_CASE("of stages with 2 and 1 layers the first of two ranks holds 9 layers, though it begins with 8") {
  // It is 5 passes ahead: microbatches 0 1 on its first stage, 0 1 on its second one, 2 on the first, which
  // are 2 x 2 + 2 x 1 + 2. Then 0 leaves the second stage, and 3 enters the first.
  CHECK(most_live(2, 0, 4, {2, 1}) == 8 - 1 + 2);
  Candidate candidate;
  candidate.pipeline = candidate.virtual_stages = 2;
  candidate.schedule = "interleaved_1f1b";
  std::vector<PartCost> stages(4);  // of both ranks alike
  for (std::size_t s = 0; s < stages.size(); ++s)
    stages[s].held_bytes = stages[s].pass_peak_bytes = s < 2 ? 2 : 1;
  CHECK(peak_bytes({}, candidate, 4, with_ranks(stages, candidate)) == 9);
}

TEST_CASE("what unlike virtual stages hold at most is what running pass after pass holds") {
  std::mt19937 random(1);
  for (const int ranks : {2, 3, 4, 8})
    for (const int stages : {2, 3, 5, 7})
      for (const int groups : {1, 2, 5}) {
        Candidate candidate;
        candidate.pipeline = ranks;
        candidate.virtual_stages = stages;
        candidate.schedule = "interleaved_1f1b";
        std::vector<PartCost> parts(static_cast<std::size_t>(ranks * stages));
        for (PartCost& part : parts)
          part.held_bytes = part.pass_peak_bytes = static_cast<double>(1 + random() % 3);
        double most = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          std::vector<double> bytes;
          for (int stage = 0; stage < stages; ++stage)
            bytes.push_back(parts[static_cast<std::size_t>(stage * ranks + rank)].held_bytes);
          most = std::max(most, most_live(ranks, rank, groups * ranks, bytes));
        }
        CAPTURE(ranks, stages, groups);
        CHECK(peak_bytes({}, candidate, groups * ranks, with_ranks(parts, candidate)) == most);
      }
}

TEST_CASE(
    "ZB-V on two ranks, stages of 1, 2, 4 and 8 bytes: the first holds 3 x 1 + 8, the second 2 x (2 + 4)") {
  // Down and up: stages 0 and 3 lie on rank 0, 1 and 2 on rank 1. Rank 0 is 3 microbatches ahead on its first
  // stage when the first one comes to its last (0F0 0F1 0F2 3F0); rank 1 runs 1F0 2F0 1F1 2F1 2I0.
  Candidate candidate;
  candidate.pipeline = candidate.virtual_stages = 2;
  candidate.schedule = "zb_v";
  std::vector<PartCost> stages(4);
  for (std::size_t s = 0; s < stages.size(); ++s)
    stages[s].held_bytes = stages[s].pass_peak_bytes = s == 0 ? 1 : s == 1 ? 2 : s == 2 ? 4 : 8;
  CHECK(peak_bytes({}, candidate, 8, with_ranks(stages, candidate)) == 12);
  stages[2].held_bytes = stages[2].pass_peak_bytes = 2;
  CHECK(peak_bytes({}, candidate, 8, with_ranks(stages, candidate)) == 11);
  // In the drain rank 1 has put off the weight gradients of 2 microbatches on stage 1 and of 1 on stage 2.
  stages[1].put_off_bytes = stages[2].put_off_bytes = 5;
  CHECK(peak_bytes({}, candidate, 8, with_ranks(stages, candidate)) == 15);
}

namespace {

Schedule order_of(const Candidate& candidate, int microbatches) {
  PipelineShape shape;
  shape.ranks = static_cast<int>(candidate.pipeline);
  shape.virtual_stages = static_cast<int>(candidate.virtual_stages);
  shape.microbatches = microbatches;
  return find_schedule(candidate.schedule)->build(shape);
}

// Bytes of the fullest rank, pass after pass: a microbatch holds its stage's bytes from F to B or I, and what
// its weight gradients read from I to W.
double most_live_of(const Schedule& schedule, const std::vector<PartCost>& stages) {
  double most = 0;
  for (const RankOps& ops : schedule) {
    double live = 0;
    for (const Op& op : ops) {
      const PartCost& of = stages[static_cast<std::size_t>(op.stage)];
      live += op.kind == OpKind::forward          ? of.held_bytes
              : op.kind == OpKind::backward       ? -of.held_bytes
              : op.kind == OpKind::backward_input ? of.put_off_bytes - of.held_bytes
                                                  : -of.put_off_bytes;
      most = std::max(most, live);
    }
  }
  return most;
}

std::vector<PartCost> random_stages(std::mt19937& random, std::size_t count, int put_off) {
  std::vector<PartCost> parts(count);
  for (PartCost& part : parts) {
    part.held_bytes = part.pass_peak_bytes = static_cast<double>(6 + random() % 3);
    part.put_off_bytes = put_off;
  }
  return parts;
}

Candidate with_schedule(const std::string& name, int ranks, int virtual_stages) {
  Candidate candidate;
  candidate.pipeline = ranks;
  candidate.virtual_stages = virtual_stages;
  candidate.schedule = name;
  return candidate;
}

// Of the closed form to what running the passes holds.
double ratio_of_peaks(const Candidate& candidate, int microbatches, const Schedule& schedule,
                      const std::vector<PartCost>& parts) {
  return peak_bytes({}, candidate, microbatches, with_ranks(parts, candidate)) /
         most_live_of(schedule, parts);
}

}  // namespace

// Each stage has 10 elements with weights of 2 bytes and gradients of 4, on two data-parallel ranks. ZB-V: 20
// whole weights, of the gradients 5 of each stage; ZB-H1: 10 and 5.
TEST_CASE("under ZeRO-2 what is put off keeps no whole gradients") {
  PassCosts costs;
  costs.weight_bytes = 2;
  costs.gradient_bytes = 4;
  Candidate candidate;
  candidate.pipeline = candidate.data = candidate.virtual_stages = 2;
  candidate.zero_stage = 2;
  candidate.schedule = "zb_v";
  std::vector<PartCost> stages(4);
  for (PartCost& stage : stages) stage.dense_elements = 10;
  CHECK(peak_bytes(costs, candidate, 4, with_ranks(stages, candidate)) == 2 * 20 + 4 * 10);
  candidate.virtual_stages = 1;
  candidate.schedule = "zb_h1";
  stages.resize(2);
  CHECK(peak_bytes(costs, candidate, 4, with_ranks(stages, candidate)) == 2 * 10 + 4 * 5);
}

TEST_CASE(
    "what ZB-V holds at most is within 8 % what running its passes holds, of however few microbatches") {
  std::mt19937 random(2);
  for (const int ranks : {2, 3, 4, 8})
    for (int microbatches = 1; microbatches <= 4 * ranks; ++microbatches)
      for (int put_off = 3; put_off <= 12; put_off += 3) {
        const Candidate candidate = with_schedule("zb_v", ranks, 2);
        const std::vector<PartCost> parts =
            random_stages(random, static_cast<std::size_t>(2 * ranks), put_off);
        CAPTURE(ranks, microbatches, put_off);
        CHECK(ratio_of_peaks(candidate, microbatches, order_of(candidate, microbatches), parts) ==
              Approx(1).epsilon(0.08));
      }
}

TEST_CASE("what schedules that a search is told to use hold is near what running their passes holds",
          "[long]") {
  std::mt19937 random(3);
  for (const auto& [name, stages] : std::vector<std::pair<std::string, int>>{{"gpipe", 1},
                                                                             {"zb_h1", 1},
                                                                             {"zb_h2", 1},
                                                                             {"v_half", 2},
                                                                             {"v_min", 2},
                                                                             {"dualpipe_v", 2},
                                                                             {"dualpipe", 1}})
    for (const int ranks : {2, 3, 4, 5, 6, 7, 8})
      for (const int times : {1, 2, 4}) {
        const Candidate candidate = with_schedule(name, ranks, stages);
        const int microbatches = times * ranks;
        if (name == "dualpipe" && ranks % 2 == 1) continue;
        if (name.starts_with("dualpipe") && times == 1) continue;  // their fill takes 2 x ranks
        const Schedule schedule = order_of(candidate, microbatches);
        // With full recompute weight gradients read far more than forward passes leave.
        for (const int put_off : {3, 6, 9, 12, name.starts_with("dualpipe") ? 60 : 12}) {
          const std::vector<PartCost> parts =
              random_stages(random, static_cast<std::size_t>(stages * ranks), put_off);
          CAPTURE(name, ranks, microbatches, put_off);
          CHECK(ratio_of_peaks(candidate, microbatches, schedule, parts) == Approx(1).epsilon(0.12));
        }
      }
}

}  // namespace simrun
