#include "planner/search.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "planner/candidate_config.h"
#include "planner/searched_lines.h"
#include "planner/shorter_steps.h"
#include "tests/jobs.h"
#include "tests/planner/searches.h"

namespace simrun {
TEST_CASE("what the search finds is the best of simulating every candidate", "[long]") {
  for (const char* job : {"tiny-4xa100", "tiny-moe-8ranks", "llama3-8b-8xh100"}) {
    CAPTURE(job);
    const PlanSearchResult all =
        found_by(base_of(job, with(few_candidates, {"plan.evaluations", "100000"})), 2);
    REQUIRE(all.evaluated > 40);
    const PlanSearchResult few = found_by(base_of(job, with(few_candidates, {"plan.evaluations", "8"})), 2);
    CHECK(few.evaluated <= 140);  // with neighbours, other schedules, layers dealt and moved, and tunings
    REQUIRE(!few.best.empty());
    CHECK(few.best.front().evaluation.step_s <= all.best.front().evaluation.step_s * (1 + 1e-9));
  }
}

// Where a pipeline's gain lies in the layers of its stages, whichever split the list begins with.
TEST_CASE("no limit on the pipeline or the schedule makes a plan of few layers faster", "[long]") {
  const auto best_with = [](std::vector<Override> overrides) {
    LoadOptions load;
    load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
    load.overrides = std::move(overrides);
    const PlanSearchResult found = found_by(plan_base(
        "simrun: 1\n"
        "model: {model_type: llama, num_hidden_layers: 4, hidden_size: 3072, intermediate_size: 5632, "
        "num_attention_heads: 24, num_key_value_heads: 12, vocab_size: 50257, tie_word_embeddings: true}\n"
        "training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 32, precision: fp16}\n"
        "optimizer: {overlap_grad_reduce: true, overlap_param_gather: false, name: sgd}\n"
        "cluster: {from: dgx1_v100, nodes: 2}\n",
        "few.yaml", load));
    REQUIRE_FALSE(found.best.empty());
    return found.best.front().evaluation.step_s;
  };
  const double free = best_with({});
  CHECK(free <= best_with({{"plan.fix.pipeline_model_parallel_size", "2"}}) * (1 + 1e-9));
  CHECK(free <= best_with({{"plan.fix.pipeline_schedule", "[zb_v]"}}) * (1 + 1e-9));
}

// Four sequences on eight L40S without NVLink: half of the ranks' time is bubbles and transfers.
TEST_CASE("a schedule that no estimate knows is found where it is faster than all that have one", "[long]") {
  const auto best_with = [](std::vector<Override> overrides) {
    LoadOptions load;
    load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
    load.overrides = std::move(overrides);
    const PlanSearchResult found = found_by(plan_base(
        "simrun: 1\n"
        "model: {model_type: llama, num_hidden_layers: 8, hidden_size: 4096, intermediate_size: 8192, "
        "num_attention_heads: 32, num_key_value_heads: 8, vocab_size: 32000, max_position_embeddings: "
        "32768}\n"
        "training: {seq_length: 4096, micro_batch_size: 1, global_batch_size: 4, precision: bf16}\n"
        "parallelism: {context_parallel_size: 2}\n"
        "cluster: {from: pcie4_8xl40s, nodes: 1}\n",
        "pcie.yaml", load));
    REQUIRE_FALSE(found.best.empty());
    return found.best.front();
  };
  const RankedCandidate free = best_with({});
  const RankedCandidate known =
      best_with({{"plan.fix.pipeline_schedule", "[1f1b, interleaved_1f1b, zb_h1, zb_v]"}});
  CHECK(free.candidate.schedule == "interleaved_zb");
  CHECK(free.evaluation.step_s < 0.97 * known.evaluation.step_s);
}

TEST_CASE("overlap that the job does not write is open, unless one of the two is written false") {
  const auto is_open = [](const std::string& optimizer) {
    return base_of("tiny-4xa100", {{"optimizer", optimizer}}).job.plan.overlap_is_open;
  };
  CHECK(is_open("{}"));
  CHECK(is_open("{overlap_grad_reduce: true}"));
  CHECK_FALSE(is_open("{overlap_grad_reduce: false}"));
  CHECK_FALSE(is_open("{overlap_grad_reduce: true, overlap_param_gather: false}"));
  CHECK_FALSE(is_open("{zero_stage: 1, overlap_grad_reduce: true, overlap_param_gather: true}"));
}

TEST_CASE("a framework that takes memory as one arena leaves all of it to candidates", "[long]") {
  const std::vector<Override> overrides = with(few_candidates, {"plan.evaluations", "4"});
  const PlanSearchResult plain = found_by(base_of("tiny-4xa100", overrides));
  const PlanSearchResult arena = found_by(base_of("tiny-4xa100", with(overrides, {"framework", "jax"})));
  REQUIRE_FALSE(arena.best.empty());
  CHECK(arena.feasible + arena.pruned == plain.feasible + plain.pruned);
}

TEST_CASE("overlap is tried where the job does not write it", "[long]") {
  const auto overlaps = [](const std::vector<Override>& overrides) {
    const PlanSearchResult found =
        found_by(base_of("tiny-4xa100", with(overrides, {"plan.evaluations", "4"})));
    const auto is_overlapped = [](const RankedCandidate& of) { return of.candidate.overlaps; };
    return std::ranges::any_of(found.best, is_overlapped) || std::ranges::any_of(found.rest, is_overlapped);
  };
  const Override two_copies = {"plan.fix.data_parallel_size", "2"};
  CHECK(overlaps({two_copies}));
  CHECK_FALSE(overlaps({two_copies, {"optimizer.overlap_grad_reduce", "false"}}));
}

// With few to simulate the lists of the threads are cut, which must not show in what is left of them.
TEST_CASE("what is simulated is the same for any number of threads", "[long]") {
  const PlanBase base = base_of("llama3-8b-8xh100", {{"plan.evaluations", "4"}, {"plan.best", "4"}});
  const auto simulated = [&](unsigned threads) {
    const PlanSearchResult found = found_by(base, threads);
    std::vector<Candidate> candidates;
    for (const auto* of : {&found.best, &found.rest})
      for (const RankedCandidate& one : *of) candidates.push_back(one.candidate);
    std::ranges::sort(candidates);
    return candidates;
  };
  const std::vector<Candidate> one = simulated(1);
  CHECK(one.size() >= 8);
  for (const unsigned threads : {2U, 3U, 5U}) CHECK(simulated(threads) == one);
}

TEST_CASE("the result is the same for any number of threads, and with what is known from before", "[long]") {
  const PlanBase base = base_of("tiny-moe-8ranks", with(few_candidates, {"plan.evaluations", "8"}));
  const PlanSearchResult one = found_by(base, 1), three = found_by(base, 3);
  REQUIRE(one.best.size() == three.best.size());
  CHECK(one.candidates == three.candidates);
  CHECK(one.evaluated == three.evaluated);
  PlanSearchOptions again;
  for (const auto* found : {&one.best, &one.rest})
    for (const RankedCandidate& of : *found) again.known.emplace(of.candidate, of.evaluation);
  const PlanSearchResult resumed = search_jobs(base, again);
  for (std::size_t i = 0; i < one.best.size(); ++i) {
    CHECK(one.best[i].candidate == three.best[i].candidate);
    CHECK(one.best[i].evaluation.step_s == three.best[i].evaluation.step_s);
    CHECK(one.best[i].candidate == resumed.best[i].candidate);
  }
}

TEST_CASE("what processes tell one another is read back to the bit") {
  Candidate candidate;
  candidate.tensor = 8;
  candidate.whole_sequences = true;
  candidate.exchange = {ContextExchange::a2a_p2p, 4};
  candidate.recompute = RecomputeGranularity::full;
  Evaluation found;
  found.step_s = 0.1 + 0.2;
  found.bubble_fraction = 1.0 / 3;
  found.peak_bytes = 123456789012345;
  found.host_excess_bytes = 987654321098;
  found.fits = true;
  found.engine = "fast";
  const auto read = read_evaluated_line(evaluated_line(candidate, found));
  REQUIRE(read);
  CHECK(read->first == candidate);
  CHECK(read->second.step_s == found.step_s);
  CHECK(read->second.bubble_fraction == found.bubble_fraction);
  CHECK(read->second.peak_bytes == found.peak_bytes);
  CHECK(read->second.host_excess_bytes == found.host_excess_bytes);
  CHECK(read->second.engine == "fast");
  const Estimate estimate{2.0 / 3, 1e11 / 7, 8e10};
  const auto estimated = read_estimated_line(estimated_line(candidate, estimate));
  REQUIRE(estimated);
  CHECK(estimated->second.step_s == estimate.step_s);
  CHECK(estimated->second.peak_bytes == estimate.peak_bytes);
  CHECK(!read_evaluated_line("8\t1\tno line"));
}

TEST_CASE("what processes tell one another has the balance, whatever parts of it there are") {
  Candidate candidate;
  candidate.schedule = "zb_h1";
  candidate.balance.placement = "small memory first";
  candidate.balance.rank_map = {2, 3, 0, 1};
  candidate.balance.layout = "Et*3|t*4L";
  CHECK(read_estimated_line(estimated_line(candidate, {1, 2, 3}))->first == candidate);
  candidate.balance = {};
  candidate.schedule.clear();
  candidate.balance.micro_batch = 4;
  candidate.balance.replicas = {5, 3};
  CHECK(read_estimated_line(estimated_line(candidate, {1, 2, 3}))->first == candidate);
  candidate.balance.replicas.clear();
  candidate.balance.stage_data = {4, 2};
  CHECK(read_evaluated_line(evaluated_line(candidate, {}))->first == candidate);
}

// llama3-70b on 64 GPUs, interleaved: rings of context-parallel ranks and pipeline transfers share rails.
TEST_CASE("contention of many microbatches is that of two shorter steps, extrapolated, within 0.01 %",
          "[long]") {
  const PlanBase base = base_of("llama3-70b-64xh100", {{"training.global_batch_size", "256"}});
  Candidate candidate;
  candidate.tensor = 4;
  candidate.context = 2;
  candidate.pipeline = 4;
  candidate.virtual_stages = 7;
  candidate.data = 2;
  candidate.zero_stage = 1;
  candidate.schedule = "interleaved_1f1b";
  REQUIRE(is_long_and_periodic(load_candidate(base, candidate)));
  const Evaluation alone = evaluate_candidate(base, candidate, EngineChoice::fast);
  const Evaluation shorter = evaluate_candidate(base, candidate, EngineChoice::automatic);
  const Evaluation whole = evaluate_candidate(base, candidate, EngineChoice::simgrid);
  CHECK(shorter.engine == "simgrid");
  CHECK(alone.step_s < whole.step_s);
  CHECK(shorter.step_s == Approx(whole.step_s).epsilon(1e-4));
  CHECK(shorter.bubble_fraction == Approx(whole.bubble_fraction).epsilon(1e-2));
  CHECK(shorter.exposed_s == Approx(whole.exposed_s).epsilon(1e-2));
  CHECK(shorter.peak_bytes == whole.peak_bytes);
}

TEST_CASE("shorter steps have whole groups of microbatches: interleaving on three ranks is not refused") {
  LoadOptions load;
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  load.overrides = {{"training.global_batch_size", "864"}};
  const PlanBase base = plan_base(small_gpt(6, 1, 3, 3), "three.yaml", load);
  Candidate candidate;
  candidate.pipeline = 3;
  candidate.virtual_stages = 2;
  candidate.data = 8;  // 108 microbatches
  candidate.schedule = "interleaved_1f1b";
  REQUIRE(is_long_and_periodic(load_candidate(base, candidate)));
  const Evaluation alone = evaluate_candidate(base, candidate, EngineChoice::fast);
  const Evaluation found = evaluate_candidate(base, candidate, EngineChoice::automatic, &alone);
  CHECK(found.refusal.empty());
  CHECK(found.step_s >= alone.step_s * (1 - 1e-6));
  CHECK(found.peak_bytes == alone.peak_bytes);
}

TEST_CASE("no candidate of the front is beaten in both time and memory", "[long]") {
  const PlanSearchResult result = found_by(base_of("llama3-8b-8xh100", {{"plan.evaluations", "24"}}), 2);
  REQUIRE(result.pareto.size() >= 2);
  for (std::size_t i = 1; i < result.pareto.size(); ++i) {
    CHECK(result.pareto[i].evaluation.step_s >= result.pareto[i - 1].evaluation.step_s);
    CHECK(result.pareto[i].evaluation.peak_bytes < result.pareto[i - 1].evaluation.peak_bytes);
  }
}

// On slow links what is fastest by its own time alone may not be with links shared, and the other way round.
TEST_CASE("the front begins with the best, and all of it was simulated with shared links", "[long]") {
  for (const auto& [nodes, asked] : {std::pair{"4", "3"}, {"4", "12"}}) {
    const PlanBase base = base_of("llama3-8b-8xh100", {{"model", "{from: qwen2.5-1.5b}"},
                                                       {"training.seq_length", "2048"},
                                                       {"training.global_batch_size", "128"},
                                                       {"training.precision", "fp16"},
                                                       {"cluster", "{from: aws_p3_16xlarge}"},
                                                       {"cluster.nodes", nodes},
                                                       {"plan.fix.pipeline_model_parallel_size", "[2, 4, 8]"},
                                                       {"plan.best", asked}});
    const PlanSearchResult found = found_by(base, 2);
    REQUIRE_FALSE(found.best.empty());
    CHECK(std::to_string(found.best.size()) == asked);
    CHECK(found.pareto.front().candidate == found.best.front().candidate);
    std::set<Candidate> all;
    for (const auto* list : {&found.best, &found.rest})
      for (const RankedCandidate& of : *list) CHECK(all.insert(of.candidate).second);
    for (const RankedCandidate& of : found.pareto) {
      CAPTURE(nodes, describe(of.candidate));
      CHECK(of.evaluation.step_s == evaluate_candidate(base, of.candidate, EngineChoice::automatic).step_s);
    }
  }
}

// Here nothing is left to simulate when the front is looked for.
TEST_CASE("a front of nothing but what was listed before has its times with shared links", "[long]") {
  LoadOptions load;
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  const PlanBase base = plan_base(
      "simrun: 1\nmodel: {from: qwen2.5-7b}\n"
      "training: {seq_length: 4096, micro_batch_size: 1, global_batch_size: 60, precision: bf16}\n"
      "parallelism: {tensor_model_parallel_size: 4}\n"
      "cluster: {from: pcie4_8xl40s, nodes: 2}\n",
      "front.yaml", load);
  const PlanSearchResult found = found_by(base, 2);
  REQUIRE_FALSE(found.pareto.empty());
  for (const RankedCandidate& of : found.pareto) {
    CAPTURE(describe(of.candidate));
    CHECK(of.evaluation.step_s == evaluate_candidate(base, of.candidate, EngineChoice::automatic).step_s);
  }
}

TEST_CASE("a search for the least memory finds less of it than one for time", "[long]") {
  const std::vector<Override> few = {{"plan.evaluations", "16"}};
  const PlanSearchResult time = found_by(base_of("llama3-8b-8xh100", few), 2);
  const PlanSearchResult memory =
      found_by(base_of("llama3-8b-8xh100", with(few, {"plan.minimise", "memory"})), 2);
  REQUIRE(!memory.best.empty());
  CHECK(memory.best.front().evaluation.peak_bytes < time.best.front().evaluation.peak_bytes);
  CHECK(memory.best.front().evaluation.step_s > time.best.front().evaluation.step_s);
}

TEST_CASE("limits that contradict each other are named; a limit of memory is kept, or the nearest is found",
          "[long]") {
  CHECK_THROWS_WITH(found_by(base_of("llama3-8b-8xh100", {{"plan.fix.tensor_model_parallel_size", "3"}})),
                    Catch::Contains("tensor_model_parallel_size is not 3"));
  const PlanSearchResult kept =
      found_by(base_of("llama3-8b-8xh100", {{"plan.max_memory", "40 GiB"}, {"plan.evaluations", "16"}}), 2);
  REQUIRE(!kept.best.empty());
  for (const RankedCandidate& of : kept.best) CHECK(of.evaluation.peak_bytes <= std::int64_t{40} << 30);
  const PlanSearchResult none =
      found_by(base_of("llama3-8b-8xh100", {{"plan.max_memory", "2 GiB"}, {"plan.evaluations", "16"}}), 2);
  CHECK(none.best.empty());
  CHECK(!none.rest.empty());
}

TEST_CASE("where no candidate can be compiled the first one says why") {
  const PlanSearchResult result =
      found_by(base_of("tiny-moe-8ranks", {{"training.lora", "{rank: 4, targets: [mamba_in]}"}}));
  CHECK(result.best.empty());
  REQUIRE(result.rest.size() == 1);
  CHECK(result.rest.front().evaluation.refusal.find("the model has no product 'mamba_in'") !=
        std::string::npos);
}

TEST_CASE("a search that is told to stop keeps what it has") {
  const PlanBase base = base_of("llama3-8b-8xh100");
  PlanSearchOptions options;
  options.progress = [](const PlanSearchProgress& progress) {
    return progress.phase != PlanSearchPhase::simulating || progress.done == 0;
  };
  const PlanSearchResult result = search_jobs(base, options);
  CHECK(result.was_stopped);
  CHECK(result.evaluated == 16);  // one batch
  CHECK(!result.best.empty());
  options.progress = [](const PlanSearchProgress& progress) { return progress.done == 0; };
  const PlanSearchResult sooner = search_jobs(base, options);
  CHECK(sooner.was_stopped);
  CHECK(sooner.evaluated <= 16);  // of those that seemed best when it was stopped, to have something to show
  CHECK(sooner.best.size() + sooner.rest.size() == static_cast<std::size_t>(sooner.evaluated));
  options.progress = [](const PlanSearchProgress&) { return false; };
  const PlanSearchResult at_once = search_jobs(base, options);
  CHECK(at_once.was_stopped);
  CHECK(at_once.best.empty());
}

}  // namespace simrun
