#include "planner/candidate.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "planner/candidate_neighbours.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

std::vector<Candidate> all_of(const Job& job, const PlanConfig& limits = {}) {
  std::vector<Candidate> found;
  for_each_candidate(job, limits, [&](const Candidate& candidate) { found.push_back(candidate); });
  return found;
}

PlanConfig limits_of(std::map<std::string, std::vector<std::int64_t>> fixed) {
  PlanConfig limits;
  limits.fixed_numbers = std::move(fixed);
  return limits;
}

}  // namespace

// 4 heads and 4 layers on 4 GPUs, 8 sequences of 128 tokens. Tensor x pipeline is 1x1, 1x2, 1x4, 2x1, 2x2 or
// 4x1, and data parallel what is left: 4, 2, 1, 2, 1, 1.
TEST_CASE("candidates of 4 GPUs can be counted by hand") {
  const Job job = preset_job("tiny-4xa100");
  PlanConfig limits = limits_of({{"zero_stage", {0}}, {"micro_batch_size", {1}}});
  limits.recomputes = {"none"};
  limits.schedules = {"1f1b"};
  CHECK(all_of(job, limits).size() == 6);
  // With two data-parallel copies or more also ZeRO-1, 2 and 3: 3 of the 6 have them.
  limits.fixed_numbers.erase("zero_stage");
  CHECK(all_of(job, limits).size() == 6 + 3 * 3);
  // 8 sequences: microbatches of 1 and 2 with 4 copies, 1 to 4 with 2, 1 to 8 with 1. ZeRO-0 alone.
  limits = limits_of({{"zero_stage", {0}}});
  limits.recomputes = {"none"};
  limits.schedules = {"1f1b"};
  CHECK(all_of(job, limits).size() == 2 + 2 * 3 + 3 * 4);
  // A fixed stage is every copy's, also where one has nothing to shard.
  limits.fixed_numbers = {{"zero_stage", {1}}, {"micro_batch_size", {1}}};
  CHECK(all_of(job, limits).size() == 6);
}

TEST_CASE("microbatches have every size that divides a replica's sequences, powers of two or not") {
  Job job = preset_job("tiny-4xa100");
  job.training.global_batch_size = 24;
  std::set<std::int64_t> of_four_copies, of_one;
  for (const Candidate& of : all_of(job)) {
    if (of.data == 4) of_four_copies.insert(of.micro_batch);
    if (of.data == 1) of_one.insert(of.micro_batch);
  }
  CHECK(of_four_copies == std::set<std::int64_t>{1, 2, 3, 6});
  CHECK(of_one == std::set<std::int64_t>{1, 2, 3, 4, 6, 8, 12, 24});
}

// 4 layers on 2 stages, 8 sequences on 2 copies: microbatches of 1, 2, 4; with 1 and 2 sequences in each
// interleaved schedules of 2 virtual stages too.
TEST_CASE("neighbours differ in one choice, of numbers by one step") {
  const Job job = preset_job("tiny-4xa100");
  Candidate of;
  of.pipeline = 2, of.data = 2, of.micro_batch = 1, of.zero_stage = 1, of.schedule = "1f1b";
  std::vector<std::string> found;
  for (const Candidate& neighbour : neighbours_of(job, {}, of)) found.push_back(describe(neighbour));
  std::ranges::sort(found);
  CHECK(found == std::vector<std::string>{
                     "tp 1 pp 2 dp 2 mbs 1 zero 0 recompute none 1f1b",
                     "tp 1 pp 2 dp 2 mbs 1 zero 1 recompute none zb_h1",
                     "tp 1 pp 2 dp 2 mbs 1 zero 1 recompute selective 1f1b",
                     "tp 1 pp 2 dp 2 mbs 1 zero 2 recompute none 1f1b",
                     "tp 1 pp 2 dp 2 mbs 2 zero 1 recompute none 1f1b",
                     "tp 1 pp 2 x 2 dp 2 mbs 1 zero 1 recompute none interleaved_1f1b",
                     "tp 1 pp 2 x 2 dp 2 mbs 1 zero 1 recompute none zb_v",
                 });
  PlanConfig open;
  open.overlap_is_open = true;
  const auto overlapped = [&](Candidate candidate, int zero_stage) {
    candidate.zero_stage = zero_stage;
    const std::optional<Candidate> other = with_other_overlap(job, open, candidate);
    return other ? describe(*other) : "";
  };
  CHECK(neighbours_of(job, open, of).size() == found.size() + 1);
  CHECK(overlapped(of, 1) == "tp 1 pp 2 dp 2 mbs 1 zero 1 overlap recompute none 1f1b");
  CHECK(overlapped(of, 3).empty());  // overlaps in any case
  // What is written true stays; the other may be tried.
  Job reduces = job;
  reduces.optimizer.overlap_grad_reduce = true;
  Candidate gathers = of;
  CHECK(with_other_overlap(reduces, open, gathers));
  gathers.zero_stage = 0;
  CHECK_FALSE(with_other_overlap(reduces, open, gathers));
  Candidate alone = of;
  alone.pipeline = 4, alone.data = 1;
  CHECK(overlapped(alone, 0).empty());
  // Within the limits, and every expert-parallel size.
  const PlanConfig limits = limits_of({{"zero_stage", {1}}, {"micro_batch_size", {1}}});
  CHECK(neighbours_of(job, limits, of).size() == 4);
  const Job experts = preset_job("tiny-moe-8ranks");
  const std::vector<Candidate> all = all_of(experts, limits);
  for (const Candidate& one : all) {
    std::set<std::int64_t> sizes, expected;
    for (const Candidate& other : neighbours_of(experts, limits, one))
      if (other.expert != one.expert) sizes.insert(other.expert);
    Candidate alike = one;
    for (const Candidate& other : all) {
      alike.expert = other.expert;
      if (alike == other && other.expert != one.expert) expected.insert(other.expert);
    }
    CHECK(sizes == expected);
  }
}

