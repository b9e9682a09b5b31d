#include <catch2/catch.hpp>
#include <cmath>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "tests/jobs.h"
#include "tests/schedules/plan_bytes.h"

// Bytes that optimizers keep per parameter, and types in which gradients are kept and reduced.
namespace simrun {
namespace {

// All parameters of this model are multiples of 1,024 elements, so that up to dp 1,024 nothing is padded. One
// microbatch per rank.
Plan plan_with(int gpus, std::vector<Override> overrides) {
  overrides.push_back({"training.global_batch_size", std::to_string(2 * gpus)});
  overrides.push_back({"cluster.nodes", std::to_string((gpus + 7) / 8)});
  overrides.push_back({"cluster.gpus_per_node", std::to_string(gpus < 8 ? gpus : 8)});
  overrides.push_back({"cluster.nics_per_node", std::to_string(gpus < 8 ? gpus : 8)});
  return compile(job_from(small_gpt(4, 1, 1, 1), overrides));
}

}  // namespace

TEST_CASE("ZeRO's table 1: GB of model states of 7.5 B parameters by stage and data-parallel size") {
  // Rajbhandari et al. 2020, arXiv 1910.02054, table 1 and figure 1: fp16 weights and gradients, K = 12.
  // 16; 4 + 12/N; 2 + 14/N; 16/N bytes per parameter.
  struct Row {
    int gpus;
    double stage_1, stage_2, stage_3;
  };
  const std::vector<Row> table = {{1, 120, 120, 120},     {4, 52.5, 41.3, 30},     {16, 35.6, 21.6, 7.5},
                                  {64, 31.4, 16.6, 1.88}, {256, 30.4, 15.4, 0.47}, {1024, 30.1, 15.1, 0.12}};
  for (const Row& row : table) {
    CAPTURE(row.gpus);
    const auto gigabytes = [&](const char* stage) {
      return 7.5 * all_kept_bytes_per_parameter(plan_with(
                       row.gpus, {{"optimizer.zero_stage", stage}, {"optimizer.main_grads_dtype", "fp16"}}));
    };
    CHECK(gigabytes("0") == Approx(120).epsilon(1e-9));
    // To the digits that the paper prints.
    CHECK(std::abs(gigabytes("1") - row.stage_1) <= 0.051);
    CHECK(std::abs(gigabytes("2") - row.stage_2) <= 0.051);
    CHECK(std::abs(gigabytes("3") - row.stage_3) <= 0.0051);
  }
}

TEST_CASE("each type and rule keeps the bytes that a pencil finds") {
  struct Case {
    std::vector<Override> optimizer;
    double gradients, state;
  };
  const std::vector<Case> cases = {
      {{}, 4, 4 + 4 + 4},
      {{{"name", "adamw"}}, 4, 4 + 4 + 4},
      // DeepSeek-V3: bf16 moments beside fp32 main weights and gradients.
      {{{"exp_avg_dtype", "bf16"}, {"exp_avg_sq_dtype", "bf16"}}, 4, 4 + 2 + 2},
      {{{"main_params_dtype", "none"}, {"main_grads_dtype", "bf16"}}, 2, 4 + 4},
      {{{"main_params_dtype", "fp16"}, {"exp_avg_dtype", "fp8"}, {"exp_avg_sq_dtype", "fp16"}}, 4, 2 + 1 + 2},
      // Blocks of 256 bytes with a scale of 4.
      {{{"exp_avg_dtype", "uint8"}, {"exp_avg_sq_dtype", "uint8"}}, 4, 4 + 2 * (1 + 4.0 / 256)},
      {{{"name", "sgd"}}, 4, 4 + 4},
      {{{"name", "sgd"}, {"exp_avg_dtype", "bf16"}}, 4, 4 + 2},
      {{{"name", "sgd"}, {"sgd_momentum", "0"}}, 4, 4},
      {{{"name", "sgd"}, {"sgd_momentum", "0"}, {"main_params_dtype", "none"}}, 4, 0}};
  for (const Case& of : cases)
    for (const int zero : {0, 1, 2, 3}) {
      std::vector<Override> overrides{{"optimizer.zero_stage", std::to_string(zero)}};
      for (const Override& key : of.optimizer) overrides.push_back({"optimizer." + key.key, key.value});
      CAPTURE(zero, of.gradients, of.state);
      std::map<Category, double> kept = kept_bytes_per_parameter(plan_with(8, overrides));
      CHECK(kept[Category::weights] == Approx(zero == 3 ? 2.0 / 8 : 2));
      CHECK(kept[Category::gradients] == Approx(zero >= 2 ? of.gradients / 8 : of.gradients));
      CHECK(kept[Category::optimizer] == Approx(zero >= 1 ? of.state / 8 : of.state).margin(1e-12));
    }
}

TEST_CASE("gradients reduced in bf16 move half the bytes of fp32, in fp8 a quarter, at every ZeRO stage") {
  for (const int zero : {0, 1, 2, 3})
    for (const char* overlap : {"false", "true"}) {
      if (zero >= 2 && overlap == std::string("false")) continue;
      CAPTURE(zero, overlap);
      const auto reduced = [&](const char* kept, const char* type) {
        const Plan plan = plan_with(8, {{"optimizer.zero_stage", std::to_string(zero)},
                                        {"optimizer.overlap_grad_reduce", overlap},
                                        {"optimizer.main_grads_dtype", kept},
                                        {"optimizer.grad_reduce_dtype", type}});
        CHECK(lint(plan) == std::vector<std::string>{});
        const Opcode opcode = zero == 0 ? Opcode::all_reduce : Opcode::reduce_scatter;
        return collective_bytes(plan, opcode, "gradient reduction") /
               static_cast<double>(plan.job.parameters);
      };
      CHECK(reduced("fp32", "fp32") == Approx(4));
      CHECK(reduced("fp32", "bf16") == Approx(2));
      CHECK(reduced("fp32", "fp8") == Approx(1));
      CHECK(reduced("bf16", "bf16") == Approx(2));
      CHECK(reduced("bf16", "fp32") == Approx(4));  // FSDP2's reduce_dtype wider than the gradients
    }
}

TEST_CASE("compression adds two casts per bucket, and none where gradients are kept in that type") {
  const auto casts = [](const char* kept, const char* type, int gpus) {
    const Plan plan =
        plan_with(gpus, {{"optimizer.main_grads_dtype", kept}, {"optimizer.grad_reduce_dtype", type}});
    int count = 0;
    for (const Segment& segment : plan.segments)
      for (const Instruction& what : segment.instructions)
        if (what.label.find("compression") != std::string::npos) ++count;
    return count;
  };
  CHECK(casts("fp32", "bf16", 8) == 2);  // one bucket
  CHECK(casts("bf16", "bf16", 8) == 0);
  CHECK(casts("fp32", "bf16", 1) == 0);  // nothing is summed
}

}  // namespace simrun
