#include "backend/half_float.h"

#include <catch2/catch.hpp>
#include <limits>

#include "backend/agreement.h"
#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/tiny_jobs.h"

namespace simrun {

TEST_CASE("bf16: known answers of rounding to nearest, ties to even") {
  // 1 = 0x3f80; the next number is 1 + 2^-7.
  CHECK(bf16_bits(1.0f) == 0x3f80);
  CHECK(bf16_bits(1.0f + 0x1p-8f) == 0x3f80);             // a tie: 0x3f80 is even
  CHECK(bf16_bits(1.0f + 0x1p-7f + 0x1p-8f) == 0x3f82);   // a tie: 0x3f82 is even
  CHECK(bf16_bits(1.0f + 0x1p-8f + 0x1p-20f) == 0x3f81);  // above the tie
  CHECK(bf16_bits(-2.5f) == 0xc020);
  CHECK(bf16_bits(3.14159265f) == 0x4049);                        // 3.140625
  CHECK(bf16_bits(std::numeric_limits<float>::max()) == 0x7f80);  // infinite
  CHECK(bf16_bits(0x1p-133f) == 0x0001);                          // the smallest subnormal
  CHECK(bf16_bits(-0.0f) == 0x8000);
  CHECK(std::isnan(from_bf16(bf16_bits(std::numeric_limits<float>::signaling_NaN()))));
  CHECK(from_bf16(0x4049) == 3.140625f);
}

TEST_CASE("fp16: known answers of rounding to nearest, ties to even") {
  CHECK(fp16_bits(1.0f) == 0x3c00);
  CHECK(fp16_bits(1.0f + 0x1p-11f) == 0x3c00);             // a tie: even
  CHECK(fp16_bits(1.0f + 0x1p-10f + 0x1p-11f) == 0x3c02);  // a tie: even
  CHECK(fp16_bits(65504.0f) == 0x7bff);                    // the largest
  CHECK(fp16_bits(65519.996f) == 0x7bff);
  CHECK(fp16_bits(65520.0f) == 0x7c00);    // infinite
  CHECK(fp16_bits(0x1p-14f) == 0x0400);    // the smallest normal number
  CHECK(fp16_bits(0x1p-24f) == 0x0001);    // the smallest subnormal one
  CHECK(fp16_bits(0x1p-25f) == 0x0000);    // a tie: even
  CHECK(fp16_bits(0x1.8p-24f) == 0x0002);  // a tie: even
  CHECK(fp16_bits(0x1p-14f - 0x1p-25f) == 0x0400);
  CHECK(fp16_bits(-0.333251953125f) == 0xb555);
  CHECK(std::isnan(from_fp16(fp16_bits(std::numeric_limits<float>::quiet_NaN()))));
}

TEST_CASE("16-bit numbers: every one reads back as itself") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (!std::isnan(from_bf16(half)) && bf16_bits(from_bf16(half)) != half) FAIL(bits);
    if (!std::isnan(from_fp16(half)) && fp16_bits(from_fp16(half)) != half) FAIL(bits);
  }
}

TEST_CASE("a bf16 or fp16 job run in its own types: the plan's bytes to the byte, and within 5 % of f64") {
  for (const char* model : {tiny_gpt, tiny_llama})
    for (const char* precision : {"bf16", "fp16"}) {
      CAPTURE(model, precision);
      Job job = tiny_job({model, "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}",
                          "{zero_stage: 1}", "", "", 8});
      job.training.precision = precision == std::string("bf16") ? Dtype::bf16 : Dtype::fp16;
      const Plan plan = compile(job);
      const Execution run = checked_run(plan, ExecutionDevice::cpu_half);
      check_memory(plan, run, true);
      const AgreementTolerance within = tolerance_of(ExecutionDevice::cpu_half);
      const Agreement agreed = agreement(run, one_rank({model}), within);
      CHECK(agreed.fault == "");
      CHECK(agreed.gradients.error > 1e-4);  // rounded: f32 is at 1e-6
    }
}

}  // namespace simrun
