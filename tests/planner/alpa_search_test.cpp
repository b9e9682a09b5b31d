#include "planner/alpa_search.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "planner/alpa_outcome.h"
#include "planner/reference_plans.h"
#include "planner/simulated_plan.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

JobLoader loader_of(const std::string& yaml) {
  return [yaml](const std::vector<Override>& overrides) { return job_from(yaml, overrides); };
}

SimulatedPlan best_of(const std::vector<SimulatedPlan>& plans) {
  return *std::min_element(plans.begin(), plans.end(), is_better);
}

std::string gpt(int layers, int hidden, int nodes, int batch) {
  return "simrun: 1\nmodel: {model_type: gpt, num_layers: " + std::to_string(layers) +
         ", hidden_size: " + std::to_string(hidden) +
         ", num_attention_heads: 16, vocab_size: 25600, max_position_embeddings: 1024, attention_dropout: 0, "
         "hidden_dropout: 0}\n"
         "training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: " +
         std::to_string(batch) +
         ", precision: fp16, attention: unfused}\ncluster: {from: aws_p3_16xlarge, nodes: " +
         std::to_string(nodes) + "}\n";
}

const char* const experts =
    "simrun: 1\n"
    "model: {model_type: gpt, num_layers: 4, hidden_size: 1024, num_attention_heads: 16, vocab_size: 32000,\n"
    "  max_position_embeddings: 1024, attention_dropout: 0, hidden_dropout: 0, num_experts: 16,\n"
    "  moe_router_topk: 2, moe_layer_freq: 2}\n"
    "training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 64, precision: fp16, attention: "
    "unfused}\n"
    "cluster: {from: aws_p3_16xlarge, nodes: 1}\n";

const char* const images =
    "simrun: 1\n"
    "model: {from: wide-resnet-250m}\n"
    "training: {micro_batch_size: 1, global_batch_size: 64, precision: fp32}\n"
    "cluster: {from: aws_p3_16xlarge, nodes: 1}\n";

}  // namespace

TEST_CASE(
    "the search is no slower than data parallel, ZeRO-2, ZeRO-3 and Megatron's grid, none of them given",
    "[long]") {
  for (const std::string& yaml : {gpt(2, 4096, 2, 32), std::string(experts), std::string(images)}) {
    CAPTURE(yaml);
    const JobLoader load = loader_of(yaml);
    std::vector<SimulatedPlan> ours;
    for (const AlpaPlan& plan : alpa_plans(load({})))
      ours.push_back(simulate_plan("", alpa_overrides(plan), load));
    REQUIRE_FALSE(ours.empty());
    const SimulatedPlan best = best_of(ours), theirs = best_of(reference_plans(load({}), load));
    CAPTURE(theirs.name, theirs.fits, best.refusal);
    CHECK(best.fits);
    CHECK(best.step_s <= theirs.step_s * 1.0001);
  }
}

TEST_CASE("stages of equal length are found, however few units layers are joined to", "[long]") {
  const JobLoader load = loader_of(gpt(12, 4096, 1, 64));
  AlpaOptions few;
  few.least_stages = few.most_stages = 4;
  few.microbatches = 32;
  few.most_clusters = 5;  // of 3, 3, 2, 2 and 2 layers no four stages of 3 are made
  const std::vector<AlpaPlan> plans = alpa_plans(load({}), few);
  REQUIRE_FALSE(plans.empty());
  for (std::size_t s = 0; s < 4; ++s) {
    CHECK(plans.front().stages[s].first_layer == static_cast<std::int64_t>(3 * s));
    CHECK(plans.front().stages[s].last_layer == static_cast<std::int64_t>(3 * s + 3));
  }
}

TEST_CASE("stages as the dynamic program cuts them are no slower than with as many layers each", "[long]") {
  const JobLoader load = loader_of(gpt(6, 2048, 1, 64));
  AlpaOptions cut;
  cut.least_stages = cut.most_stages = 4;
  AlpaOptions equal = cut, given = cut;
  equal.most_clusters = 1;
  given.stage_ends = {1, 2, 3, 6};
  const auto best_with = [&](const AlpaOptions& options) {
    std::vector<SimulatedPlan> plans;
    for (const AlpaPlan& plan : alpa_plans(load({}), options))
      plans.push_back(simulate_plan("", alpa_overrides(plan), load));
    REQUIRE_FALSE(plans.empty());
    return best_of(plans).step_s;
  };
  CHECK(best_with(cut) <= best_with(equal) * 1.0001);
  CHECK(best_with(equal) < best_with(given));
}

