#include "validation/claimed_flops.h"

#include <catch2/catch.hpp>

#include "configs/load_job.h"
#include "tests/validation/rows.h"

namespace simrun {

// gpt-oss-20b: 24 layers, every second one with a window of 128 keys; 64 heads of 64; of 32 experts of 2880 x
// 2880 four a token. One sequence of 4,096 tokens.
TEST_CASE(
    "Megatron-Bridge's earlier count has half of whole attention in every layer, and two matrices an "
    "expert") {
  const LoadOptions options = source_presets();
  const Job job =
      load_job_text(
          "simrun: 1\n"
          "model: {from: gpt-oss-20b}\n"
          "training: {seq_length: 4096, micro_batch_size: 1, global_batch_size: 1, precision: bf16}\n"
          "cluster: {from: dgx_h100, nodes: 1, gpus_per_node: 1, nics_per_node: 1}\n",
          "job.yaml", options)
          .job;
  Summary summary;
  summary.model_flops_per_step = 1e15;
  constexpr double tokens = 4096, width = 64 * 64;
  const double half = 6 * 4096 * width * tokens;
  const double counted = 12 * (12.0 * 4096 + 12.0 * 128) * width * tokens;  // scores of all layers
  const double gates = 24 * 6 * tokens * 4 * 2880 * 2880;
  CHECK(claimed_flops({{"flops", "causal_whole_no_gates"}}, job, summary) ==
        Approx(1e15 - counted + 24 * half - gates));
  CHECK(claimed_flops({{"flops", "causal"}}, job, summary) == Approx(1e15 - 12 * half));
  CHECK(claimed_flops({}, job, summary) == 1e15);
}

}  // namespace simrun
