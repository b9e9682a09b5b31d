// Whale's replicate and split over the same ranks, and the bridges between them.
#include "schedules/task_graphs.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "schedules/layout_report.h"
#include "schedules/lint.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

// One layer of hidden 1024 and ffn 4096 on 8 GPUs without tensor parallelism: dp 8, so a batch of 16.
Job job_with_rules(const std::string& rules) {
  return job_from(small_gpt(1, 1, 1, 1) + "layout:\n" + rules,
                  {{"model.untie_embeddings_and_output_weights", "true"}});
}

// "when operation axes bytes", of the transfers within passes.
std::vector<std::string> bridges(const Job& job, const std::string& name) {
  std::vector<std::string> found;
  for (const LayoutPart& part : layout_report(job).parts)
    for (const OperatorLayout& op : part.operators)
      for (const LayoutTransfer& transfer : op.transfers)
        if (op.name == name && transfer.when != "step")
          found.push_back(
              fmt::format("{} {} {} {}", transfer.when, transfer.operation, transfer.axes, transfer.bytes));
  return found;
}

TEST_CASE(
    "task graphs: replicated features and a split classifier are bridged by one gather and one scatter") {
  // As Whale's ResNet-50 with 100,000 classes (section 6): layers on all 8 ranks each with 2 of 16 sequences,
  // the classifier's 51,200 columns over the same ranks.
  const Job job = job_with_rules("  - {scope: head, split: 8}\n  - {scope: final_norm, replicate: 8}\n");
  // 16 x 512 x 1024 x 2 B = 16,777,216 B of features, fp16; backward the sum of 8 partial gradients.
  CHECK(bridges(job, "logits") ==
        std::vector<std::string>{"forward all_gather dp 16777216", "backward all_gather dp 16777216"});
  CHECK(bridges(job, "final_norm") == std::vector<std::string>{"backward reduce_scatter dp 16777216"});
  CHECK(lint(compile(job)).empty());
}

TEST_CASE("task graphs: two regions that split the same dimension alike need no bridge") {
  const Job job = job_with_rules("  - {scope: layers, replicate: 8}\n  - {scope: head, replicate: 8}\n");
  for (const char* name : {"final_norm", "logits", "fc1", "fc2", "qkv"}) CHECK(bridges(job, name).empty());
  Plan by_rules = compile(job), plain = compile(job_with_rules("  - {split: {batch: dp}}\n"));
  by_rules.job.config_sha256 = plain.job.config_sha256;
  CHECK(by_rules.job.hardware_flops_per_step == plain.job.hardware_flops_per_step);
}

TEST_CASE("task graphs: a region on fewer ranks than the stage is repeated on the others") {
  // 4 of 8 ranks share the batch of 16 in the MLP: each has 4 sequences, and two ranks have the same. A
  // rank's 4 are not among its own 2, so the rows are gathered and cut anew.
  const Job job = job_with_rules("  - {scope: mlp, replicate: 4}\n");
  CHECK(bridges(job, "fc1") ==
        std::vector<std::string>{"forward all_gather dp 16777216", "forward slice 4 ranks 16777216",
                                 "backward all_gather dp 16777216", "backward slice 4 ranks 16777216"});
  const Plan all = compile(job_with_rules("  - {scope: mlp, replicate: 8}\n")), some = compile(job);
  CHECK(lint(some).empty());
  // Twice the MLP's FLOPs: 6 x 2 x 1024 x 4096 per token more. 64 sequences of 512 tokens a step.
  CHECK(some.job.hardware_flops_per_step - all.job.hardware_flops_per_step ==
        Approx(64.0 * 512 * 12 * 1024 * 4096));
}

TEST_CASE("task graphs: numbers of ranks that are no group of a stage are refused where they stand") {
  const auto fault = [](const std::string& rules) {
    try {
      compile(job_with_rules(rules));
    } catch (const ConfigError& error) {
      return fmt::format("{}:{} {}", error.diagnostics().front().position.line,
                         error.diagnostics().front().position.column, error.diagnostics().front().message);
    }
    return std::string("accepted");
  };
  CHECK(
      fault("  - {scope: mlp, replicate: 3}\n") ==
      "7:29 3 ranks do not divide a stage: a pipeline stage has 8 (tensor 1 x context 1 x data parallel 8)");
  CHECK(
      fault("  - {scope: logits, split: {vocab: dp}}\n  - {scope: mlp, split: 16}\n") ==
      "8:25 16 ranks do not divide a stage: a pipeline stage has 8 (tensor 1 x context 1 x data parallel 8)");
}

}  // namespace
}  // namespace simrun
