#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "configs/diagnostics.h"
#include "planner/balanced_plans.h"
#include "planner/climb.h"
#include "planner/plan_memory.h"
#include "planner/search.h"
#include "planner/starting_split.h"
#include "planner/unsearched.h"
#include "sim/plan_job.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

PlanBase base_from(const std::string& yaml, std::vector<Override> overrides = {}) {
  LoadOptions load;
  load.overrides = std::move(overrides);
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  return plan_base(yaml, "test.yaml", load);
}

PlanSearchResult found_alone(const PlanBase& base) {
  PlanSearchOptions options;
  options.threads = 1;
  return search_jobs(base, options);
}

// A model of 4 layers on so many nodes of 2 V100 and 2 P100, or of one kind.
std::string small_job(const std::string& cluster, const std::string& rest = "") {
  return "simrun: 1\n"
         "model: {model_type: gpt, num_layers: 4, hidden_size: 256, num_attention_heads: 4, vocab_size: "
         "4096,\n"
         "  max_position_embeddings: 128, attention_dropout: 0, hidden_dropout: 0}\n"
         "training: {seq_length: 128, micro_batch_size: 1, global_batch_size: 32, precision: fp16}\n"
         "cluster: {" +
         cluster + "}\n" + rest;
}
const std::string two_kinds = "from: whale_v100_p100, gpus_per_node: 2";
const std::string two_nodes = "from: dgx_a100, nodes: 2, gpus_per_node: 2, nics_per_node: 2";

Summary summary_of(std::int64_t tightest, std::int64_t its_limit, LargestPeak largest) {
  Summary summary;
  summary.peak_memory_bytes = tightest;
  summary.memory_limit_bytes = its_limit;
  summary.peak_gpu = "small";
  summary.fits = tightest <= its_limit;
  summary.largest_peak = std::move(largest);
  return summary;
}

const ConfigError error_of(const PlanBase& base) {
  try {
    found_alone(base);
  } catch (const ConfigError& error) {
    return error;
  }
  return ConfigError({});
}

// From the job as it is written, whose split need not load.
PlanSearchResult searched_from_start(const std::string& job) {
  LoadOptions load;
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  const LoadOptions split = with_starting_split(job, "test.yaml", load, WrittenSizes::give_way);
  PlanSearchOptions options;
  options.threads = 1;
  return search_jobs(plan_base(job, "test.yaml", split), options);
}

}  // namespace

TEST_CASE("a limit of memory is held against the GPU with most bytes, whichever has least to spare") {
  // 9 of 10 and 20 of 40 bytes: the small one has 1 to spare, the large one has most.
  const Summary both = summary_of(9, 10, {20, 40, "large"});
  CHECK(plan_memory(both, 0).fits);
  CHECK(plan_memory(both, 0).peak_bytes == 20);
  CHECK(plan_memory(both, 0).limit_bytes == 40);
  CHECK(plan_memory(both, 20).fits);
  const PlanMemory over = plan_memory(both, 19);
  CHECK_FALSE(over.fits);
  CHECK(over.gpu == "large");
  CHECK(over.limit_bytes == 19);
  // The small one lacks a byte.
  const PlanMemory lacks = plan_memory(summary_of(11, 10, {20, 40, "large"}), 0);
  CHECK_FALSE(lacks.fits);
  CHECK(lacks.gpu == "small");
  CHECK(lacks.peak_bytes == 11);
  // Both lack memory, the large one less of it, or more.
  CHECK(plan_memory(summary_of(30, 10, {41, 40, "large"}), 0).gpu == "small");
  CHECK(plan_memory(summary_of(11, 10, {41, 20, "large"}), 0).gpu == "large");
}