TEST_CASE("every proposed plan is accepted by the loader and the compiler, and estimates lie near",
          "[long]") {
  const JobLoader load = loader_of(gpt(6, 2048, 1, 64));
  for (const AlpaPlan& plan : alpa_plans(load({}))) {
    CAPTURE(plan.pipeline, plan.microbatches, plan.zero_stage);
    const SimulatedPlan simulated = simulate_plan("", alpa_overrides(plan), load);
    CHECK(simulated.refusal == "");
    if (!plan.hides_data_parallel) CHECK(simulated.step_s == Approx(plan.estimate_s).epsilon(0.15));
    CHECK(plan.stages.front().first_layer == 0);
    CHECK(plan.stages.back().last_layer == 6);
  }
}

TEST_CASE("stages of unlike size are proposed, accepted and estimated where the head is heavy", "[long]") {
  const JobLoader load = loader_of(
      "simrun: 1\nmodel: {model_type: llama, num_hidden_layers: 6, hidden_size: 2048, intermediate_size: "
      "8192, "
      "num_attention_heads: 16, num_key_value_heads: 16, vocab_size: 256000}\n"
      "training: {micro_batch_size: 1, global_batch_size: 64, seq_length: 2048, precision: bf16}\n"
      "cluster: {gpus_per_node: 1, nodes: 8, gpu: a100_sxm_80gb, intra_node: {bandwidth: 25 GB/s, latency: 3 "
      "us}, inter_node: {bandwidth: 3 GB/s, latency: 10 us}}\n");
  std::size_t unlike = 0;
  for (const AlpaPlan& plan : alpa_plans(load({}))) {
    if (!plan.unlike) continue;
    ++unlike;
    CAPTURE(plan.pipeline, plan.microbatches);
    const SimulatedPlan simulated = simulate_plan("", alpa_overrides(plan), load);
    CHECK(simulated.refusal == "");
    CHECK(simulated.step_s == Approx(plan.estimate_s).epsilon(0.15));
    CHECK(plan.stages.front().mesh.devices() != plan.stages.back().mesh.devices());
  }
  CHECK(unlike > 0);
}

TEST_CASE("a plan is written as the keys of a job") {
  AlpaPlan plan;
  plan.pipeline = 2;
  plan.sequences = 4;
  plan.zero_stage = 1;
  plan.stages = {{0, 3, {2, 1}, 0, 0}, {3, 4, {2, 1}, 0, 0}};
  plan.axes = {{"x", 2}};
  plan.operators = {{"layers[0-2].fc1", {{"ffn", {"x"}}}, {"batch"}}};
  const std::vector<Override> overrides = alpa_overrides(plan);
  const auto value = [&](const std::string& key) {
    for (const Override& override_of : overrides)
      if (override_of.key == key) return override_of.value;
    return std::string();
  };
  CHECK(value("parallelism.pipeline_model_parallel_layout") == "\"Et*3|tL\"");
  CHECK(value("training.micro_batch_size") == "2");  // 4 sequences over 2 devices
  CHECK(value("layout") ==
        "{mesh: {x: 2}, rules: [{scope: \"layers[0-2].fc1\", split: {ffn: x}, replicate: [batch]}]}");
}

TEST_CASE("the outcome says its best plan's stages and layouts, and what stands beside it", "[long]") {
  const JobLoader load = loader_of(gpt(2, 1024, 1, 16));
  AlpaOptions options;
  options.plans = 2;
  const AlpaOutcome outcome = plan_by_alpa(load, {.search = options});
  REQUIRE(outcome.best);
  CHECK(outcome.simulated.size() == outcome.plans.size());
  for (const SimulatedPlan& plan : outcome.simulated)
    CHECK_FALSE(is_better(plan, outcome.simulated[*outcome.best]));
  const std::string text = alpa_text(outcome);
  for (const char* word : {"estimated", "layers[0-1]", "batch: x", "ZeRO-3, ", "Megatron-like: "})
    CHECK_THAT(text, Catch::Contains(word));
}

TEST_CASE("where a plan beside the proposals is taken, none is said to be missing") {
  AlpaOutcome outcome;
  CHECK_THAT(alpa_text(outcome), Catch::Contains("no plan was found to fit"));
  SimulatedPlan grid;
  grid.name = "Megatron-like: tensor 8";
  grid.step_s = 1.25;
  outcome.references.push_back(grid);
  outcome.reference = 0;
  const std::string text = alpa_text(outcome);
  CHECK_THAT(text, Catch::StartsWith("Megatron-like: tensor 8: simulated 1.25 s, taken"));
  CHECK_THAT(text, !Catch::Contains("no plan was found"));
}

