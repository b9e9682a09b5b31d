#include <catch2/catch.hpp>
#include <string>

#include "models/flops.h"
#include "models/model_graph.h"
#include "schedules/compile.h"
#include "schedules/instruction_flops.h"
#include "sim/kernel_cost.h"
#include "sim/scan_cost.h"
#include "tests/sim/scan_jobs.h"

// Two Mamba-2 layers of 4 groups of 8 heads of 64 channels (2,048), states of 128; 512 tokens in 4 chunks.
namespace simrun {
namespace {

constexpr double tokens = 512, groups = 4, heads = 32, channels = 2048, state = 128, chunk = 128;

Job scan_job(const std::string& parallelism = "{}", int gpus = 1) {
  return job_of_scans("hybrid_override_pattern: MM, mamba_num_groups: 4", parallelism, gpus);
}

}  // namespace

TEST_CASE("a scan's model FLOPs are Megatron-LM's: 7 per token, channel and element of the state") {
  const Plan plan = compile(scan_job());
  const double forward = 7 * tokens * channels * state;
  CHECK(instruction_flops(plan, scan_in(plan, Opcode::scan)) == forward);
  CHECK(instruction_flops(plan, scan_in(plan, Opcode::scan_backward)) == 2 * forward);
  const double parameters = 1024 * (2 * channels + 2 * groups * state + heads) + channels * 1024;
  CHECK(model_flops(build_graph(scan_job())) ==
        6 * tokens * (2 * parameters + 1024 * 1024) + 2 * 3 * forward);
}

TEST_CASE(
    "a scan's kernels do the products of its chunks, and backward those of their gradients and some again") {
  const Plan plan = compile(scan_job());
  const double states = 2 * tokens * channels * state, scores = 2 * tokens * chunk * groups * state,
               within = 2 * tokens * (chunk / 2) * channels;
  CHECK(scan_work(plan, scan_in(plan, Opcode::scan)).flops == 2 * states + scores + within);
  CHECK(scan_work(plan, scan_in(plan, Opcode::scan_backward)).flops == 5 * states + 3 * scores + 3 * within);
}

TEST_CASE("tensor-parallel ranks have their groups' part of a scan, and of its time") {
  const Plan whole = compile(scan_job()), half = compile(scan_job("{tensor_model_parallel_size: 2}", 2));
  for (const Opcode opcode : {Opcode::scan, Opcode::scan_backward}) {
    const KernelWork of_whole = scan_work(whole, scan_in(whole, opcode)),
                     of_half = scan_work(half, scan_in(half, opcode));
    CHECK(2 * of_half.flops == of_whole.flops);
    CHECK(2 * of_half.bytes == of_whole.bytes);
  }
}

TEST_CASE("a scan takes no less than its bytes and its products do, and its launches") {
  const Plan plan = compile(scan_job());
  const Gpu& gpu = plan.cluster.gpu;
  for (const Opcode opcode : {Opcode::scan, Opcode::scan_backward}) {
    const Instruction& what = scan_in(plan, opcode);
    const KernelWork work = scan_work(plan, what);
    const double seconds = scan_seconds(plan, what);
    CHECK(seconds >= work.bytes / gpu.memory_bandwidth);
    CHECK(seconds >= work.flops / matmul_flops_per_second(gpu, Dtype::bf16));
    CHECK(seconds >= static_cast<double>(scan_launches(plan, what)) * gpu.kernel_launch_s);
    CHECK(kernel_time(plan, what) == to_picoseconds(seconds));
  }
  CHECK(scan_launches(plan, scan_in(plan, Opcode::scan)) == 6);
  CHECK(scan_launches(plan, scan_in(plan, Opcode::scan_backward)) == 18);
}

TEST_CASE("half as efficient, the products of a scan take twice as long, and it no less than that") {
  Plan plan = compile(scan_job());
  // Memory that takes no time leaves the products and the launches.
  plan.cluster.gpu.memory_bandwidth *= 1e6;
  const Instruction& what = scan_in(plan, Opcode::scan_backward);
  const double launches = static_cast<double>(scan_launches(plan, what)) * plan.cluster.gpu.kernel_launch_s;
  const double products = scan_seconds(plan, what) - launches;
  plan.framework.kernels.scan_efficiency = 0.5;
  CHECK(scan_seconds(plan, what) - launches == Approx(2 * products).epsilon(1e-3));
}

TEST_CASE("kernels of a scan that reach half of the memory rate take twice as long where bytes bind them") {
  Plan plan = compile(scan_job());
  plan.cluster.gpu.memory_bandwidth *= 1e-3;  // launches and products take nothing beside it
  for (const Opcode opcode : {Opcode::scan, Opcode::scan_backward}) {
    const Instruction& what = scan_in(plan, opcode);
    plan.framework.kernels.scan_memory_efficiency = 1;
    const double seconds = scan_seconds(plan, what);
    plan.framework.kernels.scan_memory_efficiency = 0.5;
    CHECK(scan_seconds(plan, what) == Approx(2 * seconds).epsilon(1e-2));
  }
}

}  // namespace simrun
