// Claim: the fast engine executes at least 50 million instructions per second per core, communication
// included, and its time is linear in their number. `items_per_second` counts executed instances; FREE and
// INIT take no time and are not counted.
#include <benchmark/benchmark.h>

#include "bench/pipeline_plan.h"
#include "sim/simulate.h"

namespace {

// A plan of 8 ranks with enough microbatches to execute about that many instructions.
simrun::Plan plan_with(std::int64_t instructions) {
  simrun::PipelinePlanShape shape;
  shape.microbatches = 8;
  const std::int64_t eight = simrun::simulate(simrun::pipeline_plan(shape)).instructions;
  shape.microbatches = static_cast<int>(instructions * 8 / eight) + 1;
  return simrun::pipeline_plan(shape);
}

void engine(benchmark::State& state, simrun::Detail detail) {
  const simrun::Plan plan = plan_with(state.range(0));
  simrun::Timeline timeline;
  for (auto _ : state) {
    timeline = simrun::simulate(plan, {detail});
    benchmark::DoNotOptimize(timeline.step);
  }
  state.SetItemsProcessed(state.iterations() * timeline.instructions);
  state.counters["instructions"] = static_cast<double>(timeline.instructions);
  state.counters["communication_share"] =
      static_cast<double>(timeline.communication_instructions) / static_cast<double>(timeline.instructions);
}

BENCHMARK_CAPTURE(engine, totals, simrun::Detail::totals)
    ->RangeMultiplier(10)
    ->Range(100'000, 10'000'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(engine, passes, simrun::Detail::passes)
    ->RangeMultiplier(10)
    ->Range(100'000, 10'000'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(engine, instructions, simrun::Detail::instructions)
    ->RangeMultiplier(10)
    ->Range(100'000, 10'000'000)
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
