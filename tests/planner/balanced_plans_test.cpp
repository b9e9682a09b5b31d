#include "planner/balanced_plans.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <numeric>
#include <sstream>

#include "configs/pipeline_layout.h"
#include "models/model_graph.h"
#include "planner/search.h"
#include "schedules/compile.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

const std::string tiny_mixed =
    "simrun: 1\n"
    "model: {model_type: gpt, num_layers: 12, hidden_size: 512, num_attention_heads: 8, vocab_size: 8192,\n"
    "  max_position_embeddings: 256, attention_dropout: 0, hidden_dropout: 0}\n"
    "training: {seq_length: 256, micro_batch_size: 8, global_batch_size: 128, precision: fp32}\n"
    "parallelism: {}\n"
    "cluster: {from: whale_v100_p100, gpus_per_node: 2}\n";

JobLoader mixed_loader(const std::string& yaml, std::vector<Override> fixed = {}) {
  return [yaml, fixed](const std::vector<Override>& overrides) {
    std::vector<Override> all = fixed;
    all.insert(all.end(), overrides.begin(), overrides.end());
    return job_from(yaml, all);
  };
}

const BalancedPlan& best_balance(const std::vector<BalancedPlan>& plans) {
  return *std::ranges::min_element(plans, [](const BalancedPlan& a, const BalancedPlan& b) {
    return is_better(a.simulated, b.simulated);
  });
}

const BalancedPlan* plan_named(const std::vector<BalancedPlan>& plans, const std::string& start) {
  const auto found = std::ranges::find_if(
      plans, [&](const BalancedPlan& plan) { return plan.simulated.name.starts_with(start); });
  return found == plans.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("replicas get sequences by their GPUs' FLOP/s: of 32 two V100 take 10 each, two P100 6") {
  // 32 x 15.7 / (2 x 15.7 + 2 x 10.6) = 9.55 and 6.45: 9 and 6, and the largest remainders make the
  // V100's 10.
  const std::vector<BalancedPlan> plans = balanced_plans(mixed_loader(tiny_mixed));
  const BalancedPlan* const whale = plan_named(plans, "Whale");
  REQUIRE(whale != nullptr);
  CHECK(whale->balance.replicas == std::vector<std::int64_t>{10, 10, 6, 6});
  CHECK(whale->simulated.refusal.empty());
  CHECK(best_balance(plans).simulated.step_s < plans.front().simulated.step_s);
}

TEST_CASE("stages get layers by their GPUs' FLOP/s, and the GPUs with more memory come first", "[long]") {
  std::string reversed = tiny_mixed;
  reversed.resize(reversed.find("cluster:"));
  reversed +=
      "cluster: {gpus_per_node: 2, nics_per_node: 1, intra_node: {latency: 2.7 us}, inter_node: {bandwidth: "
      "50 Gb/s, "
      "latency: 30 us}, node_groups: {slow: {nodes: 1, gpu: p100_sxm2}, fast: {nodes: 1, gpu: "
      "v100_sxm2_32gb}}}";
  const std::vector<BalancedPlan> plans = balanced_plans(mixed_loader(
      reversed, {{"parallelism.pipeline_model_parallel_size", "2"}, {"training.micro_batch_size", "4"}}));
  const BalancedPlan* const whale = plan_named(plans, "Whale");
  REQUIRE(whale != nullptr);
  CHECK(whale->balance.rank_map == std::vector<std::int64_t>{2, 3, 0, 1});
  // A layer's products are 12 x 512^2 per token and attention's 2 x 256 x 512, the classifier's 512 x
  // 8192: 1.23 layers. (12 + 1.23) x 15.7 / 26.3 = 7.9
  CHECK(whale->balance.layout == "Et*8|t*4L");
  CHECK(best_balance(plans).simulated.step_s < plans.front().simulated.step_s);
}

// An A100 has 80 GB and 312 TFLOP/s in bf16, an L40S 48 GB and 362.
TEST_CASE("pipelines lie over the kinds by memory and by speed, either way round, each way once") {
  const Job job = job_from(
      "simrun: 1\nmodel: {model_type: gpt, num_layers: 4, hidden_size: 512, num_attention_heads: 4, "
      "vocab_size: "
      "8192}\ntraining: {seq_length: 256, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
      "parallelism: {pipeline_model_parallel_size: 2}\n"
      "cluster: {gpus_per_node: 1, inter_node: {bandwidth: 100 Gb/s, latency: 10 us}, node_groups: {a: "
      "{nodes: "
      "1, gpu: l40s}, b: {nodes: 1, gpu: a100_sxm_80gb}, c: {nodes: 1, gpu: l4}, d: {nodes: 1, gpu: l4}}}\n");
  std::set<std::string> names;
  for (const DeviceBalance& placed : placements_of(job)) {
    CHECK(names.insert(placed.placement).second);
    if (placed.placement == "large memory first")
      CHECK(placed.rank_map == std::vector<std::int64_t>{1, 0, 2, 3});
    if (placed.placement == "slow GPUs first")
      CHECK(placed.rank_map == std::vector<std::int64_t>{3, 2, 0, 1});
  }
  // Fast GPUs first is as the job is written.
  for (const char* name : {"large memory first", "small memory first", "", "slow GPUs first"})
    CHECK(names.contains(name));
}

TEST_CASE("by their times devices are done nearly together") {
  const std::vector<BalancedPlan> plans = balanced_plans(mixed_loader(tiny_mixed));
  const BalancedPlan* const timed = plan_named(plans, "by their times");
  const BalancedPlan& best = best_balance(plans);
  if (timed != nullptr) CHECK(timed->simulated.step_s <= best.simulated.step_s * 1.05);
  for (const BalancedPlan& plan : plans)
    if (!plan.balance.replicas.empty())
      CHECK(std::accumulate(plan.balance.replicas.begin(), plan.balance.replicas.end(), std::int64_t{0}) ==
            4 * plan.balance.micro_batch);
}

TEST_CASE("a GPU with too little memory for its share gets less") {
  // P100 of 3.6 GiB, 2 of which are reserved: what they hold is far below what their FLOP/s are worth.
  const std::vector<Override> small = {
      {"cluster.node_groups.slow.gpu", "{from: p100_sxm2, memory: 3700 MiB}"},
      {"training.micro_batch_size", "16"}};
  const std::vector<BalancedPlan> plans = balanced_plans(mixed_loader(tiny_mixed, small));
  CHECK_FALSE(plans.front().simulated.fits);
  const BalancedPlan& best = best_balance(plans);
  CHECK(best.simulated.fits);
  REQUIRE(!best.balance.replicas.empty());
  // By speed alone they would get 13 of 64.
  CHECK(best.balance.replicas.back() < 12);
}

TEST_CASE("on GPUs of one kind there is nothing but the job as written") {
  const std::vector<BalancedPlan> plans =
      balanced_plans(mixed_loader(tiny_mixed, {{"cluster", "{from: dgx_a100, nodes: 1, gpus_per_node: 4}"}}));
  REQUIRE(plans.size() == 1);
  CHECK(plans.front().balance.empty());
}

namespace {

struct PublishedGain {
  std::string experiment, model;
  int fast = 0, slow = 0;
  double low = 0, high = 0;
};

std::vector<PublishedGain> published_gains() {
  std::ifstream file(SIMRUN_SOURCE_DIR "/tests/data/whale_hetero.csv");
  std::vector<PublishedGain> gains;
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with('#') || line.starts_with("experiment")) continue;
    std::ranges::replace(line, ',', ' ');
    std::istringstream words(line);
    PublishedGain& of = gains.emplace_back();
    REQUIRE(words >> of.experiment >> of.model >> of.fast >> of.slow >> of.low >> of.high);
  }
  return gains;
}

