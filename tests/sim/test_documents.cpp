#include <algorithm>
#include <catch2/catch.hpp>

#include "schedules/lint.h"
#include "sim/memory.h"
#include "sim/plan_job.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

// Packed sequences: attention's work by microbatch and data-parallel rank.
namespace simrun {
namespace {

Job packed(const std::string& documents, std::vector<Override> overrides = {}) {
  overrides.push_back({"training.attention", "flash"});
  if (!documents.empty()) overrides.push_back({"training.documents", documents});
  return job_from(small_gpt(4, 1, 2, 1), overrides);
}

Picoseconds step_of(const Plan& plan) { return simulate(plan).step; }

std::int64_t peak_of(const Plan& plan) {
  std::int64_t worst = 0;
  for (const Program& program : plan.programs)
    worst = std::max(worst, walk_memory(plan, program, WhichStep::steady, MemoryDetail::peak).peak.bytes);
  return worst;
}

}  // namespace

TEST_CASE("documents as long as the sequences change nothing but the facts") {
  const Plan whole = plan_job(packed("")), same = plan_job(packed("{mean: 512}"));
  CHECK(lint(same).empty());
  REQUIRE(same.job.documents);
  CHECK(same.job.documents->mean_share == 1);
  CHECK(same.job.documents->model_flops_per_step == whole.job.model_flops_per_step);
  CHECK(step_of(same) == step_of(whole));
  CHECK(same.job.hardware_flops_per_step == Approx(whole.job.hardware_flops_per_step));
  // As a sweep over distributions writes it: a seed is for those that draw.
  CHECK(step_of(plan_job(packed("{mean: 512, distribution: fixed, seed: 7}"))) == step_of(whole));
}

TEST_CASE("four documents per sequence leave a quarter of attention's FLOPs, and memory as it is") {
  const Plan whole = plan_job(packed("")), quarter = plan_job(packed("{mean: 128}"));
  CHECK(quarter.job.documents->mean_share == Approx(0.25));
  CHECK(quarter.job.documents->highest_share == Approx(0.25));
  // Attention: 12 s^2 h per sequence and layer: 64 sequences, 4 layers, s = 512, h = 1024.
  const double attention = 12.0 * 512 * 512 * 1024 * 64 * 4;
  CHECK(whole.job.hardware_flops_per_step - quarter.job.hardware_flops_per_step == Approx(0.75 * attention));
  CHECK(quarter.job.model_flops_per_step == whole.job.model_flops_per_step);
  CHECK(whole.job.model_flops_per_step - quarter.job.documents->model_flops_per_step ==
        Approx(0.75 * attention));
  CHECK(step_of(quarter) < step_of(whole));
  CHECK(peak_of(quarter) == peak_of(whole));
}

TEST_CASE(
    "drawn documents make microbatches and data-parallel ranks unequal, and the step follows the worst") {
  const Plan drawn = plan_job(packed("{mean: 128, distribution: lognormal, sigma: 1.5}"));
  CHECK(lint(drawn).empty());
  CHECK(drawn.job.documents->highest_share > drawn.job.documents->mean_share);
  CHECK(drawn.job.documents->highest_share <= 1);
  REQUIRE(drawn.extent_tables.size() == 1);
  // 64 sequences in micro batches of 2 over 4 data-parallel ranks: 8 microbatches x 4.
  CHECK(drawn.extent_tables[0].values.size() == 32);
  CHECK(drawn.extent_tables[0].per_microbatch);
  // Somewhere between all as cheap as the mean and all as dear as the worst.
  CHECK(step_of(drawn) < step_of(plan_job(packed(""))));
  const Plan again = plan_job(packed("{mean: 128, distribution: lognormal, sigma: 1.5}"));
  CHECK(again == drawn);
}

TEST_CASE("a soft cap's tanh of every score costs time, in flash attention and more without it") {
  const std::string gemma =
      "simrun: 1\n"
      "model: {from: models/gemma2-2b.yaml, num_hidden_layers: 4}\n"
      "training: {seq_length: 2048, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
      "cluster: {from: dgx_h100, nodes: 1}\n";
  const auto added = [&](const std::string& attention) {
    const auto step = [&](const char* cap) {
      return step_of(plan_job(
          job_from(gemma, {{"training.attention", attention}, {"model.attn_logit_softcapping", cap}})));
    };
    return step("50") - step("null");
  };
  CHECK(added("flash") > 0);
  CHECK(added("unfused") > added("flash"));
}

}  // namespace simrun
