#include <algorithm>
#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "schedules/instruction_flops.h"
#include "schedules/lint.h"
#include "schedules/muon_update.h"
#include "tests/jobs.h"
#include "tests/schedules/plan_bytes.h"

// Adafactor and Muon: what they keep, compute and exchange.
namespace simrun {
namespace {

// Four layers of h = 1,024: qkv 3072 x 1024, projection 1024 x 1024, fc1 4096 x 1024, fc2 1024 x 4096.
Plan plan_with(int dp, int tp, std::vector<Override> optimizer) {
  std::vector<Override> overrides;
  for (const Override& key : optimizer) overrides.push_back({"optimizer." + key.key, key.value});
  const std::string gpus = std::to_string(dp * tp);
  overrides.push_back({"cluster.gpus_per_node", gpus});
  overrides.push_back({"cluster.nics_per_node", gpus});
  overrides.push_back({"training.global_batch_size", std::to_string(2 * dp)});
  return compile(job_from(small_gpt(4, tp, 1, 1), overrides));
}

double state_elements(const Plan& plan, const std::string& what) {
  double elements = 0;
  for (const Buffer& buffer : plan.buffers)
    if (buffer.category == Category::optimizer && buffer.scope == Scope::run &&
        buffer.name.find(what) != std::string::npos)
      elements += static_cast<double>(buffer.elements());
  return elements;
}

double optimizer_flops(const Plan& plan) {
  double flops = 0;
  for (const Segment& segment : plan.segments)
    for (const Instruction& what : segment.instructions)
      if (what.phase == Phase::optimizer) flops += instruction_flops(plan, what);
  return flops;
}

}  // namespace

TEST_CASE("Adafactor keeps a row and a column of second moments per matrix, and all of a vector's") {
  const Plan plan = plan_with(1, 1, {{"name", "adafactor"}});
  // Output x input features. Rows: 4 layers x (3072 + 1024 + 4096 + 1024), 51,200 words, 512 positions.
  // Vectors: 4 x (4 norms of 1024, biases 3072 + 1024 + 4096 + 1024), final norm 2 x 1024.
  const double rows = 4 * (3072 + 1024 + 4096 + 1024) + 51200 + 512;
  const double vectors = 4 * (4 * 1024 + 3072 + 1024 + 4096 + 1024) + 2 * 1024;
  const double columns = 4 * (1024 + 1024 + 1024 + 4096) + 1024 + 1024;
  CHECK(state_elements(plan, "by row") == rows + vectors);
  CHECK(state_elements(plan, "by column") == columns);
  CHECK(state_elements(plan, "exp_avg") == 0);
  CHECK(state_elements(plan, "main weights") == static_cast<double>(plan.job.parameters));
}

TEST_CASE("Adafactor's rows are cut by ZeRO, and its sums over rows and columns are all-reduced") {
  const Plan plan = plan_with(8, 1, {{"name", "adafactor"}, {"zero_stage", "1"}});
  const double rows = 4 * (3072 + 1024 + 4096 + 1024) + 51200 + 512;
  const double vectors = 4 * (4 * 1024 + 3072 + 1024 + 4096 + 1024) + 2 * 1024;
  const double columns = 4 * (1024 + 1024 + 1024 + 4096) + 1024 + 1024;
  CHECK(state_elements(plan, "by row") == (rows + vectors) / 8);
  CHECK(state_elements(plan, "by column") == columns);
  CHECK(collective_bytes(plan, Opcode::all_reduce, "adafactor column sums") == 4 * columns);
  // A shard of a flat bucket ends within a row, and has part of a vector.
  CHECK(collective_bytes(plan, Opcode::all_reduce, "adafactor row sums") == 4 * (rows + vectors));
  // One number per parameter: 4 x 12, two embeddings, final norm.
  CHECK(collective_bytes(plan, Opcode::all_reduce, "adafactor update norms") == 4 * (4 * 12 + 2 + 2));
  // Whole matrices on every rank need none of it.
  for (const char* sums : {"adafactor column sums", "adafactor row sums", "adafactor update norms"})
    CHECK(collective_bytes(plan_with(8, 1, {{"name", "adafactor"}}), Opcode::all_reduce, sums) == 0);
}

TEST_CASE("Adafactor's sums over a dimension that tensor parallelism cuts are all-reduced") {
  const Plan plan = plan_with(1, 2, {{"name", "adafactor"}});
  // Rows are cut in qkv, fc1 and the word table: their columns. Columns are in projection and fc2: their
  // rows.
  CHECK(collective_bytes(plan, Opcode::all_reduce, "adafactor column sums") == 4 * (4 * 2 * 1024 + 1024));
  CHECK(collective_bytes(plan, Opcode::all_reduce, "adafactor row sums") == 4 * (4 * 2 * 1024));
}

TEST_CASE("Muon keeps one moment of hidden matrices and two of the rest") {
  const Plan plan = plan_with(1, 1, {{"name", "muon"}});
  const double hidden = 4 * 12.0 * 1024 * 1024;
  CHECK(state_elements(plan, "momentum") == hidden);
  CHECK(state_elements(plan, "exp_avg_sq") == static_cast<double>(plan.job.parameters) - hidden);
  // 2 weight + 4 gradient + 4 main + 4 momentum per hidden parameter, 4 more for the others.
  const auto parameters = static_cast<double>(plan.job.parameters);
  CHECK(all_kept_bytes_per_parameter(plan) ==
        Approx((14 * hidden + 18 * (parameters - hidden)) / parameters));
}

TEST_CASE("five Newton-Schulz iterations of an m x n matrix take 5 (4 m^2 n + 2 m^3) FLOPs") {
  CHECK(newton_schulz_flops(2, 3) == 5 * (4 * 4 * 3 + 2 * 8));
  CHECK(newton_schulz_flops(3, 2) == newton_schulz_flops(2, 3));
  // In units of 1024^3: qkv 5 (4 x 3 + 2), projection 5 (4 + 2), fc1 and fc2 5 (4 x 4 + 2) each.
  const double unit = 1024.0 * 1024 * 1024;
  const double all = 4 * 5 * (14 + 6 + 18 + 18) * unit;
  CHECK(optimizer_flops(plan_with(1, 1, {{"name", "muon"}})) == all);
  CHECK(optimizer_flops(plan_with(8, 1, {{"name", "muon"}})) == all);  // every replica does all of it
  // Tensor-parallel ranks all do whole matrices.
  CHECK(optimizer_flops(plan_with(1, 2, {{"name", "muon"}})) == all);
  // A bucket of 4 layers of 12 units over 8 shards of 6: the fullest has parts of fc1 and fc2, 36 of 4 x 56.
  CHECK(optimizer_flops(plan_with(8, 1, {{"name", "muon"}, {"zero_stage", "1"}})) <= all / 4);
  CHECK(optimizer_flops(plan_with(8, 1, {{"name", "muon"}, {"zero_stage", "1"}})) >= all / 8);
}

// Which of the program's matrices take time, and how many it has.
struct Matrices {
  std::int64_t timed = 0, all = 0, most_together = 0;
};
static Matrices matrices_of(const Plan& plan) {
  Matrices matrices;
  for (const Segment& segment : plan.segments)
    for (const Instruction& what : segment.instructions) {
      if (what.label != "muon normalisation") continue;
      const std::int64_t count = plan.buffers[what.outputs[0]].dims[0].extent;
      matrices.all += count;
      if (what.work_table < 0) matrices.timed += count;
      matrices.most_together = std::max(matrices.most_together, count);
    }
  return matrices;
}

TEST_CASE("a sharded Muon's program has every matrix, of which the fullest shard's take time") {
  const Matrices whole = matrices_of(plan_with(8, 1, {{"name", "muon"}}));
  CHECK(whole.all == 4 * 4);
  CHECK(whole.timed == 4 * 4);
  const Matrices sharded = matrices_of(plan_with(8, 1, {{"name", "muon"}, {"zero_stage", "1"}}));
  CHECK(sharded.all == 4 * 4);
  CHECK(sharded.timed <= 4);  // 48 h^2 over 8 shards of 6: of 4, 4, 1 and 3
}

TEST_CASE("a sharded Muon's experts are made together in no greater number than a shard has") {
  const auto experts = [](const char* zero) {
    return matrices_of(compile(job_from(small_gpt(2, 1, 1, 1), {{"model.num_experts", "8"},
                                                                {"optimizer.name", "muon"},
                                                                {"optimizer.zero_stage", zero},
                                                                {"cluster.gpus_per_node", "8"},
                                                                {"cluster.nics_per_node", "8"},
                                                                {"training.global_batch_size", "16"}})));
  };
  CHECK(experts("0").most_together == 8);
  CHECK(experts("1").all == experts("0").all);
  CHECK(experts("1").most_together < 8);
  CHECK(experts("1").timed < experts("1").all);
}

TEST_CASE("Distributed Muon gathers updates in bf16 beside adamw's traffic: at most 1.25 times as much") {
  const Plan plan = plan_with(8, 2, {{"name", "muon"}, {"zero_stage", "1"}});
  const double hidden = 4 * 12.0 * 1024 * 1024;
  CHECK(collective_bytes(plan, Opcode::all_gather, "muon gather") == 2 * hidden / 2);  // of a tp rank
  // The fullest shard's matrices, whole.
  const double over_tp = collective_bytes(plan, Opcode::all_gather, "muon gather over tp");
  CHECK(over_tp >= 2 * hidden / 8);
  CHECK(over_tp <= 2 * hidden / 4);
}

TEST_CASE("every optimizer has valid plans under every ZeRO stage, overlap, layout and schedule") {
  const char* const name = GENERATE("adam", "adamw", "sgd", "adafactor", "muon");
  const char* const schedule = GENERATE("1f1b", "zb_h1");
  for (const int zero : {0, 1, 2, 3})
    for (const char* overlap : {"false", "true"}) {
      if (zero >= 2 && overlap == std::string("false")) continue;
      for (const char* reduced : {"fp32", "bf16"}) {
        CAPTURE(name, schedule, zero, overlap, reduced);
        const Plan plan =
            compile(job_from(small_gpt(8, 2, 2, 1), {{"optimizer.name", name},
                                                     {"parallelism.pipeline_schedule", schedule},
                                                     {"parallelism.sequence_parallel", "true"},
                                                     {"model.untie_embeddings_and_output_weights", "true"},
                                                     {"optimizer.zero_stage", std::to_string(zero)},
                                                     {"optimizer.overlap_grad_reduce", overlap},
                                                     {"optimizer.grad_reduce_dtype", reduced}}));
        CHECK(lint(plan) == std::vector<std::string>{});
      }
    }
}

TEST_CASE("Adafactor and Muon refuse shards that two copies of a stage share") {
  for (const char* name : {"adafactor", "muon"}) {
    const std::vector<Override> copies = {{"parallelism.pipeline_schedule", "dualpipe"},
                                          {"optimizer.name", name},
                                          {"optimizer.zero_stage", "1"}};
    CHECK_THROWS_WITH(compile(job_from(small_gpt(8, 1, 4, 1), copies)),
                      Catch::Contains("other copy of a stage"));
  }
}

}  // namespace simrun
