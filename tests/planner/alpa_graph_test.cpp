#include "planner/alpa_graph.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>

#include "planner/choice_chain.h"
#include "tests/jobs.h"

namespace simrun {

TEST_CASE("try", "[.try]") {
  const Job job = job_from(small_gpt(24, 1, 1, 8), {{"training.micro_batch_size", "1"}, {"training.hidden_dropout","0"}});
  const auto t0 = std::chrono::steady_clock::now();
  const StageGraph stage = stage_graph(job, {{8, 8}, 64, 1});
  const auto t1 = std::chrono::steady_clock::now();
  const StageChoices part = choices_of(stage, {0, stage.segments(), 1});
  const std::vector<Choice> best = choose_strategies(part.choices, {});
  const auto t2 = std::chrono::steady_clock::now();
  std::printf("graph %.3f solve %.3f\n", std::chrono::duration<double>(t1 - t0).count(),
              std::chrono::duration<double>(t2 - t1).count());
  std::printf("%zu nodes %zu edges, %zu choices\n", part.choices.nodes.size(), part.choices.edges.size(), best.size());
  if (best.empty()) return;
  std::printf("cost %.6f s, %.3f GiB\n", best[0].cost, best[0].memory / (1 << 30));
  for (std::size_t v = 0; v < part.operators.size(); ++v) {
    const std::size_t o = part.operators[v];
    if (stage.graph.operators[o].layer > 1) continue;
    std::printf("%3d %-24s %2zu: %s  %.6f\n", stage.segment[o], stage.graph.operators[o].name.c_str(), stage.strategies[o].size(),
                describe(stage.strategies[o][best[0].strategies[v]].layout, stage.graph, stage.mesh).c_str(),
                stage.seconds[o][best[0].strategies[v]]);
  }
  for (double limit : {0.9, 0.5, 0.3}) {
    const auto t3 = std::chrono::steady_clock::now();
    const auto front = choose_strategies(part.choices, {.memory = best[0].memory * limit, .front = true, .buckets = 512, .choices = 1});
    const auto t4 = std::chrono::steady_clock::now();
    std::printf("limit %.2f: %zu points %.3f s", limit, front.size(), std::chrono::duration<double>(t4 - t3).count());
    if (!front.empty()) std::printf(" cost %.6f memory %.3f, least %.3f at %.6f", front.back().cost, front.back().memory / (1 << 30), front.front().memory/(1<<30), front.front().cost);
    std::printf("\n");
  }
}

}  // namespace simrun
#include "planner/alpa_search.h"
#include "planner/simulated_plan.h"
#include <cstdlib>
#include <fstream>
namespace simrun {
TEST_CASE("search", "[.search]") {
  const char* path = std::getenv("JOB");
  const JobLoader load = [&](const std::vector<Override>& overrides) {
    LoadOptions options;
    options.overrides = overrides;
    options.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
    return load_job(path, options).job;
  };
  const Job job = load({});
  const auto t0 = std::chrono::steady_clock::now();
  const auto plans = alpa_plans(job);
  const auto t1 = std::chrono::steady_clock::now();
  std::printf("search %.3f s, %zu plans\n", std::chrono::duration<double>(t1 - t0).count(), plans.size());
  int n = 0;
  for (const auto& plan : plans) {
    const SimulatedPlan s = simulate_plan("alpa", alpa_overrides(plan), load);
    std::printf("pp %ld nb %ld seq %ld tp %ld zero %d est %.4f sim %.4f peak %.2f fits %d %s\n   ", plan.pipeline, plan.microbatches, plan.sequences, plan.tensor, plan.zero_stage, plan.estimate_s, s.step_s, s.peak_bytes/1073741824., s.fits, s.refusal.c_str());
    for (const auto& stage : plan.stages) std::printf(" %ld-%ld (%ld,%ld) %.4f %.2fGiB", stage.first_layer, stage.last_layer, stage.mesh.y, stage.mesh.x, stage.seconds, stage.bytes/1073741824.);
    std::printf("\n");
    if (n++ == 0) for (const auto& o : alpa_overrides(plan)) std::printf("%s=%s\n", o.key.c_str(), o.value.c_str());
  }
  for (const auto& s : reference_plans(job, load))
    std::printf("%s: %.4f s peak %.2f fits %d %s\n", s.name.c_str(), s.step_s, s.peak_bytes/1073741824., s.fits, s.refusal.c_str());
  const auto t2 = std::chrono::steady_clock::now();
  std::printf("references %.3f s\n", std::chrono::duration<double>(t2 - t1).count());
}
}
