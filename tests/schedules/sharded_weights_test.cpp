#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "tests/jobs.h"
#include "tests/schedules/run_bytes.h"

// ZeRO stages 2 and 3: what a rank keeps, what it exchanges, and when.
namespace simrun {
namespace {

// One stage, 8 data-parallel ranks, one microbatch each.
Job job_with(int zero, std::vector<Override> overrides = {}) {
  overrides.push_back({"optimizer.zero_stage", std::to_string(zero)});
  overrides.push_back({"training.global_batch_size", "16"});
  return job_from(small_gpt(4, 1, 1, 1), overrides);
}

// Elements that one rank sends or receives per step in ring collectives of the data-parallel group, in units
// of (n - 1) / n of the model.
std::map<Opcode, double> exchanged(const Plan& plan) {
  std::map<Opcode, double> elements;
  for (const Program& program : plan.programs)
    for (const Entry& entry : program.entries)
      for (const Instruction& what : plan.segments[entry.segment].instructions) {
        if (!is_communication(what.opcode) || what.label == "gradient norm") continue;
        const Index whole = what.opcode == Opcode::all_gather ? what.outputs[0] : what.inputs[0];
        const double times = what.opcode == Opcode::all_reduce ? 2 : 1;
        elements[what.opcode] += times * static_cast<double>(plan.buffers[whole].elements()) /
                                 static_cast<double>(plan.job.parameters);
      }
  return elements;
}

}  // namespace

TEST_CASE("each ZeRO stage keeps one kind of state less: 16 bytes per parameter become 16/8") {
  std::map<int, std::map<Category, std::int64_t>> kept;
  for (int zero = 0; zero <= 3; ++zero) kept[zero] = run_bytes(compile(job_with(zero)));
  const auto per_parameter = [&](int zero, Category category) {
    return static_cast<double>(kept[zero][category]) /
           static_cast<double>(compile(job_with(0)).job.parameters);
  };
  // fp16 weights, fp32 gradients, fp32 main weights and two moments. Padding to 128 x 8 stays below 1 %.
  for (int zero = 0; zero <= 3; ++zero) {
    CAPTURE(zero);
    CHECK(per_parameter(zero, Category::weights) == Approx(zero == 3 ? 2.0 / 8 : 2.0).epsilon(0.01));
    CHECK(per_parameter(zero, Category::gradients) == Approx(zero >= 2 ? 4.0 / 8 : 4.0).epsilon(0.01));
    CHECK(per_parameter(zero, Category::optimizer) == Approx(zero >= 1 ? 12.0 / 8 : 12.0).epsilon(0.01));
  }
}

TEST_CASE("ZeRO-3 moves 1.5 times the elements of data parallelism, ZeRO-1 and 2 as many") {
  // With one microbatch: all-reduce 2; reduce-scatter 1 and all-gather 1; and a gather for each of two
  // passes.
  CHECK(exchanged(compile(job_with(0)))[Opcode::all_reduce] == Approx(2).epsilon(0.01));
  for (const int zero : {1, 2}) {
    std::map<Opcode, double> of = exchanged(compile(job_with(zero)));
    CHECK(of[Opcode::reduce_scatter] == Approx(1).epsilon(0.01));
    CHECK(of[Opcode::all_gather] == Approx(1).epsilon(0.01));
  }
  std::map<Opcode, double> three = exchanged(compile(job_with(3)));
  CHECK(three[Opcode::reduce_scatter] == Approx(1).epsilon(0.01));
  CHECK(three[Opcode::all_gather] == Approx(2).epsilon(0.01));
  CHECK(three[Opcode::all_reduce] == 0);
}

TEST_CASE("ZeRO-3 gathers a layer while the one before it computes") {
  for (const bool prefetch : {true, false}) {
    CAPTURE(prefetch);
    const Plan plan = compile(job_with(3, {{"optimizer.overlap_param_gather", prefetch ? "true" : "false"}}));
    const Segment& forward = plan.segments[0];
    REQUIRE(forward.kind == PassKind::forward);
    // Gathers issued before the first instruction of each layer.
    std::map<std::int32_t, int> before;
    int gathers = 0;
    for (const Instruction& what : forward.instructions) {
      if (what.opcode == Opcode::all_gather) ++gathers;
      if (what.stream == compute_stream && what.opcode != Opcode::free && what.layer >= 0)
        before.try_emplace(what.layer, gathers);
    }
    // What is outside the layers (embeddings, final norm, head) is one unit, the first; then four layers.
    for (std::int32_t layer = 0; layer < 4; ++layer)
      CHECK(before[layer] == (prefetch ? std::min(layer + 3, 5) : layer + 2));
  }
}

TEST_CASE(
    "a layer is one unit of ZeRO-3, whatever its weights' gradients are summed over, unless buckets are "
    "cut") {
  // Of 4 layers under sequence parallelism the norms' gradients are summed over tensor-parallel ranks too: a
  // bucket of their own. Gathers issued before each layer's first kernel.
  const auto gathered = [](const std::vector<Override>& more) {
    std::vector<Override> overrides{{"optimizer.zero_stage", "3"}, {"parallelism.sequence_parallel", "true"}};
    overrides.insert(overrides.end(), more.begin(), more.end());
    const Plan plan = compile(job_from(small_gpt(4, 2, 1, 1), overrides));
    const auto forward = std::ranges::find(plan.segments, PassKind::forward, &Segment::kind);
    std::vector<int> before(4, -1);
    int gathers = 0;
    for (const Instruction& what : forward->instructions) {
      if (what.opcode == Opcode::all_gather && what.label == "parameter gather") ++gathers;
      if (what.stream != compute_stream || what.opcode == Opcode::free || what.layer < 0) continue;
      int& own = before[static_cast<std::size_t>(what.layer)];
      if (own < 0) own = gathers;
    }
    return before;
  };
  const std::vector<int> units = gathered({});
  const int root = units[0] - 4;  // buckets outside the layers
  CHECK(units == std::vector<int>{root + 4, root + 6, root + 8, root + 8});
  const std::vector<int> unhurried = gathered({{"optimizer.overlap_param_gather", "false"}});
  CHECK(unhurried == std::vector<int>{root + 2, root + 4, root + 6, root + 8});
  // Pieces of 4 M elements: the next one alone is gathered ahead.
  const std::vector<int> pieces = gathered({{"optimizer.gather_bucket_size", "4000000"}});
  CHECK(pieces[1] - pieces[0] > 2);
  CHECK(pieces[0] < root + 4);
}

TEST_CASE("plans of ZeRO-2 and 3 are valid under every kind of schedule, layout and recompute") {
  const std::vector<std::pair<const char*, const char*>> schedules = {
      {"1f1b", "1"}, {"zb_h1", "1"}, {"interleaved_1f1b", "2"}, {"zb_v", "2"}, {"dualpipe_v", "2"}};
  for (const auto& [schedule, virtual_stages] : schedules)
    for (const char* zero : {"2", "3"})
      for (const char* recompute : {"none", "full"}) {
        CAPTURE(schedule, zero, recompute);
        const Plan plan = compile(job_from(
            small_gpt(8, 2, 2, 1), {{"parallelism.pipeline_schedule", schedule},
                                    {"parallelism.virtual_pipeline_model_parallel_size", virtual_stages},
                                    {"parallelism.sequence_parallel", "true"},
                                    {"model.untie_embeddings_and_output_weights", "true"},
                                    {"optimizer.zero_stage", zero},
                                    {"recompute.granularity", recompute}}));
        CHECK(lint(plan) == std::vector<std::string>{});
        // A full gradient buffer is written afresh by each microbatch; shards add up, but for the first.
        for (const Program& program : plan.programs) {
          std::set<Index> summed;
          for (const Entry& entry : program.entries)
            for (const Instruction& what : plan.segments[entry.segment].instructions) {
              if (what.label != "gradient reduction" || what.opcode != Opcode::reduce_scatter) continue;
              const bool into_shard = plan.buffers[what.outputs[0]].scope == Scope::run;
              REQUIRE(into_shard == summed.insert(what.inputs[0]).second);
            }
          REQUIRE(!summed.empty());
        }
      }
}

TEST_CASE("ZeRO-2 and 3 refuse what would gather over two copies of a stage") {
  const std::vector<Override> copies = {{"parallelism.pipeline_schedule", "dualpipe"},
                                        {"optimizer.zero_stage", "2"}};
  CHECK_THROWS_WITH(compile(job_from(small_gpt(8, 1, 4, 1), copies)),
                    Catch::Contains("other copy of a stage"));
  const std::vector<Override> tied = {{"parallelism.pipeline_schedule", "zb_v"},
                                      {"parallelism.virtual_pipeline_model_parallel_size", "2"},
                                      {"optimizer.zero_stage", "3"}};
  CHECK_THROWS_WITH(compile(job_from(small_gpt(8, 1, 4, 1), tied)), Catch::Contains("tied word embeddings"));
}

}  // namespace simrun