std::string job_of(const PublishedGain& of, const char* precision) {
  const bool has_stages = of.experiment == "pipeline";
  const std::string lengths = of.model == "resnet-50" ? ""
                              : of.model == "gnmt"    ? "seq_length: 50, "
                                                      : "seq_length: 128, ";
  const std::string job = "simrun: 1\nmodel: {from: " + of.model + "}\ntraining: {" + lengths +
                          (has_stages ? "micro_batch_size: 4, global_batch_size: 128"
                                      : "micro_batch_size: 32, global_batch_size: 512") +
                          ", precision: " + precision +
                          "}\nparallelism: {pipeline_model_parallel_size: " + (has_stages ? "4" : "1") +
                          "}\ncluster: {from: whale_v100_p100, gpus_per_node: " + std::to_string(of.fast) +
                          "}\n";
  if (has_stages) return job;
  // Whale's open part reduces gradients while the backward pass goes on, in groups of a quarter of all bytes
  // and so five at most (alibaba/EasyParallelLibrary: communication.max_splits in epl/config.py, split in
  // epl/communicators/rewriters/coalescing.py).
  const std::int64_t group = count_parameters(build_graph(job_from(job))) / 4;
  return job + "optimizer: {overlap_grad_reduce: true, bucket_size: " + std::to_string(group) + "}\n";
}

std::vector<BalancedPlan> balances_of(const PublishedGain& of, const char* precision) {
  return balanced_plans(mixed_loader(job_of(of, precision)));
}

// The share of the step that the first GPU, a V100, computes.
double busy_share(const PublishedGain& of, const char* precision, const DeviceBalance& balance) {
  const Timeline timeline = simulate(compile(job_from(job_of(of, precision), overrides_of(balance))));
  return static_cast<double>(timeline.ranks.front().totals.compute) / static_cast<double>(timeline.step);
}

// Pipelines are compared with stages of equal work.
double step_of(const std::vector<BalancedPlan>& plans, const std::string& start) {
  const BalancedPlan* const plan = plan_named(plans, start);
  REQUIRE(plan != nullptr);
  return plan->simulated.step_s;
}

}  // namespace