TEST_CASE("with the memory of a plan on the front as the limit, none slower than it is found", "[long]") {
  // 7 layers on 12 GPUs under a large vocabulary: what is fastest has its layers dealt under schedules that
  // hold more than the limit while they lie evenly.
  const std::string job =
      "simrun: 1\n"
      "model: {model_type: gpt, num_layers: 7, hidden_size: 3072, num_attention_heads: 24, vocab_size: "
      "256000,\n"
      "  attention_dropout: 0, hidden_dropout: 0, untie_embeddings_and_output_weights: false}\n"
      "training: {seq_length: 512, global_batch_size: 6, precision: bf16}\n"
      "cluster: {from: dgx_a100, nodes: 3, gpus_per_node: 4}\n";
  const auto front_of = [&](const std::string& limit) {
    LoadOptions load;
    load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
    if (!limit.empty()) load.overrides = {{"plan.max_memory", limit}};
    const LoadOptions split = with_starting_split(job, "test.yaml", load, WrittenSizes::give_way);
    PlanSearchOptions options;
    options.threads = 2;
    return search_jobs(plan_base(job, "test.yaml", split), options);
  };
  const PlanSearchResult free = front_of("");
  REQUIRE(free.pareto.size() >= 2);
  for (const RankedCandidate& point : free.pareto) {
    CAPTURE(describe(point.candidate));
    const PlanSearchResult found = front_of(std::to_string(point.evaluation.peak_bytes) + " B");
    REQUIRE(!found.best.empty());
    CHECK(found.best.front().evaluation.fits);
    CHECK(found.best.front().evaluation.peak_bytes <= point.evaluation.peak_bytes);
    CHECK(found.best.front().evaluation.step_s <= point.evaluation.step_s * (1 + 1e-12));
  }
}

TEST_CASE("plan.max_memory holds on every kind of GPU: of the jobs search and of Whale's balances",
          "[long]") {
  const PlanBase free = base_from(small_job(two_kinds));
  const PlanSearchResult best = found_alone(free);
  REQUIRE_FALSE(best.best.empty());
  const std::int64_t most = best.best.front().evaluation.peak_bytes * 3 / 4;
  const PlanBase limited =
      base_from(small_job(two_kinds), {{"plan.max_memory", std::to_string(most) + " B"}});
  const PlanSearchResult within = found_alone(limited);
  REQUIRE_FALSE(within.best.empty());
  for (const RankedCandidate& of : within.best) {
    CAPTURE(describe(of.candidate));
    const Plan plan = plan_job(load_candidate(limited, of.candidate));
    CHECK(summarize(plan, simulate(plan)).largest_peak.bytes <= most);
  }
  const JobLoader load = [](const std::vector<Override>& overrides) {
    return job_from(small_job(two_kinds), overrides);
  };
  for (const BalancedPlan& of : balanced_plans(load, most)) {
    if (!of.simulated.fits) continue;
    const Plan plan = plan_job(load(of.simulated.overrides));
    CHECK(summarize(plan, simulate(plan)).largest_peak.bytes <= most);
  }
}

// Node 1 is not among the nodes of a probe, which is as small as can be.
TEST_CASE("a link of a later node that is slow or busy leaves the candidates that fit as they are",
          "[long]") {
  const std::vector<Override> few = {{"plan.evaluations", "2"}, {"plan.fix.micro_batch_size", "[1, 2]"}};
  const PlanSearchResult sound = found_alone(base_from(small_job(two_nodes), few));
  for (const char* wrong :
       {"imperfections: {links: {bad: {pattern: \"node1.nic1.*\", bandwidth_share: 0.5}}}\n",
        "imperfections: {background: {busy: {pattern: \"node1.nic1.*\", rate: 5 GB/s}}}\n",
        "imperfections: {stragglers: {hot: {gpus: [3], slowdown: 1.5}}}\n"}) {
    CAPTURE(wrong);
    const PlanSearchResult found = found_alone(base_from(small_job(two_nodes, wrong), few));
    CHECK(found.candidates == sound.candidates);
    CHECK(found.feasible == sound.feasible);
    CHECK_FALSE(found.best.empty());
  }
}

