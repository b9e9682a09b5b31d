#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backend/execute.h"
#include "backend/microbatch_parts.h"
#include "backend/reference_job.h"
#include "schedules/compile.h"
#include "tests/backend/expert_job_check.h"
#include "tests/backend/expert_jobs.h"

// Experts under layouts of one's own, which decide over which tokens their capacities and balance losses
// count.
namespace simrun {
namespace {

std::string with_rule(const std::string& rule, const std::string& more = "") {
  return more + "layout:\n  - {" + rule + "}\n";
}

constexpr const char* capacity = "moe: {capacity_factor: 0.8}\n";

}  // namespace

TEST_CASE("under layouts of one's own experts compute what one rank does that counts over the same tokens",
          "[long]") {
  for (const char* model : {tiny_qwen, tiny_switch})
    for (const char* moe : {"", capacity}) {
      // Both data-parallel ranks have the same two sequences.
      check_expert_job({.model = model, .more = with_rule("replicate: [batch]", moe), .gpus = 2});
      // Two halves of two sequences.
      check_expert_job({.model = model, .more = with_rule("split: {sequence: dp}", moe), .gpus = 2});
      // A sequence for each of four ranks.
      check_expert_job({.model = model,
                        .parallelism = "{tensor_model_parallel_size: 2}",
                        .more = with_rule("split: {batch: [dp, tp]}", moe),
                        .gpus = 4,
                        .micro_batch_size = 2});
      check_expert_job({.model = model,
                        .parallelism = "{tensor_model_parallel_size: 2}",
                        .more = with_rule("scope: moe, split: {sequence: tp}", moe),
                        .gpus = 4});
    }
}

TEST_CASE("einsum runs under a layout of one's own where masks and rows have their tokens divided alike") {
  const std::string masks = "moe: {capacity_factor: 0.8, token_dispatcher: einsum, group_size: 4}\n";
  check_expert_job({.model = tiny_mixtral, .more = with_rule("split: {sequence: dp}", masks), .gpus = 2});
  struct Case {
    const char *rule, *parallelism;
  };
  for (const Case& c :
       {Case{"scope: dispatch, replicate: [batch]", "{}"},
        {"scope: dispatch, split: {sequence: dp}, replicate: [batch]", "{}"},
        {"scope: combine, split: {sequence: dp}, replicate: [batch]", "{}"},
        {"scope: dispatch_masks, split: {sequence: tp}", "{tensor_model_parallel_size: 2}"},
        {"scope: dispatch_masks, split: {mask_places: tp}", "{tensor_model_parallel_size: 2}"}}) {
    CAPTURE(c.rule);
    const Plan plan = compile(tiny_job(
        {.model = tiny_mixtral, .parallelism = c.parallelism, .more = with_rule(c.rule, masks), .gpus = 2}));
    const std::vector<std::string> refusals = execution_refusals(plan, ExecutionDevice::cpu_f64);
    REQUIRE(!refusals.empty());
    CHECK(refusals.front().find("layout: ") != std::string::npos);
  }
}

// Of tokens that two ranks have alike, gathered from two others, each of four ranks keeps a fourth.
TEST_CASE("rows of tokens that ranks have alike are shared out behind a gather, too") {
  for (const char* moe : {"", capacity}) {
    check_expert_job({.model = tiny_mixtral,
                      .parallelism = "{context_parallel_size: 2, context_parallel_layout: contiguous, "
                                     "cp_comm_type: all_gather}",
                      .more = with_rule("split: {sequence: cp}, replicate: [batch]", moe),
                      .gpus = 4});
    check_expert_job({.model = tiny_mixtral,
                      .parallelism = "{tensor_model_parallel_size: 2, expert_model_parallel_size: 2}",
                      .more = with_rule("split: {capacity: [tp, dp]}", moe),
                      .gpus = 4});
  }
}

// Ranks hold all rows of some columns before an exchange, and some rows of all columns behind it.
TEST_CASE("exchanges between experts' rows and columns compute what one rank does", "[long]") {
  const std::pair<const char*, const char*> exchanges[] = {
      {"scope: expert_fc2, split: {capacity: [tp, dp]}", "{tensor_model_parallel_size: 2}"},
      {"scope: expert_activation, split: {capacity: [tp, dp]}",
       "{tensor_model_parallel_size: 2, expert_model_parallel_size: 2}"},
      {"scope: expert_fc1, split: {capacity: tp}",
       "{tensor_model_parallel_size: 2, sequence_parallel: true}"},
      {"scope: expert_fc1, split: {experts: [tp, dp]}", "{tensor_model_parallel_size: 2}"}};
  for (const auto& [rule, parallelism] : exchanges)
    for (const char* moe : {"", capacity})
      check_expert_job(
          {.model = tiny_mixtral, .parallelism = parallelism, .more = with_rule(rule, moe), .gpus = 4});
}

// Behind a share in turn a row is the one's who keeps it, for all exchanges that follow.
TEST_CASE("rows shared out over the axis that had split their experts are found again", "[long]") {
  for (const char* scope : {"expert_fc1", "expert_fc2"})
    check_expert_job({.model = tiny_mixtral,
                      .parallelism = "{expert_model_parallel_size: 2, expert_tensor_parallel_size: 1}",
                      .more = with_rule("scope: " + std::string(scope) + ", split: {capacity: ep}",
                                        "moe: {token_dispatcher: allgather}\n"),
                      .gpus = 2});
  for (const char* moe : {"", capacity})
    for (const char* axis : {"ep", "tp"})
      check_expert_job(
          {.model = tiny_mixtral,
           .parallelism = "{tensor_model_parallel_size: 2, expert_model_parallel_size: 2, "
                          "expert_tensor_parallel_size: 1}",
           .more = with_rule("scope: expert_fc2, split: {capacity: " + std::string(axis) + "}", moe),
           .gpus = 4});
}

TEST_CASE("rows come back to the ranks that sent them, or are gathered: other layouts are refused") {
  const auto plan_of = [](const std::string& rule, const char* model) {
    return compile(tiny_job({.model = model, .more = with_rule(rule), .gpus = 2}));
  };
  for (const char* rule :
       {"scope: dispatch, replicate: [batch]", "scope: dispatch, split: {sequence: dp}, replicate: [batch]",
        "scope: combine, split: {sequence: dp}, replicate: [batch]"}) {
    CAPTURE(rule);
    CHECK_THROWS_WITH(plan_of(rule, tiny_mixtral),
                      Catch::Contains("combine of layer 0 splits tokens otherwise than dispatch of layer 0"));
  }
  check_expert_job(
      {.model = tiny_mixtral, .more = with_rule("scope: combine, replicate: [batch]"), .gpus = 2});
}

TEST_CASE("a balance loss of each sequence alone does not depend on what else a rank has") {
  const std::string by_sequence =
      std::string(tiny_switch)
          .insert(std::string(tiny_switch).rfind("}"), ", moe_router_load_balancing_type: seq_aux_loss");
  check_expert_job({.model = by_sequence.c_str(),
                    .more = with_rule("scope: \"layers[0-1].moe\", replicate: [batch]"),
                    .gpus = 2,
                    .micro_batch_size = 2});
}

TEST_CASE("layers that count over unlike parts have no reference, and who does not count has any") {
  const auto job = [](const char* moe) {
    return tiny_job({.model = tiny_mixtral,
                     .parallelism = "{tensor_model_parallel_size: 2}",
                     .more = with_rule("scope: \"layers[0-1].moe\", split: {sequence: tp}", moe),
                     .gpus = 4});
  };
  CHECK_THROWS_AS(reference_job(job(capacity)), std::invalid_argument);
  CHECK_FALSE(microbatch_parts(job("")).has_value());
  check_expert_job({.model = tiny_mixtral,
                    .parallelism = "{tensor_model_parallel_size: 2}",
                    .more = with_rule("scope: \"layers[0-1].moe\", split: {sequence: tp}"),
                    .gpus = 4});
}

}  // namespace simrun