// fp32 stands for what was published: it alone has the pipelines' gains. Whale's batches go by the
// datasheet's 15.7 / 10.6 = 1.48, and nothing that waits for the slower of two kinds can gain more than (1
// + 1.48) / 2.
TEST_CASE("pipelines over V100 and P100 gain what Whale published in fp32, within 0.1, and more in fp16",
          "[long]") {
  int experiments = 0;
  for (const PublishedGain& of : published_gains()) {
    if (of.experiment != "pipeline") continue;
    const std::vector<BalancedPlan> fp32 = balances_of(of, "fp32"), fp16 = balances_of(of, "fp16");
    const double gain = step_of(fp32, "even by FLOPs") / step_of(fp32, "Whale");
    const double best = step_of(fp32, "even by FLOPs") / best_balance(fp32).simulated.step_s;
    const double half = step_of(fp16, "even by FLOPs") / step_of(fp16, "Whale");
    CAPTURE(of.model, gain, best, half);
    CHECK(gain == Approx(of.low).margin(0.1));
    CHECK(best == Approx(of.low).margin(0.1));
    CHECK(half > of.high + 0.1);
    ++experiments;
  }
  CHECK(experiments == 2);
}

// 1.3 to 1.4 needs V100 1.6 to 1.8 times as fast as P100: between fp32, where the datasheet has 1.48, and
// fp16, where it has 5.9 with and without tensor cores. Precision, batches and kernels are not published.
TEST_CASE("the best balance over V100 and P100 gains in fp32 what Whale published, within 0.1; its own less",
          "[long]") {
  int experiments = 0;
  for (const PublishedGain& of : published_gains()) {
    if (of.experiment != "data") continue;
    const std::vector<BalancedPlan> fp32 = balances_of(of, "fp32"), fp16 = balances_of(of, "fp16");
    const double gain = fp32.front().simulated.step_s / step_of(fp32, "Whale");
    const double best = fp32.front().simulated.step_s / best_balance(fp32).simulated.step_s;
    const double half = fp16.front().simulated.step_s / step_of(fp16, "Whale");
    const double busier =
        busy_share(of, "fp32", plan_named(fp32, "Whale")->balance) / busy_share(of, "fp32", {});
    const double busier16 =
        busy_share(of, "fp16", plan_named(fp16, "Whale")->balance) / busy_share(of, "fp16", {});
    CAPTURE(of.model, gain, best, half, busier, busier16);
    CHECK(best >= of.low - 0.1);
    CHECK(best <= of.high + 0.1);
    CHECK(gain > 1);
    CHECK(gain < (1 + 15.7 / 10.6) / 2 + 0.01);  // rows of tiles are whole
    CHECK(half > gain);
    // V100 are busier by 1.39 to 1.96 in the paper.
    CHECK(busier > 1);
    CHECK(busier < 1.96);
    CHECK(busier16 > 1.39);
    ++experiments;
  }
  CHECK(experiments == 3);
}

TEST_CASE("an encoder's layers and a decoder's count by their FLOPs: a short decoder gets more of them") {
  const std::string t5 =
      "simrun: 1\nmodel: {from: t5-small, num_layers: 12}\n"
      "training: {seq_length: 512, decoder_seq_length: 64, micro_batch_size: 2, global_batch_size: 32, "
      "precision: fp32}\n"
      "parallelism: {pipeline_model_parallel_size: 2}\n"
      "cluster: {from: whale_v100_p100, gpus_per_node: 1}\n";
  const auto first_stage = [&](const std::string& decoder) {
    const std::vector<BalancedPlan> plans =
        balanced_plans(mixed_loader(t5, {{"training.decoder_seq_length", decoder}}));
    const BalancedPlan* const even = plan_named(plans, "even by FLOPs");
    return even == nullptr ? 12 : parse_pipeline_layout(even->balance.layout).stages.front().layers;
  };
  CHECK(first_stage("64") < 12);
  CHECK(first_stage("512") > 12);
}

TEST_CASE("a search over a cluster of two kinds is never worse than Whale's plan, or than equal shares",
          "[long]") {
  for (const char* pipeline : {"1", "2"}) {
    const std::vector<Override> written = {{"parallelism.pipeline_model_parallel_size", pipeline},
                                           {"plan.evaluations", "16"},
                                           {"plan.best", "4"}};
    LoadOptions load;
    load.overrides = written;
    load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
    const PlanBase base = plan_base(tiny_mixed, "test.yaml", load);
    PlanSearchOptions options;
    options.threads = 1;
    const PlanSearchResult found = search_jobs(base, options);
    REQUIRE(!found.best.empty());
    const double best = found.best.front().evaluation.step_s;
    for (const BalancedPlan& plan : balanced_plans(mixed_loader(tiny_mixed, written)))
      if (plan.simulated.refusal.empty() && plan.simulated.fits)
        CHECK(best <= plan.simulated.step_s * (1 + 1e-9));
    for (const auto* list : {&found.best, &found.pareto, &found.rest})
      for (const RankedCandidate& of : *list)
        if (of.evaluation.refusal.empty() && of.evaluation.fits)
          CHECK(best <= of.evaluation.step_s * (1 + 1e-9));
  }
}

}  // namespace simrun