TEST_CASE("beside another job candidates are ranked alone, and the best are simulated beside it") {
  const std::vector<Override> few = {{"plan.evaluations", "2"},
                                     {"plan.best", "2"},
                                     {"plan.fix.tensor_model_parallel_size", "1"},
                                     {"plan.fix.pipeline_model_parallel_size", "1"}};
  const PlanSearchResult found = found_alone(
      base_from(small_job(two_nodes,
                          "imperfections: {other_jobs: {n: {nodes: [0, 1], collective: all_reduce, bytes: 10 "
                          "MB, period: 4 ms}}}\n"),
                few));
  REQUIRE_FALSE(found.best.empty());
  CHECK(found.best.front().evaluation.engine == "simgrid");
}

TEST_CASE("gathers that a job overlaps stay so under ZeRO-1 and 2, and without ZeRO there are none") {
  const PlanBase base = base_from(small_job(
      two_nodes, "optimizer: {zero_stage: 2, overlap_grad_reduce: true, overlap_param_gather: true}\n"));
  Candidate candidate;
  candidate.data = 4;
  for (const int zero : {0, 1, 2, 3}) {
    candidate.zero_stage = zero;
    const OptimizerConfig loaded = load_candidate(base, candidate).optimizer;
    CHECK(loaded.overlap_param_gather == (zero > 0));
    CHECK(with_candidate(base.job.job, candidate).optimizer == loaded);
  }
}

// Of ZeRO-2 the reductions are overlapped without a word, of ZeRO-3 the gathers too: so they are under other
// stages.
TEST_CASE("what a job's ZeRO stage overlaps without a word stays overlapped under the others") {
  const PlanBase base =
      base_from(small_job(two_nodes, "optimizer: {zero_stage: 2, overlap_param_gather: true}\n"));
  const PlanBase third = base_from(small_job(two_nodes, "optimizer: {zero_stage: 3}\n"));
  Candidate candidate;
  candidate.data = 4;
  for (const int zero : {0, 1, 2, 3}) {
    candidate.zero_stage = zero;
    for (const PlanBase* of : {&base, &third}) {
      const OptimizerConfig loaded = load_candidate(*of, candidate).optimizer;
      CHECK(loaded.overlap_grad_reduce);
      CHECK(loaded.overlap_param_gather == (zero > 0));
      CHECK(with_candidate(of->job.job, candidate).optimizer == loaded);
    }
  }
}

TEST_CASE("instances of the distributed optimizer stay where they divide the data-parallel ranks", "[long]") {
  const PlanBase base =
      base_from(small_job(two_nodes, "optimizer: {num_distributed_optimizer_instances: 2, zero_stage: 1}\n"));
  CHECK(found_alone(base).feasible > 0);
  Candidate candidate;
  candidate.data = 4;
  candidate.zero_stage = 1;
  CHECK(load_candidate(base, candidate).optimizer.num_distributed_optimizer_instances == 2);
  candidate.zero_stage = 0;
  CHECK(load_candidate(base, candidate).optimizer.num_distributed_optimizer_instances == 1);
  candidate.tensor = 4;
  candidate.data = 1;
  CHECK(load_candidate(base, candidate).optimizer.num_distributed_optimizer_instances == 1);
}

TEST_CASE("virtual stages that are fixed are those of every candidate: none has one pipeline rank") {
  PlanConfig limits;
  limits.fixed_numbers["virtual_pipeline_model_parallel_size"] = {2};
  std::int64_t count = 0;
  for_each_candidate(job_from(small_job(two_nodes)), limits, [&](const Candidate& candidate) {
    ++count;
    CHECK(candidate.virtual_stages == 2);
  });
  CHECK(count > 0);
}

TEST_CASE("limits that contradict each other are named where they are written, with what is possible") {
  const ConfigError error =
      error_of(base_from(small_job(two_nodes, "plan:\n  fix: {tensor_model_parallel_size: 3}\n")));
  REQUIRE(error.diagnostics().size() == 1);
  const Diagnostic& said = error.diagnostics().front();
  CHECK(said.position.line == 7);
  CHECK(said.position.column > 0);
  CHECK(said.message == "no way to split 4 GPUs keeps plan.fix: tensor_model_parallel_size is not 3");
  CHECK(said.hint == "with the other limits it can be 1, 2.");
}

