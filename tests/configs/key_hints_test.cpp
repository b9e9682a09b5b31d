#include <catch2/catch.hpp>
#include <string>

#include "small_job.h"

namespace simrun {
namespace {

using test::edited, test::problems_of, test::refusal;

TEST_CASE("a misspelt key is refused where it stands, with the right spelling") {
  CHECK(refusal(edited("pipeline_model_parallel_size", "pipeline_model_paralel_size")) ==
        "job.yaml:15:3: error: unknown key 'pipeline_model_paralel_size' in 'parallelism'\n"
        "  hint: did you mean 'pipeline_model_parallel_size'?\n"
        "1 error; nothing was run.\n");
}

TEST_CASE("other tools' spellings are refused with ours") {
  const auto hint = [](const std::string& key) {
    return problems_of(edited("parallelism:\n", "parallelism:\n  " + key + ": 2\n")).at(0).hint;
  };
  CHECK(hint("tensor_parallel_degree") ==
        "torchtitan calls it so; here it is parallelism.tensor_model_parallel_size.");
  CHECK(hint("tp") == "nanotron calls it so; here it is parallelism.tensor_model_parallel_size.");
  CHECK(hint("tp_size") == "SimuMax calls it so; here it is parallelism.tensor_model_parallel_size.");
  CHECK(hint("use_distributed_optimizer") == "Megatron-LM calls it so; here it is optimizer.zero_stage: 1.");
  CHECK(hint("micro_batch_size") == "it belongs in 'training'.");
  CHECK(hint("zero_stag") == "did you mean 'zero_stage' in 'optimizer'?");
  CHECK(hint("num_virtual_stages") == "did you mean 'virtual_pipeline_model_parallel_size'?");
  CHECK(hint("pipeline") == "did you mean 'pipeline_model_parallel_size'?");
  CHECK(hint("zero") == "did you mean 'zero_stage' in 'optimizer'?");
  CHECK(hint("\"<<\"") == "YAML merge keys are not accepted; `from: file` starts from another file.");
  CHECK(hint("banana").empty());
}

TEST_CASE("a key of other words is refused with those that share some") {
  const auto hint = [](const std::string& section, const std::string& key) {
    const std::string text = section == "cluster"
                                 ? edited("cluster: {", "cluster: {" + key + ": 2, ")
                                 : edited(section + ":\n", section + ":\n  " + key + ": 2\n");
    return problems_of(text).at(0).hint;
  };
  CHECK(hint("cluster", "num_nodes") == "did you mean 'nodes'?");
  CHECK(hint("cluster", "gpu_type") == "did you mean 'gpu'?");
  CHECK(hint("training", "micro_batch") == "did you mean 'micro_batch_size'?");
  CHECK(hint("parallelism", "tensor_degree") == "did you mean 'tensor_model_parallel_size'?");
  CHECK(hint("cluster", "nodes_per_lef") == "did you mean 'nodes_per_leaf' in 'cluster.fabric'?");
  CHECK(hint("parallelism", "num_bananas").empty());
}

}  // namespace
}  // namespace simrun
