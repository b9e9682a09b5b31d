#include "planner/mixed_search.h"

#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "planner/balanced_estimate.h"
#include "planner/estimate_all.h"
#include "planner/evaluate_candidate.h"
#include "planner/layer_shares.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

// A model of 8 layers on nodes of two GPUs.
std::string mixed_job(const std::string& groups) {
  return "simrun: 1\n"
         "model: {model_type: gpt, num_layers: 8, hidden_size: 512, num_attention_heads: 4, vocab_size: "
         "8192,\n"
         "  max_position_embeddings: 256, attention_dropout: 0, hidden_dropout: 0}\n"
         "training: {seq_length: 256, micro_batch_size: 1, global_batch_size: 24, precision: fp16}\n"
         "cluster: {gpus_per_node: 2, nics_per_node: 1, intra_node: {latency: 3 us, bandwidth: 25 GB/s},\n"
         "  inter_node: {bandwidth: 100 Gb/s, latency: 10 us}, node_groups: {" +
         groups + "}}\n";
}
const std::string fast_and_slow = mixed_job("a: {nodes: 1, gpu: v100_sxm2_16gb}, b: {nodes: 1, gpu: t4}");
const std::string unlike_numbers =
    mixed_job("a: {nodes: 2, gpu: p100_sxm2}, b: {nodes: 1, gpu: v100_sxm2_32gb}");
// Beside the 2 GiB that are reserved a small GPU has 132 MiB, less than a quarter of the model's states and
// activations.
const std::string tight = mixed_job(
    "a: {nodes: 1, gpu: {from: t4, memory: 2180 MiB}}, b: {nodes: 1, gpu: {from: v100_sxm2_16gb, memory: "
    "2500 "
    "MiB}}");

const std::string tight_pair = mixed_job(
    "a: {nodes: 1, gpu: {from: t4, memory: 2240 MiB}}, b: {nodes: 1, gpu: {from: v100_sxm2_16gb, memory: "
    "2900 "
    "MiB}}");

PlanBase mixed_base(const std::string& yaml, std::vector<Override> overrides = {}) {
  LoadOptions load;
  load.overrides = std::move(overrides);
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  return plan_base(yaml, "test.yaml", load);
}

PlanSearchResult searched(const std::string& yaml, std::vector<Override> overrides = {},
                          unsigned threads = 2) {
  PlanSearchOptions options;
  options.threads = threads;
  return search_jobs(mixed_base(yaml, std::move(overrides)), options);
}

double best_step(const PlanSearchResult& of) {
  return of.best.empty() ? std::numeric_limits<double>::infinity() : of.best.front().evaluation.step_s;
}

// Estimates of every candidate that one kind's memory or another's does not rule out.
std::vector<EstimatedCandidate> balanced_estimates(const PlanBase& base) {
  PlanSearchOptions options;
  options.threads = 1;
  return estimate_all(base, 64, options).shortlist;
}

PassCosts layers_that_take(double seconds, std::size_t layers) {
  PassCosts costs;
  costs.kinds.resize(1);
  costs.kinds[0].forward_s = seconds;
  costs.kind_of.assign(layers, 0);
  return costs;
}

std::vector<std::int64_t> layers_of(const std::vector<StageContent>& stages) {
  std::vector<std::int64_t> layers;
  for (const StageContent& stage : stages) layers.push_back(stage.layers);
  return layers;
}

}  // namespace

TEST_CASE("no limit on schedule, sharding or recompute makes a mixed cluster's plan faster", "[long]") {
  for (const std::string& job : {unlike_numbers, tight}) {
    const double free = best_step(searched(job));
    CHECK(free < std::numeric_limits<double>::infinity());
    for (const Override& limit :
         {Override{"plan.fix.pipeline_schedule", "[1f1b]"}, Override{"plan.fix.zero_stage", "[1]"},
          Override{"plan.fix.recompute", "[none]"}}) {
      CAPTURE(job, limit.key);
      CHECK(free <= best_step(searched(job, {limit})) * (1 + 1e-9));
    }
  }
}

TEST_CASE("leaving the schedule open finds no worse plan than 1F1B alone, on any of several mixed clusters",
          "[long]") {
  for (const std::string& job : {fast_and_slow, tight_pair}) {
    CAPTURE(job);
    const std::vector<Override> few = {{"cluster.gpus_per_node", "1"},
                                       {"plan.fix.micro_batch_size", "[1, 2]"},
                                       {"plan.fix.recompute", "[none]"}};
    std::vector<Override> fewer = few;
    fewer.push_back({"plan.fix.pipeline_schedule", "[1f1b]"});
    const double limited = best_step(searched(job, fewer));
    CHECK(limited < std::numeric_limits<double>::infinity());
    CHECK(best_step(searched(job, few)) <= limited * (1 + 1e-9));
  }
}

