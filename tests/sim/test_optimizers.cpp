#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "schedules/summary.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

// Optimizers and types in which gradients are reduced, simulated.
namespace simrun {
namespace {

Summary summary_with(std::vector<Override> overrides) {
  overrides.push_back({"parallelism.sequence_parallel", "true"});
  const Plan plan = compile(job_from(small_gpt(4, 2, 1, 1), overrides));
  return summarize(plan, simulate(plan));
}

}  // namespace

TEST_CASE("every optimizer runs under every ZeRO stage, with and without overlap") {
  const char* const name = GENERATE("adam", "adamw", "sgd", "adafactor", "muon");
  double before = 0;
  for (const char* zero : {"0", "1", "2", "3"})
    for (const char* overlap : {"false", "true"}) {
      if (zero[0] >= '2' && overlap == std::string("false")) continue;
      CAPTURE(name, zero, overlap);
      const Summary summary = summary_with({{"optimizer.name", name},
                                            {"optimizer.zero_stage", zero},
                                            {"optimizer.overlap_grad_reduce", overlap},
                                            {"optimizer.grad_reduce_dtype", "bf16"}});
      CHECK(summary.step_time_s > 0);
      // Each stage keeps less.
      const auto peak = static_cast<double>(summary.peak_memory_bytes);
      if (before > 0) CHECK(peak <= before * 1.001);
      before = peak;
    }
}

TEST_CASE("optimizers that keep less leave more memory, and Muon's products take time") {
  const auto with = [](const char* name) { return summary_with({{"optimizer.name", name}}); };
  const Summary adam = with("adam"), sgd = with("sgd"), adafactor = with("adafactor"), muon = with("muon");
  CHECK(sgd.peak_memory_bytes < adam.peak_memory_bytes);
  CHECK(adafactor.peak_memory_bytes < sgd.peak_memory_bytes);
  CHECK(muon.compute_s > adam.compute_s);
  CHECK(muon.hardware_flops_per_step > adam.hardware_flops_per_step);
  CHECK(muon.model_flops_per_step == adam.model_flops_per_step);
}

TEST_CASE("gradients reduced in bf16 halve the time of their exposed reduction but for the casts") {
  const auto exposed = [](const char* type) {
    return summary_with({{"optimizer.grad_reduce_dtype", type}, {"optimizer.clip_grad", "0"}})
        .exposed_by_traffic_s[static_cast<std::size_t>(Traffic::data)];
  };
  CHECK(exposed("bf16") < exposed("fp32") * 0.75);
  CHECK(exposed("bf16") > exposed("fp32") * 0.5);
}

}  // namespace simrun