TEST_CASE("values of plan.fix that no job can have are refused before any search") {
  const auto refused = [](const char* fix) {
    try {
      base_from(small_job(two_nodes, std::string("plan: {fix: {") + fix + "}}\n"));
    } catch (const ConfigError& error) {
      return error.diagnostics().size();
    }
    return std::size_t{0};
  };
  CHECK(refused("zero_stage: 9") == 1);
  CHECK(refused("zero_stage: [0, 9]") == 1);
  CHECK(refused("zero_stage: []") == 1);
  CHECK(refused("micro_batch_size: 0") == 1);
  CHECK(refused("tensor_model_parallel_size: 0, data_parallel_size: [1, 0]") == 2);
  CHECK(refused("zero_stage: [0, 3]") == 0);
}

TEST_CASE("what contradicts a batch or a schedule is named, with the nearest that works") {
  const auto refusal = [](const char* batch, const char* fix, const char* gpus) {
    const std::string job =
        "simrun: 1\n"
        "model: {model_type: gpt, num_layers: 6, hidden_size: 256, num_attention_heads: 4, vocab_size: "
        "4096}\n"
        "training: {seq_length: 128, precision: bf16}\n"
        "cluster: {from: dgx_a100, nodes: 1, gpus_per_node: 6, nics_per_node: 2}\n";
    LoadOptions load;
    load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
    load.overrides = {{"training.global_batch_size", batch},
                      {"plan.fix", fix},
                      {"cluster.gpus_per_node", gpus},
                      {"cluster.nics_per_node", "1"}};
    const ConfigError error = error_of(
        plan_base(job, "test.yaml", with_starting_split(job, "test.yaml", load, WrittenSizes::give_way)));
    REQUIRE(error.diagnostics().size() == 1);
    return error.diagnostics().front().message + "; " + error.diagnostics().front().hint;
  };
  const std::string batch = refusal("32", "{pipeline_model_parallel_size: 2, data_parallel_size: 3}", "6");
  CHECK(batch.find("32 sequences do not divide so; 33 do.") != std::string::npos);
  const std::string schedule = refusal("36", "{pipeline_schedule: [zb_v]}", "1");
  CHECK(schedule.find("pipeline_schedule is not zb_v; with the other limits it can be 1f1b.") !=
        std::string::npos);
}

// Without ZeRO nothing is gathered.
TEST_CASE("a job that overlaps parameter gathers, and leaves the ZeRO stage open, starts from ZeRO-1") {
  const auto starts_from = [](const std::string& optimizer) {
    const std::string job =
        "simrun: 1\n"
        "model: {model_type: gpt, num_layers: 4, hidden_size: 256, num_attention_heads: 4, vocab_size: "
        "4096}\n"
        "training: {seq_length: 128, global_batch_size: 8, precision: bf16}\n"
        "optimizer: {" +
        optimizer + "}\ncluster: {from: dgx_a100, nodes: 1, gpus_per_node: 4}\n";
    LoadOptions load;
    load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
    return load_job_text(job, "test.yaml",
                         with_starting_split(job, "test.yaml", load, WrittenSizes::give_way))
        .job.optimizer.zero_stage;
  };
  CHECK(starts_from("overlap_grad_reduce: true, overlap_param_gather: true") == 1);
  CHECK(starts_from("overlap_grad_reduce: true, overlap_param_gather: true, zero_stage: 2") == 2);
  CHECK(starts_from("overlap_param_gather: false") == 0);
  CHECK(starts_from("overlap_grad_reduce: true") == 0);
}

// 7 layers do not split evenly, tensor parallel ends at a node's 8 GPUs, and 64 / 8 GPUs do not divide 20
// sequences.
TEST_CASE("a batch smaller than the GPUs starts from parts of sequences where layers do not split",
          "[long]") {
  const std::string job =
      "simrun: 1\n"
      "model: {model_type: gpt, num_layers: 7, hidden_size: 256, num_attention_heads: 8, vocab_size: 4096}\n"
      "training: {seq_length: 512, global_batch_size: 20, precision: bf16}\n"
      "plan: {evaluations: 4}\n"
      "cluster: {from: dgx_a100, nodes: 8}\n";
  const PlanSearchResult found = searched_from_start(job);
  REQUIRE_FALSE(found.best.empty());
  CHECK(found.best.front().candidate.data <= 4);
}

