// Context parallelism as Megatron-LM's arguments.
#include <catch2/catch.hpp>

#include "configs/export_megatron.h"
#include "tests/configs/small_job.h"

namespace simrun::test {

TEST_CASE("beside the arguments stands that Transformer Engine copies no heads for an all-to-all") {
  const auto unexpressed_over = [](const char* ranks) {
    LoadOptions options = with_presets();
    options.overrides = {{"model", "{from: llama3-8b}"},  // 8 key-value heads
                         {"cluster.nodes", "2"},
                         {"training.seq_length", "8192"},
                         {"parallelism.tensor_model_parallel_size", "1"},
                         {"parallelism.pipeline_model_parallel_size", "1"},
                         {"parallelism.context_parallel_size", ranks},
                         {"parallelism.cp_comm_type", "a2a"}};
    return megatron_arguments(load_job_text(small_job, "job.yaml", options).job).unexpressed;
  };
  const std::vector<std::string> beyond = unexpressed_over("16");
  REQUIRE(beyond.size() == 1);
  CHECK(beyond.front().starts_with("parallelism.cp_comm_type: all-to-all over more ranks than the 8"));
  CHECK(unexpressed_over("8").empty());
}

}  // namespace simrun::test
