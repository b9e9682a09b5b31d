#include "planner/enumerated_candidates.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "configs/diagnostics.h"
#include "planner/candidate_neighbours.h"
#include "planner/search.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

using Split = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

std::set<Split> splits_of(const std::vector<Candidate>& candidates) {
  std::set<Split> splits;
  for (const Candidate& of : candidates) splits.emplace(of.tensor, of.context, of.pipeline);
  return splits;
}

PlanBase base_of(const std::string& model, const std::string& training, int nodes) {
  LoadOptions load;
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  return plan_base("simrun: 1\nmodel: {from: " + model + "}\ntraining: {" + training +
                       "micro_batch_size: 1, global_batch_size: 64, precision: bf16}\n"
                       "cluster: {from: dgx_h100, nodes: " +
                       std::to_string(nodes) + "}\n",
                   "enumerated.yaml", load);
}

}  // namespace

TEST_CASE("few candidates are all enumerated; of many a grid is left, of every split of the ranks") {
  const PlanBase base = base_of("t5-large", "seq_length: 512, ", 4);
  const Job& job = base.job.job;
  std::vector<Candidate> all;
  for_each_candidate(job, {}, [&](const Candidate& of) { all.push_back(of); });
  const EnumeratedCandidates whole = enumerated_candidates(job, {}, all.size(), 10);
  CHECK(whole.chosen == all);
  CHECK_FALSE(whole.is_grid());
  const std::set<Candidate> known(all.begin(), all.end());
  for (const std::size_t most : {std::size_t{2000}, std::size_t{1000}, std::size_t{300}}) {
    const EnumeratedCandidates grid = enumerated_candidates(job, {}, all.size() - 1, most);
    CAPTURE(most, grid.chosen.size());
    CHECK(grid.is_grid());
    CHECK(grid.all == static_cast<std::int64_t>(all.size()));
    CHECK(grid.chosen.size() <= most);
    CHECK(splits_of(grid.chosen) == splits_of(all));
    CHECK(std::ranges::all_of(grid.chosen, [&](const Candidate& of) { return known.contains(of); }));
    CHECK(std::ranges::any_of(grid.chosen, [](const Candidate& of) {
      return of.recompute == RecomputeGranularity::full && of.zero_stage == 3 && of.micro_batch == 1;
    }));
  }
  const EnumeratedCandidates ten = enumerated_candidates(job, {}, all.size() - 1, 10);
  CHECK((!ten.chosen.empty() && ten.chosen.size() <= 10));
}

TEST_CASE(
    "what is fixed or asked for stays on the grid, and every split has the first schedule that it may have") {
  const PlanBase base = base_of("t5-large", "seq_length: 512, ", 4);
  PlanConfig limits;
  limits.schedules = {"zb_v"};
  limits.recomputes = {"selective"};
  limits.fixed_numbers = {{"zero_stage", {0}}, {"micro_batch_size", {2}}};
  const EnumeratedCandidates all = enumerated_candidates(base.job.job, limits, 1000, 1000);
  REQUIRE_FALSE(all.chosen.empty());
  // Nothing but schedules could be left out, and there is one.
  const EnumeratedCandidates grid =
      enumerated_candidates(base.job.job, limits, all.chosen.size() - 1, all.chosen.size());
  CHECK(grid.chosen == all.chosen);
  limits = {};
  limits.fixed_numbers = {{"virtual_pipeline_model_parallel_size", {2}}};
  std::vector<Candidate> virtual_stages;
  for_each_candidate(base.job.job, limits, [&](const Candidate& of) { virtual_stages.push_back(of); });
  const EnumeratedCandidates of_two = enumerated_candidates(base.job.job, limits, 100, 500);
  CHECK(splits_of(of_two.chosen) == splits_of(virtual_stages));
}

TEST_CASE("a grid has the job's ZeRO stage, and the most expert ranks") {
  const PlanBase base = base_of("t5-large", "seq_length: 512, ", 4);
  CHECK(base.job.job.optimizer.zero_stage == 0);
  const EnumeratedCandidates grid = enumerated_candidates(base.job.job, {}, 1000, 300);
  const auto has_stage = [&](int stage) {
    return std::ranges::any_of(grid.chosen,
                               [&](const Candidate& of) { return of.data == 32 && of.zero_stage == stage; });
  };
  CHECK((has_stage(0) && has_stage(1) && has_stage(3)));
  CHECK_FALSE(has_stage(2));
  const PlanBase experts = base_of("mixtral-8x7b", "seq_length: 4096, ", 4);
  for (const std::size_t most : {2000, 200, 60}) {
    const EnumeratedCandidates of_experts = enumerated_candidates(experts.job.job, {}, 3000, most);
    CHECK(of_experts.is_grid());
    CHECK(of_experts.chosen.size() <= most);
    CHECK(std::ranges::any_of(of_experts.chosen, [](const Candidate& of) { return of.expert == 8; }));
  }
}

// They take ZeRO-0 and one stage only, on two data-parallel ranks or more.
TEST_CASE("a grid has what can be run with parameter servers") {
  LoadOptions load;
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  const PlanBase base = plan_base(
      "simrun: 1\nmodel: {from: wide-resnet-50-2}\n"
      "training: {micro_batch_size: 8, global_batch_size: 8192, precision: bf16}\n"
      "optimizer: {parameter_server: {servers: 4, placement: colocated}}\n"
      "cluster: {from: dgx_h100, nodes: 16}\n",
      "servers.yaml", load);
  for (const std::size_t most : {1000, 300, 100}) {
    const EnumeratedCandidates grid = enumerated_candidates(base.job.job, {}, 4000, most);
    CAPTURE(most);
    CHECK(grid.is_grid());
    CHECK(std::ranges::any_of(grid.chosen, [&](const Candidate& of) {
      try {
        return load_candidate(base, of).parallelism.data_parallel_size > 1;
      } catch (const ConfigError&) {
        return false;
      }
    }));
  }
}

// 5,829 candidates, of which fewer than 1,200 are simulated.
TEST_CASE("behind a grid the search ends where no neighbour of its plan is faster", "[long]") {
  const PlanBase base = base_of("wide-resnet-13b", "", 4);
  const PlanSearchResult found = search_jobs(base, {});
  CHECK(found.candidates == 5829);
  CHECK(found.evaluated < 1200);
  CHECK_FALSE(found.has_estimates);
  REQUIRE_FALSE(found.best.empty());
  const RankedCandidate& best = found.best.front();
  CHECK(best.evaluation.fits);
  const Evaluation alone = evaluate_candidate(base, best.candidate, EngineChoice::fast);
  for (const Candidate& of : neighbours_of(base.job.job, base.job.plan, best.candidate)) {
    const Evaluation other = evaluate_candidate(base, of, EngineChoice::fast);
    if (!other.refusal.empty() || !other.fits) continue;
    CAPTURE(describe(best.candidate), describe(of));
    CHECK(other.step_s >= alone.step_s);
  }
}

}  // namespace simrun
