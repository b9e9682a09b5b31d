// What searching for a plan takes: the layouts of a GPT's operators on 8 x 8 devices, without and with a
// limit of memory, and stages by sub-meshes on costs that are made up (a layer on n devices takes 1 / n and
// some); strategies by layer for a GPT of 48 layers; and steps run pass by pass, of which items are
// evaluations.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "planner/alpa_graph.h"
#include "planner/alpa_stages.h"
#include "planner/choice_chain.h"
#include "planner/galvatron_search.h"
#include "schedules/compile.h"
#include "sim/pass_level.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

StageGraph gpt_on_64(std::int64_t layers) {
  const Job job =
      job_from(small_gpt(static_cast<int>(layers), 1, 1, 8), {{"training.micro_batch_size", "1"}});
  return stage_graph(job, {{8, 8}, 64, 1});
}

void cost_of_layouts(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(gpt_on_64(state.range(0)));
}
BENCHMARK(cost_of_layouts)->Arg(24)->Arg(96)->Unit(benchmark::kMillisecond);

void best_layouts(benchmark::State& state) {
  const StageGraph stage = gpt_on_64(state.range(0));
  const StageChoices part = choices_of(stage, {0, stage.segments(), 1});
  for (auto _ : state) benchmark::DoNotOptimize(choose_strategies(part.choices, {}));
}
BENCHMARK(best_layouts)->Arg(24)->Arg(96)->Unit(benchmark::kMillisecond);

void best_layouts_that_fit(benchmark::State& state) {
  const StageGraph stage = gpt_on_64(state.range(0));
  const StageChoices part = choices_of(stage, {0, stage.segments(), 1});
  const double most = choose_strategies(part.choices, {}).front().memory;
  const ChoiceLimits limits{.memory = 0.6 * most, .front = true, .buckets = 512, .choices = 1};
  for (auto _ : state) benchmark::DoNotOptimize(choose_strategies(part.choices, limits));
}
BENCHMARK(best_layouts_that_fit)->Arg(24)->Arg(96)->Unit(benchmark::kMillisecond);

// A strategy for every layer, prices of the layers included; GPUs and MiB of each.
void strategies_by_layer(benchmark::State& state) {
  const Job job = job_from(small_gpt(48, 1, 1, static_cast<int>(state.range(0) / 8)),
                           {{"model.hidden_size", "4096"},
                            {"model.num_attention_heads", "32"},
                            {"training.global_batch_size", "512"}});
  std::int64_t feasible = 0;
  for (auto _ : state) {
    LayerPrices prices(job);
    feasible = galvatron_plans(job, prices, {.max_memory = state.range(1) << 20}).feasible;
  }
  state.counters["feasible"] = static_cast<double>(feasible);
}
BENCHMARK(strategies_by_layer)
    ->Args({16, 72 << 10})
    ->Args({64, 72 << 10})
    ->Args({64, 8 << 10})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

// Sub-meshes of 1, 2, 4, ... units of `gpus` each.
StageCosts made_up_costs(int layers, int units, int gpus) {
  std::vector<int> meshes;
  for (int size = 1; size <= units; size *= 2) meshes.push_back(size);
  StageCosts costs(layers, units, meshes, std::min(layers, units));
  unsigned random = 12345;
  std::vector<double> weight;
  for (int layer = 0; layer < layers; ++layer) {
    random = random * 1664525u + 1013904223u;
    weight.push_back(1 + 0.2 * (random >> 16) / 65536.0);
  }
  for (int following = 0; following < costs.most_stages; ++following)
    for (int mesh = 0; mesh < static_cast<int>(meshes.size()); ++mesh)
      for (int first = 0; first < layers; ++first) {
        double sum = 0;
        const double n = static_cast<double>(meshes[static_cast<std::size_t>(mesh)]) * gpus;
        for (int last = first + 1; last <= layers; ++last) {
          sum += weight[static_cast<std::size_t>(last - 1)];
          const bool fits = (sum * (2 + 0.3 * following)) / n < 40;
          if (fits)
            costs.seconds[costs.index(following, mesh, first, last)] = sum / n * (1 + 0.02 * n / (n + 8));
        }
      }
  return costs;
}

// Layers, units of devices, GPUs of a unit, microbatches.
void stages_by_sub_meshes(benchmark::State& state) {
  const StageCosts costs = made_up_costs(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)),
                                         static_cast<int>(state.range(2)));
  int evaluated = 0;
  for (auto _ : state) {
    const auto best = best_partition(costs, static_cast<int>(state.range(3)));
    evaluated = best ? best->evaluated : 0;
  }
  state.counters["bounds"] = evaluated;
}
BENCHMARK(stages_by_sub_meshes)
    ->Args({48, 64, 1, 1024})
    ->Args({32, 128, 8, 512})  // 96 layers in 32 clusters on 1,024 GPUs, whole nodes
    ->Args({32, 1024, 1, 512})
    ->Args({96, 128, 8, 512})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

void pass_by_pass(benchmark::State& state, const char* job) {
  PassLevelEngine engine(pass_level_plan(compile(preset_job(job))));
  for (auto _ : state) benchmark::DoNotOptimize(engine.run());
  state.SetItemsProcessed(state.iterations());
  state.counters["events"] = static_cast<double>(engine.run().events);
  state.counters["of"] = static_cast<double>(engine.run_whole().events);
}
BENCHMARK_CAPTURE(pass_by_pass, llama3_70b_64xh100, "llama3-70b-64xh100")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(pass_by_pass, gpt3_175b_1024xa100, "gpt3-175b-1024xa100")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(pass_by_pass, gpt_1t_3072xa100, "gpt-1t-3072xa100")->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace simrun

BENCHMARK_MAIN();