TEST_CASE("the best pipelines are tried under zero-bubble schedules too, and the fastest of all is taken",
          "[long]") {
  const JobLoader load =
      loader_of(gpt(8, 4096, 2, 64));  // does not fit without a pipeline or tensor parallel
  AlpaOptions options;
  options.plans = 2;
  const AlpaOutcome outcome = plan_by_alpa(load, {.search = options});
  REQUIRE(outcome.best);
  double gain = 0;  // of a split backward, with the same stages
  for (std::size_t i = 0; i < outcome.plans.size(); ++i) {
    const AlpaPlan& plan = outcome.plans[i];
    const SimulatedPlan &simulated = outcome.simulated[i], &best = outcome.simulated[*outcome.best];
    if (simulated.shares_links == best.shares_links) CHECK_FALSE(is_better(simulated, best));
    if (plan.schedule == "1f1b") continue;
    CHECK_THAT(outcome.simulated[i].name, Catch::Contains(plan.schedule));
    for (std::size_t j = 0; j < i; ++j)
      if (outcome.plans[j].schedule == "1f1b" && outcome.plans[j].pipeline == plan.pipeline &&
          outcome.plans[j].microbatches == plan.microbatches)
        gain = std::max(gain, 1 - outcome.simulated[i].step_s / outcome.simulated[j].step_s);
  }
  CHECK(gain > 0.05);
}

TEST_CASE("recompute is searched: it is taken where memory asks for it, and not where there is enough",
          "[long]") {
  const JobLoader load = loader_of(gpt(8, 4096, 1, 32));
  const auto best_within = [&](std::int64_t memory) {
    AlpaPlanning planning;
    planning.search.max_memory = memory;
    planning.search.pipelines = {1, 2};
    planning.search.plans = 2;
    const AlpaOutcome outcome = plan_by_alpa(load, planning);
    REQUIRE(outcome.best);
    CHECK(outcome.simulated[*outcome.best].limit_bytes <= memory);
    CHECK(outcome.simulated[*outcome.best].peak_bytes <= memory);
    return outcome.plans[*outcome.best];
  };
  CHECK(best_within(std::int64_t{15} << 30).recompute != "full");
  CHECK(best_within(std::int64_t{4} << 30).recompute == "full");
}

TEST_CASE("what a job's plan section fixes is kept, by what stands beside the plans too", "[long]") {
  const JobLoader load = loader_of(gpt(4, 2048, 1, 32));
  PlanConfig limits;
  limits.fixed_numbers = {{"pipeline_model_parallel_size", {2, 4}}, {"zero_stage", {1}}};  // of 4 layers
  limits.recomputes = {"full"};
  limits.schedules = {"zb_h1", "interleaved_1f1b"};
  limits.fixed_numbers["virtual_pipeline_model_parallel_size"] = {2};
  const AlpaOutcome outcome = plan_by_alpa(load, alpa_planning(limits));
  REQUIRE(outcome.best);
  CHECK(outcome.references.empty());  // all under 1F1B, or without a pipeline
  for (const AlpaPlan& plan : outcome.plans) {
    CHECK((plan.pipeline == 2 || plan.pipeline == 4));
    CHECK(plan.zero_stage == 1);
    CHECK(plan.recompute == "full");
  }
  CHECK(outcome.plans[*outcome.best].schedule == "interleaved_1f1b");  // ZB-H1 has no virtual stages
  const Job best = load(*best_overrides(outcome));
  CHECK(best.recompute.granularity == RecomputeGranularity::full);
  CHECK(best.parallelism.virtual_pipeline_model_parallel_size == 2);
}

TEST_CASE("limits that mean nothing to layouts by operator are refused in words") {
  PlanConfig limits;
  limits.fixed_numbers = {{"tensor_model_parallel_size", {8}}};
  CHECK_THROWS_WITH(alpa_planning(limits), Catch::Contains("plan.fix.tensor_model_parallel_size"));
  limits.fixed_numbers = {{"context_parallel_size", {1}}};  // as all its plans are
  CHECK_NOTHROW(alpa_planning(limits));
  limits.minimise = PlanObjective::memory;
  CHECK_THROWS_WITH(alpa_planning(limits), Catch::Contains("--plan alpa makes the step short"));
}

