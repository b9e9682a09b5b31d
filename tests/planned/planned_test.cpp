#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "backend/reference_job.h"
#include "planner/alpa_outcome.h"
#include "planner/balanced_plans.h"
#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/jobs.h"

// What a planner finds is a job like any other: its plan passes the linter, runs, and computes what one rank
// does.
namespace simrun {
namespace {

constexpr const char* tiny_model =
    "simrun: 1\n"
    "model: {model_type: gpt, num_layers: 3, hidden_size: 16, num_attention_heads: 4, vocab_size: 128,\n"
    "  max_position_embeddings: 8, attention_dropout: 0, hidden_dropout: 0}\n"
    "training: {seq_length: 8, micro_batch_size: 1, global_batch_size: 8, precision: fp32, attention: "
    "unfused}\n"
    "cluster: {from: dgx_a100, nodes: 1, gpus_per_node: 4}\n";

void check_computes_the_same(const std::vector<Override>& overrides, const std::string& yaml = tiny_model) {
  const Job job = job_from(yaml, overrides);
  const Execution run = checked_run(compile(job));
  check_equal(run, checked_run(compile(reference_job(job))), 1e-10);
}

}  // namespace

TEST_CASE("every plan that Alpa's two levels propose runs and computes what one rank does") {
  const Job job = job_from(tiny_model);
  const std::vector<AlpaPlan> plans = alpa_plans(job, {.plans = 100, .within = 1e9});
  std::set<std::int64_t> pipelines;
  const std::set<std::int64_t> equal{1, 2};
  for (const AlpaPlan& plan : plans) {
    CAPTURE(plan.pipeline, plan.microbatches, plan.zero_stage, plan.tensor);
    pipelines.insert(plan.pipeline);
    check_computes_the_same(alpa_overrides(plan));
  }
  // 4 stages would need 4 layers; 3 are of unlike size.
  CHECK(std::includes(pipelines.begin(), pipelines.end(), equal.begin(), equal.end()));
}

TEST_CASE("plans of stages on sub-meshes of unlike size run and compute what one rank does") {
  const std::string wide_ends =
      "simrun: 1\n"
      "model: {model_type: llama, num_hidden_layers: 3, hidden_size: 16, num_attention_heads: 4,\n"
      "  num_key_value_heads: 4, intermediate_size: 32, vocab_size: 4096}\n"
      "training: {seq_length: 8, micro_batch_size: 1, global_batch_size: 16, precision: fp32}\n"
      "cluster: {from: dgx_a100, nodes: 1, gpus_per_node: 8}\n";
  std::set<std::vector<std::int64_t>> shapes;
  for (const std::int64_t microbatches : {2, 4, 8, 16}) {
    const Job job = job_from(wide_ends);
    for (const AlpaPlan& plan : alpa_plans(job, {.microbatches = microbatches})) {
      if (!plan.unlike) continue;
      std::vector<std::int64_t> sizes;
      for (const AlpaStage& stage : plan.stages) sizes.push_back(stage.mesh.devices());
      CAPTURE(plan.pipeline, plan.microbatches, sizes);
      CHECK(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) == 8);
      shapes.insert(sizes);
      check_computes_the_same(alpa_overrides(plan), wide_ends);
    }
  }
  CHECK_FALSE(shapes.empty());
}

TEST_CASE("proposals with recompute and with virtual stages, too, run and compute what one rank does") {
  const std::string yaml =
      "simrun: 1\n"
      "model: {model_type: llama, num_hidden_layers: 8, hidden_size: 16, num_attention_heads: 4,\n"
      "  num_key_value_heads: 4, intermediate_size: 32, vocab_size: 128}\n"
      "training: {seq_length: 8, micro_batch_size: 1, global_batch_size: 16, precision: fp32}\n"
      "cluster: {from: dgx_a100, nodes: 1, gpus_per_node: 4}\n";
  AlpaPlanning planning;
  planning.search.pipelines = {2, 4};
  planning.search.microbatches = 8;
  const AlpaOutcome outcome = plan_by_alpa(
      [&](const std::vector<Override>& overrides) { return job_from(yaml, overrides); }, planning);
  std::set<std::string> recomputes;
  std::set<std::int64_t> virtual_stages;
  for (const AlpaPlan& plan : outcome.plans) {
    CAPTURE(plan.pipeline, plan.recompute, plan.schedule, plan.virtual_stages);
    recomputes.insert(plan.recompute);
    virtual_stages.insert(plan.virtual_stages);
    check_computes_the_same(alpa_overrides(plan), yaml);
  }
  CHECK(recomputes == std::set<std::string>{"", "full", "selective"});
  CHECK(virtual_stages == std::set<std::int64_t>{1, 2});
}