TEST_CASE("every candidate fills the cluster, splits the batch, and comes once, always in the same order") {
  for (const char* name : {"tiny-4xa100", "tiny-moe-8ranks", "llama3-8b-8xh100"}) {
    const Job job = preset_job(name);
    const std::vector<Candidate> candidates = all_of(job);
    CHECK(candidates.size() > 50);
    CHECK(all_of(job) == candidates);
    CHECK(std::set<Candidate>(candidates.begin(), candidates.end()).size() == candidates.size());
    for (const Candidate& of : candidates) {
      CHECK(of.tensor * of.context * of.pipeline * of.data == job.world_size());
      CHECK(of.microbatches(job.training.global_batch_size) * of.data * of.micro_batch ==
            job.training.global_batch_size);
      CHECK(of.tensor * of.context * of.data % (of.expert * of.expert_tensor) == 0);
    }
  }
}

// 257 = 16 x 16 patches and the class token; in two zigzag blocks for each of 2 context-parallel ranks 8,192
// tokens split over 4 tensor-parallel ranks, 8,196 do not (16 parts).
TEST_CASE(
    "sequence parallel is on where the sequence splits, and tensor parallel searched where it does not") {
  CHECK(takes_sequence_parallel(preset_job("llama3-8b-8xh100"), 2, 1));
  CHECK_FALSE(takes_sequence_parallel(preset_job("llama3-8b-8xh100"), 1, 2));
  Job job = preset_job("llama3-8b-8xh100");
  CHECK(takes_sequence_parallel(job, 4, 2));
  job.training.seq_length = 8196;
  CHECK(takes_sequence_parallel(job, 4, 1));
  CHECK_FALSE(takes_sequence_parallel(job, 4, 2));
  job.training.seq_length = 4104;  // 8 x 513
  CHECK_FALSE(takes_sequence_parallel(job, 4, 2));
  job.parallelism.context_parallel_layout = ContextLayout::contiguous;
  CHECK(takes_sequence_parallel(job, 4, 2));
  job.training.decoder_seq_length = 130;  // of an encoder-decoder
  CHECK(takes_sequence_parallel(job, 2, 1));
  CHECK_FALSE(takes_sequence_parallel(job, 4, 1));
  const Job images = job_from(
      "simrun: 1\nmodel: {from: vit-huge-14}\ntraining: {micro_batch_size: 1, global_batch_size: 64, "
      "precision: bf16}\n"
      "cluster: {from: dgx_h100, nodes: 1}\n");
  CHECK(images.training.seq_length == 257);
  Candidate of;
  of.tensor = 8;
  CHECK_FALSE(with_candidate(images, of).parallelism.sequence_parallel);
  job.training.decoder_seq_length = 0;
  job.training.seq_length = 8196;
  CHECK_FALSE(with_candidate(job, of).parallelism.sequence_parallel);
  of.tensor = 4, of.data = 2;
  CHECK(with_candidate(job, of).parallelism.sequence_parallel);
}

TEST_CASE("what is fixed is kept, and what is not on offer leaves nothing") {
  const Job job = preset_job("llama3-70b-64xh100");
  for (const Candidate& of :
       all_of(job, limits_of({{"tensor_model_parallel_size", {8}}, {"zero_stage", {1}}})))
    CHECK((of.tensor == 8 && of.zero_stage == 1));
  CHECK(all_of(job, limits_of({{"tensor_model_parallel_size", {3}}})).empty());
}

TEST_CASE("layers lie as equally as they can, fewest beside embedding and loss") {
  Job job = preset_job("tiny-4xa100");
  job.model.num_layers = 61;
  const std::vector<StageContent> stages = balanced_stages(job, 16);  // 61 = 16 x 3 + 13
  CHECK(stages.front().layers == 3);
  CHECK(stages.back().layers == 3);
  CHECK(stages[1].layers == 4);
  CHECK(stages[13].layers == 4);
  CHECK(stages[14].layers == 3);
  CHECK(stages.front().embedding);
  CHECK(stages.back().loss);
  for (std::int64_t count = 1; count <= 61; ++count) {
    std::int64_t layers = 0;
    for (const StageContent& stage : balanced_stages(job, count)) layers += stage.layers;
    CHECK(layers == 61);
  }
  CHECK(balanced_stages(job, 62).empty());
}

}  // namespace simrun