// 6 GPUs, 97 sequences: only one data-parallel rank. 7 layers into 2, 3 or 6 stages, 4 heads over 3 GPUs: no
// even split.
TEST_CASE("a batch that divides over no even split starts from stages of unlike length", "[long]") {
  const std::string job =
      "simrun: 1\n"
      "model: {model_type: gpt, num_layers: 7, hidden_size: 256, num_attention_heads: 4, vocab_size: 4096}\n"
      "training: {seq_length: 128, global_batch_size: 97, precision: bf16}\n"
      "plan: {evaluations: 4}\n"
      "cluster: {from: dgx_a100, nodes: 1, gpus_per_node: 6, nics_per_node: 2}\n";
  const PlanSearchResult found = searched_from_start(job);
  REQUIRE_FALSE(found.best.empty());
  CHECK(found.best.front().candidate.data == 1);
}

TEST_CASE("what a mode of --plan does not know of the plan section is refused, not left out") {
  const auto keys = [](const std::vector<Unsearched>& unsearched) {
    std::vector<std::string> of;
    for (const Unsearched& one : unsearched) of.push_back(one.key);
    return of;
  };
  PlanConfig limits;
  limits.max_memory = 1 << 30;
  CHECK(limits_unknown_to_galvatron(limits).empty());
  CHECK(limits_unknown_to_whale(limits).empty());
  CHECK(limits_unknown_to_alpa(limits).empty());
  limits.schedules = {"zb_h1"};
  limits.fixed_numbers["zero_stage"] = {1};
  limits.fixed_numbers["tensor_model_parallel_size"] = {2};
  limits.minimise = PlanObjective::memory;
  const std::vector<std::string> all{"plan.minimise", "plan.fix.tensor_model_parallel_size",
                                     "plan.fix.zero_stage", "plan.fix.pipeline_schedule"};
  CHECK(keys(limits_unknown_to_galvatron(limits)) == all);
  CHECK(keys(limits_unknown_to_whale(limits)) == all);
  CHECK(keys(limits_unknown_to_alpa(limits)) ==
        std::vector<std::string>{"plan.minimise", "plan.fix.tensor_model_parallel_size"});
  CHECK(limits_unknown_to_galvatron(limits).back().why ==
        "plan.fix.pipeline_schedule means nothing to --plan galvatron, which searches over all of its "
        "strategies");
}

// Three layers on the P100 and one on the V100 that follow: every layer moved is a gain.
TEST_CASE(
    "climbing moves layers to the faster GPUs, never ends behind where it began, and counts its steps") {
  const PlanBase base = base_from(small_job(two_kinds), {{"plan.fix.micro_batch_size", "1"}});
  RankedCandidate from;
  from.candidate.pipeline = 2;
  from.candidate.data = 2;
  from.candidate.schedule = "1f1b";
  from.candidate.balance.rank_map = {2, 3, 0, 1};
  from.candidate.balance.layout = "Ettt|tL";
  from.evaluation = evaluate_candidate(base, from.candidate, EngineChoice::automatic);
  REQUIRE(from.evaluation.refusal.empty());
  Climb two{2};
  const RankedCandidate to = climbed(base, from, two);
  CHECK(two.evaluated > 2);
  CHECK(two.evaluated <= 240);
  CHECK(to.evaluation.step_s < from.evaluation.step_s);
  Climb one;
  CHECK(climbed(base, from, one).candidate == to.candidate);
  CHECK(one.evaluated == two.evaluated);
  // The best has no better neighbour, and who may not go on stays.
  CHECK(climbed(base, to, one).candidate == to.candidate);
  Climb none{1, [] { return false; }};
  CHECK(climbed(base, from, none).candidate == from.candidate);
}

}  // namespace simrun
