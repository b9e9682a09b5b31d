// Claim: the fast engine executes at least 50 million instructions per second per core, communication
// included, and its time is linear in their number. `items_per_second` counts executed instances; FREE and
// INIT take no time and are not counted.
#include <benchmark/benchmark.h>

#include "bench/pipeline_plan.h"
#include "configs/load_job.h"
#include "schedules/compile.h"
#include "schedules/lint.h"
#include "schedules/summary.h"
#include "sim/simulate.h"
#include "visualizer/json.h"

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

simrun::Job preset(const char* name, const char* global_batch_size = nullptr) {
  simrun::LoadOptions options;
  options.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  if (global_batch_size != nullptr) options.overrides = {{"training.global_batch_size", global_batch_size}};
  return simrun::load_job(std::string(SIMRUN_SOURCE_DIR "/configs/jobs/") + name + ".yaml", options).job;
}

// The shipped 70B job with so many sequences per step that it executes more than 10^6 instructions.
void compiled_job(benchmark::State& state, simrun::Detail detail) {
  const simrun::Plan plan = simrun::compile(preset("llama3-70b-64xh100", "768"));
  simrun::Timeline timeline;
  for (auto _ : state) {
    timeline = simrun::simulate(plan, {detail});
    benchmark::DoNotOptimize(timeline.step);
  }
  // simulate() also runs the first step, which is as long but for the parameter gathers.
  state.SetItemsProcessed(state.iterations() * 2 * timeline.instructions);
  state.counters["instructions"] = static_cast<double>(timeline.instructions);
  state.counters["communication_share"] =
      static_cast<double>(timeline.communication_instructions) / static_cast<double>(timeline.instructions);
}
BENCHMARK_CAPTURE(compiled_job, totals, simrun::Detail::totals)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compiled_job, instructions, simrun::Detail::instructions)->Unit(benchmark::kMillisecond);

// Claim: gpt-1t-3072xa100 goes from YAML to JSON in under 0.3 s.
void yaml_to_json(benchmark::State& state) {
  for (auto _ : state) {
    const simrun::Plan plan = simrun::compile(preset("gpt-1t-3072xa100"));
    if (!simrun::lint(plan).empty()) state.SkipWithError("the plan is not valid");
    benchmark::DoNotOptimize(simrun::summary_json(plan, simrun::summarize(plan, simrun::simulate(plan))));
  }
}
BENCHMARK(yaml_to_json)->Unit(benchmark::kMillisecond);

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