TEST_CASE("any number of threads finds the same, and stops where it is told to", "[long]") {
  const JobLoader load = loader_of(gpt(2, 1024, 1, 8));
  const auto outcome_of = [&](unsigned threads) {
    AlpaPlanning planning;
    planning.search.plans = 3;
    planning.search.threads = threads;
    return alpa_text(plan_by_alpa(load, planning));
  };
  const std::string alone = outcome_of(1);
  CHECK(outcome_of(3) == alone);
  int asked = 0;
  const AlpaOutcome stopped =
      plan_by_alpa(load, {}, [&](const char*, std::int64_t, std::int64_t) { return ++asked < 3; });
  CHECK(stopped.was_stopped);
  CHECK(asked == 3);
  // What was found until then is simulated, and the best of it is there to be written.
  const AlpaOutcome late = plan_by_alpa(load, {}, [](const std::string& phase, std::int64_t, std::int64_t) {
    return phase != "simulating proposals";
  });
  CHECK(late.was_stopped);
  CHECK(late.best);
  CHECK(late.references.empty());
  const AlpaOutcome latest = plan_by_alpa(load, {}, [](const std::string& phase, std::int64_t, std::int64_t) {
    return phase != "simulating with shared links";
  });
  CHECK(latest.was_stopped);
  CHECK(latest.best);
  CHECK(best_overrides(latest));
}

TEST_CASE("the best of Megatron-LM's grid is no worse than that of simulating all of it") {
  const JobLoader load = loader_of(gpt(4, 2048, 1, 16));
  const Job job = load({});
  const SimulatedPlan found = reference_plans(job, load).back();
  CHECK(found.fits);
  std::optional<SimulatedPlan> best;
  for (const char* tensor : {"1", "2", "4", "8"})
    for (const char* pipeline : {"1", "2", "4"})
      for (const char* sequences : {"1", "2", "4", "8", "16"})
        for (const char* sequence_parallel : {"false", "true"}) {
          const SimulatedPlan plan = simulate_plan("",
                                                   {{"parallelism.tensor_model_parallel_size", tensor},
                                                    {"parallelism.pipeline_model_parallel_size", pipeline},
                                                    {"parallelism.sequence_parallel", sequence_parallel},
                                                    {"training.micro_batch_size", sequences}},
                                                   load);
          if (!best || is_better(plan, *best)) best = plan;
        }
  CHECK_FALSE(is_better(*best, found));
}

TEST_CASE("jobs with context parallelism, and of sequences that tensor ranks cannot share, have references") {
  std::string flash = gpt(4, 2048, 1, 16);  // parts of a sequence are joined by what flash kernels leave
  flash.replace(flash.find("attention: unfused"), 18, "attention: flash");
  const JobLoader context = loader_of(flash);
  const Job two = context({{"parallelism.context_parallel_size", "2"}});
  const auto with_two = [&](std::vector<Override> overrides) {
    overrides.insert(overrides.begin(), {"parallelism.context_parallel_size", "2"});
    return context(overrides);
  };
  CHECK(reference_plans(two, with_two).back().fits);
  std::string odd = gpt(4, 2048, 1, 16);
  odd.replace(odd.find("seq_length: 1024"), 16, "seq_length: 1023");
  const JobLoader load = loader_of(odd);
  CHECK(reference_plans(load({}), load, {.pipelines = {1, 2}, .zero_stages = {}})
            .back()
            .name.find("Megatron-like") == 0);
}

// Where dispatch and combine were chosen apart, the loader refused what was proposed.
TEST_CASE("experts' rows come back to who sent them in every proposal", "[long]") {
  const JobLoader load = loader_of(
      "simrun: 1\n"
      "model: {model_type: mixtral, num_hidden_layers: 2, hidden_size: 2048, intermediate_size: 64, "
      "num_attention_heads: 4, num_key_value_heads: 4, vocab_size: 5600, max_position_embeddings: 4096, "
      "num_local_experts: 64, num_experts_per_tok: 2}\n"
      "training: {micro_batch_size: 1, global_batch_size: 4, precision: bf16, seq_length: 4096}\n"
      "moe: {token_dispatcher: allgather}\n"
      "cluster: {from: dgx_a100, nodes: 1, gpus_per_node: 2}\n");
  const AlpaOutcome outcome = plan_by_alpa(load);
  REQUIRE(outcome.best);
  for (const SimulatedPlan& plan : outcome.simulated) CHECK(plan.refusal.empty());
}

TEST_CASE("what is not searched is refused in words") {
  Job job = job_from(gpt(2, 1024, 1, 8));
  job.training.lora = LoraConfig{};
  CHECK_THROWS_WITH(alpa_plans(job), Catch::Contains("LoRA"));
}

}  // namespace simrun
