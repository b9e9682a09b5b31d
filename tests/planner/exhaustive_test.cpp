#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "planner/starting_split.h"
#include "tests/planner/every_candidate.h"

namespace simrun {
namespace {

PlanBase base_of(unsigned number, const std::vector<Override>& overrides) {
  const std::string text = searched_job(number);
  LoadOptions load;
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  load.overrides = overrides;
  return plan_base(text, "searched.yaml",
                   with_starting_split(text, "searched.yaml", load, WrittenSizes::give_way));
}

struct Searched {
  unsigned number;      // searched_job()
  double memory = 1;    // tight_memory(); 1: all
  double hopeless = 0;  // EverySearch
};

}  // namespace

// bench/exhaustive_search does so for hundreds of jobs.
TEST_CASE("of jobs on 2 to 64 GPUs what the search finds is as fast as the best of simulating all",
          "[long]") {
  const Searched few[] = {
      {4, 0.5},   // grouped heads, a batch of 6 on 4 GPUs
      {8, 0.15},  // tied tables on 2 GPUs with little memory
      // Whose candidates are too many for a test: those are simulated that estimates say could be the best.
      {60, 1, 1.1},        // experts; the best is without expert parallel, where estimates put ep 2 in front
      {1226, 0.15, 1.25},  // microbatches of three, which a line between two and four makes 8 % too slow
      {514, 0.5, 1.2},     // ZB-V under ZeRO-3 is the best, with 59 MiB to spare
      // The best overlaps, which without would not be among the best ten.
      {first_of_open_overlap + 462, 0.15, 1.15},
  };
  for (const Searched& job : few) {
    std::vector<Override> overrides;
    if (job.memory < 1) {
      const double limit = tight_memory(base_of(job.number, {}), job.memory);
      overrides.push_back({"plan.max_memory", std::to_string(static_cast<std::int64_t>(limit)) + " B"});
    }
    const PlanBase base = base_of(job.number, overrides);
    const EveryCandidate every = simulate_every(base, {.threads = 1, .hopeless = job.hopeless});
    const RankedCandidate best = best_of_every(base, every.all);
    PlanSearchOptions options;
    options.threads = 1;
    const PlanSearchResult found = search_jobs(base, options);
    CAPTURE(job.number, searched_job(job.number), every.all.size(), describe(best.candidate));
    REQUIRE(!best.evaluation.engine.empty());
    REQUIRE(!found.best.empty());
    CAPTURE(describe(found.best.front().candidate));
    CHECK(found.best.front().evaluation.step_s <= best.evaluation.step_s * (1 + 1e-9));
  }
}

}  // namespace simrun
