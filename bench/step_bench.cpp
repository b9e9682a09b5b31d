// One training step of GPT-2 small on one core (1 x 1024 tokens, f32, no dropout, Adam included) beside the
// rate of this machine's matrix product: step_bench [steps]. Times are of the thread's own clock, so that
// other programs count little; wall times are beside them.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "backend/cpu/math.h"
#include "backend/execute.h"
#include "configs/load_job.h"
#include "schedules/compile.h"
#include "schedules/timeline.h"

using namespace simrun;  // NOLINT(google-build-using-namespace)

namespace {

const char* const job_text = R"(simrun: 1
model: {from: gpt2, resid_pdrop: 0, attn_pdrop: 0, embd_pdrop: 0}
training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 1, precision: fp32}
parallelism: {}
cluster: {from: dgx_a100, nodes: 1, gpus_per_node: 1}
)";

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// FLOP/s of a square product, best of five: what the processor can do when nothing disturbs it.
double gemm_rate(std::int64_t n) {
  std::vector<float> a(static_cast<std::size_t>(n * n), 0.5F), b = a, c = a;
  const cpu::Product<float> product{.rows = n,
                                    .columns = n,
                                    .depth = n,
                                    .left = {a.data(), n},
                                    .right = {b.data(), n},
                                    .out = c.data(),
                                    .out_stride = n};
  double best = 1e9;
  for (int repetition = 0; repetition < 5; ++repetition) {
    const double begin = thread_seconds();
    cpu::math<float>().multiply(product);
    best = std::min(best, thread_seconds() - begin);
  }
  return 2.0 * static_cast<double>(n * n * n) / best;
}

std::string kind_of(const Instruction& what) {
  return std::string(to_string(what.opcode)) + " " + to_string(what.function);
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 3;
  LoadOptions options;
  options.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  const Plan plan = compile(load_job_text(job_text, "gpt2.yaml", options).job);
  const double rate = gemm_rate(1024);
  fmt::print("processor has AVX2: {}\nGEMM 1024^3: {:.1f} GFLOP/s\n", cpu::has_avx2(), rate * 1e-9);
  ExecuteOptions with;
  with.device = ExecutionDevice::cpu_f32;
  with.steps = steps + 1;
  with.timed = true;
  with.compares = false;
  with.limit = std::chrono::hours(1);
  const Execution run = execute(plan, with);
  if (!run.failure.empty()) fmt::print("failed: {}\n", run.failure);
  std::map<std::string, double> by_kind;
  double total = 0;
  for (const RankTimeline& rank : measured_timeline(plan, run.measured).ranks)
    for (const Lane& lane : rank.lanes)
      for (const Interval& interval : lane.intervals) {
        const Program& program = plan.programs.front();
        const Segment& segment = plan.segments[program.entries[interval.entry].segment];
        const double seconds = to_seconds(interval.duration);
        by_kind[kind_of(segment.instructions[interval.instruction])] += seconds;
        total += seconds;
      }
  std::vector<double> busy;
  for (std::size_t step = 1; step < run.measured.ranks[0].size(); ++step) {
    double sum = 0;
    for (const MeasuredInstruction& of : run.measured.ranks[0][step].instructions)
      sum += static_cast<double>(of.busy_ns) * 1e-9;
    busy.push_back(sum);
  }
  const double own = spread_of(busy).median, wall = measured_step_seconds(run.measured).median;
  for (const auto& [kind, seconds] : by_kind)
    fmt::print("  {:32} {:8.3f} s  {:5.1f} %\n", kind, seconds, 100 * seconds / total);
  const double flops = plan.job.model_flops_per_step;
  fmt::print("GEMM 1024^3 again: {:.1f} GFLOP/s\n", gemm_rate(1024) * 1e-9);
  fmt::print("step: {:.3f} s of its thread, {:.3f} s wall; loss {:.4f}\n", own, wall, run.loss.back());
  fmt::print("{:.1f} GFLOP of the model per step: {:.1f} GFLOP/s, {:.1f} % of the GEMM rate\n", flops * 1e-9,
             flops / own * 1e-9, 100 * flops / own / rate);
}
