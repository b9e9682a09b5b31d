#include <catch2/catch.hpp>
#include <set>

#include "backend/reference_job.h"
#include "planner/galvatron_search.h"
#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/jobs.h"

// Strategies by layer: whatever Galvatron's search proposes computes what one rank does.
namespace simrun {
namespace {

constexpr const char* four_layers =
    "simrun: 1\n"
    "model: {model_type: gpt, num_layers: 4, hidden_size: 16, num_attention_heads: 4, vocab_size: 128,\n"
    "  max_position_embeddings: 8, attention_dropout: 0, hidden_dropout: 0}\n"
    "training: {seq_length: 8, micro_batch_size: 1, global_batch_size: 8, precision: fp32, attention: "
    "unfused}\n"
    "cluster: {from: dgx_a100, nodes: 1, gpus_per_node: 4}\n";

constexpr const char* with_experts =
    "simrun: 1\n"
    "model: {model_type: mixtral, num_hidden_layers: 4, hidden_size: 16, intermediate_size: 16,\n"
    "  num_attention_heads: 4, num_key_value_heads: 4, vocab_size: 128, max_position_embeddings: 8,\n"
    "  num_local_experts: 4, num_experts_per_tok: 2}\n"
    "training: {seq_length: 8, micro_batch_size: 1, global_batch_size: 8, precision: fp32, attention: "
    "unfused}\n"
    "cluster: {from: dgx_a100, nodes: 1, gpus_per_node: 4}\n";

void check_equals_one_rank(const std::vector<Override>& overrides, const char* text = four_layers) {
  const Job job = job_from(text, overrides);
  check_equal(checked_run(compile(job)), checked_run(compile(reference_job(job))), 1e-10);
}

GalvatronPlan plan_with(const GalvatronPoint& point, std::vector<std::int64_t> stage_ends,
                        std::vector<LayerStrategy> layers) {
  GalvatronPlan plan;
  plan.point = point;
  plan.microbatches = 8 / point.sequences;
  plan.stage_ranks = 4 / point.pipeline;
  for (const std::int64_t end : stage_ends)
    plan.stages.push_back({plan.stages.empty() ? 0 : plan.stages.back().last_layer, end, 0, 0});
  plan.layers = std::move(layers);
  return plan;
}

}  // namespace

TEST_CASE("recompute and ZeRO-3 of some layers change nothing that is computed") {
  for (const char* layers : {"0", "1-2", "0,3"})
    for (const char* zero_stage : {"0", "1", "2"})
      for (const char* pipeline : {"1", "2"}) {
        CAPTURE(layers, zero_stage, pipeline);
        check_equals_one_rank({{"parallelism.pipeline_model_parallel_size", pipeline},
                               {"optimizer.zero_stage", zero_stage},
                               {"optimizer.zero_3_layers", "\"" + std::string(layers) + "\""},
                               {"recompute", "{granularity: full, layers: \"1,3\"}"}});
      }
}

TEST_CASE("layers of unlike splits, sharded and recomputed or not, compute what one rank does") {
  const LayerSplit data{1, 1}, tensor{2, 1}, tensor_4{4, 1}, ulysses{1, 2}, both{2, 2};
  const std::vector<GalvatronPlan> plans{
      plan_with({1, 4, 1, tensor}, {4},
                {{tensor, true, true}, {data, false, false}, {ulysses, true, false}, {both, false, true}}),
      plan_with({1, 4, 2, data}, {4},
                {{data, true, false}, {tensor_4, false, false}, {data, false, true}, {data, true, true}}),
      plan_with({1, 2, 1, tensor_4}, {4},
                {{tensor, false, true}, {ulysses, true, true}, {both, false, false}, {tensor, true, false}}),
      plan_with({2, 2, 1, tensor}, {3, 4},
                {{data, true, false}, {tensor, false, true}, {ulysses, false, false}, {data, false, true}}),
      plan_with({2, 4, 1, data}, {1, 4},
                {{ulysses, false, false}, {data, true, true}, {tensor, true, false}, {data, false, false}})};
  for (const GalvatronPlan& plan : plans) {
    CAPTURE(plan.point.pipeline, plan.point.sequences);
    check_equals_one_rank(galvatron_overrides(job_from(four_layers), plan));
  }
}

namespace {

// What the proposals had that were run, within limits of so many KiB.
struct Proposed {
  bool are_unlike = false;
  std::set<std::int64_t> pipelines, experts, contexts;
};

Proposed check_proposals(const char* text, const std::vector<Override>& overrides,
                         const std::vector<std::int64_t>& limits, std::size_t plans) {
  const Job job = job_from(text, overrides);
  LayerPrices prices(job);
  Proposed proposed;
  for (const std::int64_t kib : limits) {
    const GalvatronProposals found = galvatron_plans(job, prices, {.max_memory = kib << 10, .plans = plans});
    for (const auto* of : {&found.mixed, &found.uniform})
      for (const GalvatronPlan& plan : *of) {
        CAPTURE(kib, plan.point.pipeline, plan.microbatches, plan.point.zero_stage, plan.point.ends.tensor,
                plan.point.ends.context, plan.point.ends.expert, plan.point.ends.expert_tensor);
        proposed.pipelines.insert(plan.point.pipeline);
        proposed.experts.insert(plan.point.ends.expert);
        proposed.contexts.insert(plan.point.ends.context);
        proposed.are_unlike |= !plan.is_uniform();
        std::vector<Override> of_plan = overrides;
        for (Override& one : galvatron_overrides(job, plan)) of_plan.push_back(std::move(one));
        check_equals_one_rank(of_plan, text);
      }
  }
  return proposed;
}

}  // namespace

TEST_CASE("every plan that the search proposes runs and computes what one rank does") {
  const Proposed proposed = check_proposals(four_layers, {}, {0, 300, 200, 150}, 20);
  CHECK(proposed.are_unlike);
  CHECK(proposed.pipelines == std::set<std::int64_t>{1, 2, 4});
}

TEST_CASE("plans of experts, over ranks of their own number, compute what one rank does") {
  const Proposed proposed = check_proposals(with_experts, {}, {0, 400, 250}, 12);
  CHECK(proposed.are_unlike);
  CHECK(proposed.experts.contains(4));
  CHECK(proposed.experts.size() > 1);
  CHECK(proposed.pipelines.size() > 1);
}

TEST_CASE("plans of adapters beside frozen layers, sharded or not, compute what one rank does") {
  const std::vector<Override> lora{{"training.lora", "{rank: 2, targets: [qkv, fc1]}"}};
  const Proposed proposed = check_proposals(four_layers, lora, {0, 120, 80}, 8);
  CHECK(proposed.pipelines.size() > 1);
}

}  // namespace simrun
