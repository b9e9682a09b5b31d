#include "planner/tunings.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "planner/candidate_neighbours.h"
#include "planner/other_schedules.h"
#include "planner/searched_lines.h"
#include "tests/jobs.h"
#include "tests/planner/searches.h"

namespace simrun {
namespace {

// 2 x 2 x 4 x 2 = 32 ranks.
Candidate divided_candidate() {
  Candidate of;
  of.tensor = 2, of.context = 2, of.data = 4, of.pipeline = 2;
  of.zero_stage = 1;
  of.schedule = "1f1b";
  return of;
}

PlanConfig all_open() {
  PlanConfig limits;
  limits.rank_order_is_open = limits.bucket_is_open = limits.reshard_is_open = true;
  return limits;
}

std::set<std::string> words_of(const std::vector<Candidate>& all) {
  std::set<std::string> words;
  for (const Candidate& of : all) words.insert(describe(of.tuning));
  return words;
}

}  // namespace

TEST_CASE("neighbouring axes change about, buckets grow and shrink, gathered weights stay") {
  const Job job = preset_job("llama3-8b-8xh100");
  Candidate of = divided_candidate();
  CHECK(words_of(tunings_of(job, all_open(), of)) ==
        std::set<std::string>{", rank_order cp-ep-tp-dp-pp", ", rank_order tp-dp-cp-ep-pp",
                              ", rank_order tp-cp-ep-pp-dp", ", bucket_size 10000000",
                              ", bucket_size 20000000", ", bucket_size 80000000", ", bucket_size 160000000"});
  // One axis is in no order, and one copy reduces nothing.
  of.context = of.data = of.pipeline = 1;
  CHECK(tunings_of(job, all_open(), of).empty());
  of = divided_candidate();
  of.context = 1;
  of.zero_stage = 3;
  CHECK(words_of(tunings_of(job, all_open(), of)) ==
        std::set<std::string>{", rank_order dp-cp-ep-tp-pp", ", rank_order tp-cp-ep-pp-dp",
                              ", no reshard after forward", ", no reshard after forward and backward"});
  CHECK(tunings_of(job, {}, of).empty());
}

TEST_CASE("a tuning is climbed from, back to what the job has, and not into another stage") {
  const Job job = preset_job("llama3-8b-8xh100");
  Candidate of = divided_candidate();
  of.tuning.rank_order = "tp-cp-ep-pp-dp";
  of.tuning.bucket_size = 20'000'000;
  std::set<std::string> words = words_of(tunings_of(job, all_open(), of));
  CHECK(words.contains(", bucket_size 20000000"));
  CHECK(words.contains(", rank_order tp-cp-ep-pp-dp"));
  CHECK(words.contains(", rank_order tp-cp-ep-pp-dp, bucket_size 5000000"));
  bool has_other_stage = false;
  for (const Candidate& next : neighbours_of(job, {}, of)) {
    CHECK(next.tuning.rank_order == "tp-cp-ep-pp-dp");
    CHECK(next.tuning.bucket_size == (next.zero_stage == 3 ? 0 : 20'000'000));
    has_other_stage = has_other_stage || next.zero_stage != of.zero_stage;
  }
  CHECK(has_other_stage);
}

TEST_CASE("what a job writes itself is not tuned") {
  const auto limits_with = [](const char* key, const char* value) {
    return base_of("llama3-8b-8xh100", {{key, value}}).job.plan;
  };
  const PlanConfig plain = base_of("llama3-8b-8xh100").job.plan;
  CHECK(plain.rank_order_is_open);
  CHECK(plain.bucket_is_open);
  CHECK(plain.reshard_is_open);
  CHECK_FALSE(limits_with("parallelism.rank_order", "tp-cp-ep-pp-dp").rank_order_is_open);
  CHECK_FALSE(limits_with("optimizer.bucket_size", "1000000").bucket_is_open);
  CHECK_FALSE(limits_with("optimizer.bucket_bytes", "25 MiB").bucket_is_open);
  CHECK_FALSE(base_of("llama3-8b-8xh100",
                      {{"optimizer.zero_stage", "3"}, {"optimizer.reshard_after_forward", "false"}})
                  .job.plan.reshard_is_open);
}

TEST_CASE("a tuned candidate's job has its keys, and lines of it are read back") {
  const PlanBase base = base_of("llama3-8b-8xh100");
  Candidate of;
  of.data = 8;
  of.zero_stage = 3;
  of.tuning.gathered_stay = 2;
  Job job = load_candidate(base, of);
  CHECK_FALSE(job.optimizer.reshard_after_forward);
  CHECK_FALSE(job.optimizer.reshard_after_backward);
  CHECK(read_evaluated_line(evaluated_line(of, {}))->first == of);
  of.zero_stage = 1;
  of.data = 4, of.pipeline = 2, of.schedule = "1f1b";
  of.tuning = {"tp-cp-ep-pp-dp", 5'000'000, 0};
  job = load_candidate(base, of);
  CHECK(job.parallelism.rank_order == "tp-cp-ep-pp-dp");
  CHECK(job.optimizer.bucket_size == 5'000'000);
  CHECK(job.optimizer.reshard_after_forward);
  CHECK(read_evaluated_line(evaluated_line(of, {}))->first == of);
  of.tuning.gathered_stay = 3;
  CHECK_FALSE(read_evaluated_line(evaluated_line(of, {})));
  of.tuning = {"tp-pp", 0, 0};
  CHECK_FALSE(read_evaluated_line(evaluated_line(of, {})));
}

// Such a job's weights of other stages are never resharded, its gradients of stages 0 and 1 reduced once.
TEST_CASE("what a job says of one ZeRO stage does not keep the others from being searched") {
  const PlanBase base = base_of("tiny-gpt-8ranks", {{"optimizer.zero_stage", "3"},
                                                    {"optimizer.reshard_after_forward", "false"},
                                                    {"optimizer.reshard_after_backward", "false"},
                                                    {"optimizer.no_sync", "true"}});
  for (const int stage : {0, 1, 2, 3}) {
    Candidate of;
    of.data = 8;
    of.zero_stage = stage;
    const Job job = load_candidate(base, of);
    CHECK(job.optimizer.reshard_after_forward == (stage < 3));
    CHECK(job.optimizer.no_sync == (stage >= 2));
    CHECK(job.optimizer.reshard_after_forward ==
          with_candidate(base.job.job, of).optimizer.reshard_after_forward);
    CHECK(job.optimizer.no_sync == with_candidate(base.job.job, of).optimizer.no_sync);
  }
}

TEST_CASE("orders are searched of one, two and a candidate's own number of stages") {
  const Job job = preset_job("llama3-8b-8xh100");
  const auto orders = [&](const Candidate& of) {
    std::set<std::string> words;
    for (const Candidate& next : with_searched_orders(job, {}, of))
      words.insert(next.schedule + " " + std::to_string(next.virtual_stages));
    return words;
  };
  Candidate of = divided_candidate();
  CHECK(orders(of) == std::set<std::string>{"zb_auto 1", "v_auto 2", "auto 1", "auto 2"});
  of.virtual_stages = 4;
  CHECK(orders(of).contains("auto 4"));
  of.pipeline = 1;
  CHECK(orders(of).empty());
  PlanConfig fixed;
  fixed.schedules = {"1f1b"};
  CHECK(with_searched_orders(job, fixed, divided_candidate()).empty());
}

TEST_CASE("a search that tunes finds no slower plan, and what it wrote is what was simulated", "[long]") {
  const std::vector<Override> few_sizes = {{"plan.fix.micro_batch_size", "[1, 2]"},
                                           {"plan.fix.context_parallel_size", "1"}};
  int tuned = 0;
  for (const char* name : {"tiny-gpt-8ranks", "tiny-moe-8ranks", "llama3-8b-8xh100"}) {
    const PlanBase base = base_of(name, few_sizes);
    PlanSearchOptions plainly;
    plainly.tunes = false;
    const RankedCandidate plain = search_jobs(base, plainly).best.front();
    const PlanSearchResult found = found_by(base);
    const RankedCandidate& best = found.best.front();
    CAPTURE(name, describe(plain.candidate), describe(best.candidate));
    CHECK(best.evaluation.step_s <= plain.evaluation.step_s);
    CHECK(plain.candidate.tuning == SplitTuning{});
    for (const RankedCandidate& of : found.best) {  // what is on the front may gain bytes instead
      const auto is_it = [&](const RankedCandidate& other) { return other.candidate == of.candidate; };
      if (of.candidate.tuning == SplitTuning{} || std::ranges::any_of(found.pareto, is_it)) continue;
      CHECK(of.evaluation.step_s < 0.999 * plain.evaluation.step_s);
    }
    if (best.candidate.tuning == SplitTuning{}) continue;
    ++tuned;
    Candidate without = best.candidate;
    without.tuning = {};
    CHECK(evaluate_candidate(base, without, EngineChoice::automatic).step_s > best.evaluation.step_s);
  }
  CHECK(tuned > 0);
}

}  // namespace simrun
