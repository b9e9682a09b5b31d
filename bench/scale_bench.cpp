// Claims: with contention, every GPU and every rail simulated, Llama 3 405B takes at most 0.2 s on 1,024
// GPUs, 3 s on 16,384, 20 s and 1 GB on 102,400, in time linear in the GPUs; DeepSeek-V3 with an all-to-all
// in every layer takes at most 10 s on 2,048. Times are processor seconds of this process and its workers on
// one core: reading the job (config_s), planning it (plan_s), and simulate(), which `Time` is.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "bench/ring_contention.h"
#include "bench/scale_jobs.h"
#include "schedules/compile.h"
#include "schedules/timeline.h"
#include "sim/flow_engine.h"
#include "sim/simulate.h"

namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

// Of this process and those of its children that have ended.
double processor_seconds() {
  double sum = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    sum += seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  return sum;
}

double peak_megabytes() {
  double peak = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    peak = std::max(peak, static_cast<double>(usage.ru_maxrss) * 1024e-6);
  }
  return peak;
}

void simulate_job(benchmark::State& state, const simrun::Job& job, double config_s,
                  simrun::EngineChoice engine = simrun::EngineChoice::simgrid) {
  const double before = processor_seconds();
  const simrun::Plan plan = simrun::compile(job);
  state.counters["config_s"] = config_s;
  state.counters["plan_s"] = processor_seconds() - before;
  simrun::Timeline timeline;
  for (auto _ : state) {
    const double begin = processor_seconds();
    timeline = simrun::simulate(plan, {simrun::Detail::totals, engine});
    state.SetIterationTime(processor_seconds() - begin);
  }
  state.SetLabel(timeline.engine_reason);
  state.SetItemsProcessed(state.iterations() * timeline.instructions);
  state.counters["instructions"] = static_cast<double>(timeline.instructions);
  state.counters["step_s"] = simrun::to_seconds(timeline.step);
  state.counters["peak_MB"] = peak_megabytes();  // so far: the largest job last
}

void llama(benchmark::State& state) {
  const double before = processor_seconds();
  const simrun::Job job = simrun::llama3_405b(state.range(0) / 128);
  simulate_job(state, job, processor_seconds() - before);
}
BENCHMARK(llama)
    ->ArgName("gpus")
    ->Arg(1024)
    ->Arg(4096)
    ->Arg(16384)
    ->Arg(65536)
    ->Arg(102400)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kSecond);

void deepseek(benchmark::State& state, const char* schedule) {
  const double before = processor_seconds();
  const simrun::Job job = simrun::deepseek_v3(schedule, state.range(0));
  simulate_job(state, job, processor_seconds() - before);
}
BENCHMARK_CAPTURE(deepseek, one_f_one_b, "1f1b")
    ->ArgName("sequences")
    ->Arg(4096)
    ->Arg(15360)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(deepseek, dualpipe, "dualpipe")
    ->ArgName("sequences")
    ->Arg(4096)
    ->Arg(15360)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kSecond);

void llama_70b(benchmark::State& state, simrun::EngineChoice engine) {
  const double before = processor_seconds();
  const simrun::Job job = simrun::shipped_job("llama3-70b-64xh100");
  simulate_job(state, job, processor_seconds() - before, engine);
}
BENCHMARK_CAPTURE(llama_70b, fast, simrun::EngineChoice::fast)
    ->Iterations(5)
    ->UseManualTime()
    ->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(llama_70b, contention, simrun::EngineChoice::simgrid)
    ->Iterations(5)
    ->UseManualTime()
    ->Unit(benchmark::kSecond);

// What it costs in exactness that a collective is one flow per edge: itself it ends as its messages do, a
// stranger on one of its links does not.
void ring_under_contention(benchmark::State& state) {
  simrun::RingContention messages, edges;
  for (auto _ : state) {
    messages = simrun::ring_of_messages(simrun::flow_solvers().front());
    edges = simrun::ring_of_edges(simrun::flow_solvers().front());
  }
  state.counters["collective_error"] = edges.collective_end_s / messages.collective_end_s - 1;
  state.counters["third_party_error"] = edges.stranger_end_s / messages.stranger_end_s - 1;
  state.counters["third_party_messages_s"] = messages.stranger_end_s;
  state.counters["third_party_edges_s"] = edges.stranger_end_s;
}
BENCHMARK(ring_under_contention)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