TEST_CASE("a mixed cluster's plan is the same for any number of threads", "[long]") {
  const std::vector<Override> few = {{"cluster.gpus_per_node", "1"},
                                     {"plan.fix.micro_batch_size", "2"},
                                     {"plan.fix.pipeline_model_parallel_size", "2"}};
  const PlanSearchResult one = searched(fast_and_slow, few, 1), three = searched(fast_and_slow, few, 3);
  REQUIRE(one.best.size() == three.best.size());
  for (std::size_t i = 0; i < one.best.size(); ++i) {
    CHECK(one.best[i].candidate == three.best[i].candidate);
    CHECK(one.best[i].evaluation.step_s == three.best[i].evaluation.step_s);
  }
}

// A layer takes a P100 as long as it takes an A100 to do sixteen of them.
TEST_CASE("a slow GPU gets the embedding or the loss and no layer, where that is faster", "[long]") {
  const std::string job = mixed_job("a: {nodes: 2, gpu: a100_sxm_80gb}, b: {nodes: 1, gpu: p100_pcie_16gb}");
  const PlanSearchResult found = searched(job, {{"cluster.gpus_per_node", "1"},
                                                {"plan.fix.pipeline_model_parallel_size", "3"},
                                                {"plan.fix.pipeline_schedule", "[1f1b]"}});
  REQUIRE(!found.best.empty());
  const std::string& layout = found.best.front().candidate.balance.layout;
  CAPTURE(layout);
  CHECK((layout.starts_with("E|") || layout.ends_with("|L")));
}

// Of many microbatches: what else there is in a step is small beside the passes.
TEST_CASE("balanced plans take what their estimates say, within a quarter") {
  for (const std::string& job : {fast_and_slow, unlike_numbers}) {
    const PlanBase base = mixed_base(job, {{"training.global_batch_size", "96"},
                                           {"training.seq_length", "1024"},
                                           {"model.max_position_embeddings", "1024"},
                                           {"plan.fix.micro_batch_size", "[1, 4]"},
                                           {"plan.fix.zero_stage", "[0, 1]"},
                                           {"plan.fix.recompute", "[none]"}});
    std::size_t balanced = 0;
    for (const EstimatedCandidate& of : balanced_estimates(base)) {
      if (of.candidate.balance.empty() || ++balanced % 4 != 1) continue;
      CAPTURE(job, describe(of.candidate));
      const Evaluation found = evaluate_candidate(base, of.candidate, EngineChoice::fast);
      CHECK(found.refusal == "");
      CHECK(found.step_s == Approx(of.estimate.step_s).epsilon(0.25));
    }
    CHECK(balanced > 8);
  }
}

TEST_CASE("where equal shares lack memory, layers are estimated to move to the GPUs that have it") {
  const PlanBase base = mixed_base(tight, {{"plan.fix.pipeline_schedule", "[1f1b]"},
                                           {"plan.fix.tensor_model_parallel_size", "1"},
                                           {"plan.fix.pipeline_model_parallel_size", "4"}});
  bool has_moved = false;
  for (const EstimatedCandidate& of : balanced_estimates(base)) {
    CAPTURE(describe(of.candidate));
    CHECK(of.estimate.may_fit(of.estimate.room_bytes));
    has_moved = has_moved || !of.candidate.balance.layout.empty();
  }
  CHECK(has_moved);
}

TEST_CASE("each next layer goes to the rank that would be done first with it, if it has memory for it") {
  Job job = job_from(fast_and_slow);
  Candidate of;
  of.pipeline = 2;
  of.schedule = "1f1b";
  const PassCosts fast = layers_that_take(1, 8), slow = layers_that_take(3, 8);
  const auto shares = [&](std::int64_t room) { return stages_by_time(job, of, {&fast, &slow}, {room, 8}); };
  CHECK(layers_of(shares(8)) == std::vector<std::int64_t>{6, 2});
  CHECK(layers_of(shares(5)) == std::vector<std::int64_t>{5, 3});
  // A rank with the embedding or the loss may have no layer; what nobody has memory for goes where it is
  // least too much: a sixth layer on five is.
  CHECK(layers_of(shares(0)) == std::vector<std::int64_t>{0, 8});
  CHECK(layers_of(stages_by_time(job, of, {&fast, &slow}, {5, 2})) == std::vector<std::int64_t>{6, 2});
  // Stages 0 and 2 are the first rank's, and alike.
  of.virtual_stages = 2;
  of.schedule = "interleaved_1f1b";
  CHECK(layers_of(shares(8)) == std::vector<std::int64_t>{3, 1, 3, 1});
}

}  // namespace simrun
