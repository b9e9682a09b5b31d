// More tensor-parallel ranks than key-value heads.
#include <algorithm>
#include <catch2/catch.hpp>

#include "models/decoder.h"
#include "schedules/compile.h"
#include "schedules/layout_report.h"
#include "schedules/lint.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

// 16 query heads and 2 key-value heads of 32: 512 + 2 x 64 = 640 packed rows. One layer, batch 1, sequence
// 256.
Job grouped_job(int tp, const std::string& sequence_parallel = "false") {
  return job_from(
      "simrun: 1\n"
      "model: {model_type: llama, num_hidden_layers: 1, hidden_size: 512, intermediate_size: 1024, "
      "num_attention_heads: 16, num_key_value_heads: 2, vocab_size: 8192, tie_word_embeddings: false}\n"
      "training: {seq_length: 256, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
      "parallelism: {tensor_model_parallel_size: " +
      std::to_string(tp) + ", sequence_parallel: " + sequence_parallel +
      "}\ncluster: {from: dgx_h100, nodes: 1}\n");
}

std::vector<LayoutTransfer> transfers_of(const Job& job, const std::string& name) {
  for (const LayoutPart& part : layout_report(job).parts)
    for (const OperatorLayout& op : part.operators)
      if (op.name == name) return op.transfers;
  return {};
}

TEST_CASE("copied heads: 8 ranks gather the packed rows of 2 key-value heads and scatter their gradient") {
  const Job job = grouped_job(8);
  // Forward: 256 tokens x 640 rows x 2 B = 327,680 B, of which a rank made an eighth.
  const std::vector<LayoutTransfer> gathers = transfers_of(job, "select_heads");
  REQUIRE(gathers.size() == 1);
  CHECK(gathers[0].operation == "all_gather");
  CHECK(gathers[0].axes == "tp");
  CHECK(gathers[0].bytes == 327'680);
  // Backward: every rank has a summand of all rows, zero but for its heads; 4 ranks use each key-value head.
  const std::vector<LayoutTransfer> scatters = transfers_of(job, "qkv");
  REQUIRE(!scatters.empty());
  CHECK(scatters[0].operation == "reduce_scatter");
  CHECK(scatters[0].bytes == 327'680);
}

TEST_CASE("copied heads: parameters and FLOPs are those without copies, a rank's part has a whole head") {
  const Job few = grouped_job(2), many = grouped_job(8);
  const Plan of_few = compile(few), of_many = compile(many);
  CHECK(of_few.job.parameters == of_many.job.parameters);
  CHECK(of_few.job.hardware_flops_per_step == of_many.job.hardware_flops_per_step);
  // What attention reads: 256 tokens x (2 query heads + key + value) x 32 x 2 B per rank, where an eighth of
  // all 20 heads would be 2.5.
  const auto rope = std::find_if(of_many.buffers.begin(), of_many.buffers.end(), [](const Buffer& buffer) {
    return buffer.name.find("rope") != std::string::npos;
  });
  REQUIRE(rope != of_many.buffers.end());
  CHECK(rope->elements() == 256 * 4 * 32);
}

// Each of 8 ranks has 32 tokens, and repeats the 2 key-value heads until there are 8: with 16 query heads 32
// heads of 32.
TEST_CASE("copied heads: all-to-all over 8 ranks moves 8 copies of 2 key-value heads") {
  Job job = grouped_job(1);
  job.parallelism.context_parallel_size = job.parallelism.context_a2a_size = 8;
  job.parallelism.cp_comm_type = ContextExchange::a2a;
  job.parallelism.context_parallel_layout = ContextLayout::contiguous;
  job.parallelism.data_parallel_size = 1;
  CHECK(transfers_of(job, "select_heads").empty());
  const std::vector<LayoutTransfer> transfers = transfers_of(job, "core_attention");
  REQUIRE(transfers.size() == 2);
  for (const LayoutTransfer& transfer : transfers) {
    CHECK(transfer.operation == "all_to_all");
    CHECK(transfer.axes == "cp");
  }
  CHECK(transfers[0].when == "forward");
  CHECK(transfers[0].bytes == 32 * 32 * 32 * 2);
  CHECK(transfers[1].when == "backward");  // of the context: of query heads alone
  CHECK(transfers[1].bytes == 32 * 16 * 32 * 2);
  const Plan plan = compile(job);
  CHECK(lint(plan).empty());
  CHECK(plan.job.parameters == compile(grouped_job(1)).job.parameters);
}

TEST_CASE("copied heads: plans with sequence parallelism, ZeRO and recompute pass the linter") {
  for (const char* sequence_parallel : {"false", "true"}) {
    CHECK(lint(compile(grouped_job(8, sequence_parallel))).empty());
    CHECK(lint(compile(grouped_job(4, sequence_parallel))).empty());
  }
}

}  // namespace
}  // namespace simrun