TEST_CASE("where memory is short the plans split the model, and still compute the same") {
  const Job job = job_from(tiny_model);
  const AlpaPlan roomy = alpa_plans(job).front();
  const double memory = static_cast<double>(job.cluster.gpu.memory_bytes - job.cluster.reserved_bytes);
  bool splits_model = false;
  for (const double share : {0.9, 0.75, 0.6}) {
    AlpaOptions options;
    options.memory_share = share * roomy.stages.front().bytes / memory;
    for (const AlpaPlan& plan : alpa_plans(job, options)) {
      for (const AlpaStage& stage : plan.stages) CHECK(stage.bytes <= options.memory_share * memory);
      for (const OperatorChoice& choice : plan.operators)
        for (const auto& [dim, axes] : choice.split) splits_model |= dim != "batch";
      const std::string layout = alpa_overrides(plan).back().value;
      CAPTURE(share, plan.pipeline, plan.microbatches, plan.zero_stage, layout);
      check_computes_the_same(alpa_overrides(plan));
    }
  }
  CHECK(splits_model);
}

TEST_CASE("stages of unlike length, each with a mesh and a layout of its own, compute what one rank does") {
  AlpaPlan plan;
  plan.pipeline = 2;
  plan.sequences = 2;
  plan.microbatches = 4;
  plan.stages = {{0, 2, {2, 1}, 0, 0}, {2, 3, {1, 2}, 0, 0}};
  plan.axes = {{"x", 2}};
  const auto over = [](const char* dim) {
    return std::vector<std::pair<std::string, std::vector<std::string>>>{{dim, {"x"}}};
  };
  plan.operators = {{"layers[0-1].qkv", over("kv_heads"), {"batch", "sequence", "hidden"}},
                    {"layers[0-1].core_attention", over("kv_heads"), {"batch"}},
                    {"layers[0-1].attention_projection", over("kv_heads"), {"batch", "sequence", "hidden"}},
                    {"layers[0].fc1", over("ffn"), {"batch", "sequence", "hidden"}},
                    {"layers[0].mlp_activation", over("ffn"), {"batch", "sequence"}},
                    {"layers[0].fc2", over("ffn"), {"batch", "sequence", "hidden"}},
                    {"layers[1].mlp_norm", over("sequence"), {"batch"}},
                    {"layers[2].fc1", over("batch"), {"sequence", "hidden", "ffn"}}};
  for (const char* schedule : {"1f1b", "zb_h1", "zb_h2"}) {
    CAPTURE(schedule);
    plan.schedule = schedule;
    check_computes_the_same(alpa_overrides(plan));
  }
}

TEST_CASE("every balance over two kinds of GPU runs and computes what one rank does") {
  std::string mixed = tiny_model;
  mixed.resize(mixed.find("cluster:"));
  mixed +=
      "cluster: {gpus_per_node: 2, nics_per_node: 1, intra_node: {latency: 2.7 us}, inter_node: {bandwidth: "
      "50 Gb/s, "
      "latency: 30 us}, node_groups: {slow: {nodes: 1, gpu: p100_sxm2}, fast: {nodes: 1, gpu: "
      "v100_sxm2_32gb}}}\n";
  for (const char* pipeline : {"1", "2"}) {
    const std::vector<Override> written = {
        {"parallelism.pipeline_model_parallel_size", pipeline},
        {"model.num_layers", "5"},
        {"parallelism.pipeline_model_parallel_layout", *pipeline == '2' ? "\"Et*3|t*2L\"" : "\"\""}};
    const auto with = [&](const std::vector<Override>& overrides) {
      std::vector<Override> all = written;
      all.insert(all.end(), overrides.begin(), overrides.end());
      return all;
    };
    const std::vector<BalancedPlan> plans = balanced_plans(
        [&](const std::vector<Override>& overrides) { return job_from(mixed, with(overrides)); });
    CHECK(plans.size() > 1);
    for (const BalancedPlan& plan : plans) {
      CAPTURE(plan.simulated.name);
      CHECK(plan.simulated.refusal.empty());
      check_computes_the_same(with(plan.simulated.overrides), mixed);
    }
  }
}

TEST_CASE("stages of one kind of GPU each, 4 and 2 of them, compute what one rank does") {
  const std::string mixed =
      "simrun: 1\n"
      "model: {model_type: llama, num_hidden_layers: 6, hidden_size: 16, num_attention_heads: 4,\n"
      "  num_key_value_heads: 4, intermediate_size: 32, vocab_size: 128}\n"
      "training: {seq_length: 8, micro_batch_size: 2, global_batch_size: 24, precision: fp32}\n"
      "parallelism: {pipeline_model_parallel_size: 2}\n"
      "cluster: {gpus_per_node: 2, nics_per_node: 1, intra_node: {latency: 2.7 us}, inter_node: {bandwidth: "
      "50 Gb/s, latency: 30 us}, node_groups: {fast: {nodes: 2, gpu: v100_sxm2_32gb}, slow: {nodes: 1, gpu: "
      "p100_sxm2}}}\n";
  std::size_t unlike = 0;
  for (const BalancedPlan& plan :
       balanced_plans([&](const std::vector<Override>& overrides) { return job_from(mixed, overrides); })) {
    if (plan.balance.stage_data.empty()) continue;
    ++unlike;
    CAPTURE(plan.simulated.name);
    CHECK(plan.balance.stage_data == std::vector<std::int64_t>{4, 2});
    CHECK(plan.simulated.refusal.empty());
    check_computes_the_same(plan.simulated.overrides, mixed);
  }
  CHECK(unlike == 1);
}

}  // namespace simrun
