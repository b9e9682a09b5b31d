#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "schedules/summary.h"
#include "sim/kernel_cost.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

// Types of weights and activations, simulated.
namespace simrun {
namespace {

Plan plan_with(const char* precision) {
  return compile(job_from(small_gpt(4, 2, 1, 1), {{"training.precision", precision}}));
}

}  // namespace

TEST_CASE("tf32 keeps what fp32 keeps and multiplies at the tensor cores' rate") {
  const Plan plan = plan_with("tf32"), wide = plan_with("fp32");
  CHECK(lint(plan) == std::vector<std::string>{});
  const Summary fast = summarize(plan, simulate(plan)), slow = summarize(wide, simulate(wide));
  CHECK(fast.peak_memory_bytes == slow.peak_memory_bytes);
  CHECK(fast.hardware_flops_per_step == slow.hardware_flops_per_step);
  CHECK(fast.compute_s < slow.compute_s);
  // A100: 156 and 19.5 TFLOP/s. A product that fills the GPU takes an eighth of the time.
  const Gpu& gpu = plan.cluster.gpu;
  const GemmShape large{.m = 8192, .n = 8192, .k = 8192, .input = Dtype::tf32, .output = Dtype::fp32};
  GemmShape exact = large;
  exact.input = Dtype::fp32;
  CHECK(gemm_seconds(gpu, exact) / gemm_seconds(gpu, large) == Approx(8).epsilon(0.001));
  for (const Segment& segment : plan.segments)
    for (const Instruction& what : segment.instructions)
      if (what.opcode == Opcode::gemm) REQUIRE(gemm_shape(plan, what).input == Dtype::tf32);
}

TEST_CASE("tf32 weights are their own main weights; a GPU without tf32 is refused") {
  for (const Buffer& buffer : plan_with("tf32").buffers)
    REQUIRE(buffer.name.find("main weights") == std::string::npos);
  CHECK_THROWS_WITH(job_from(small_gpt(4, 2, 1, 1),
                             {{"training.precision", "tf32"}, {"cluster.gpu", "{from: v100_sxm2_32gb}"}}),
                    Catch::Contains("no peak_flops for tf32"));
}

}  // namespace simrun
