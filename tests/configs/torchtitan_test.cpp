// Jobs as recipes of torchtitan.
#include <catch2/catch.hpp>

#include "configs/export_torchtitan.h"
#include "tests/configs/small_job.h"

namespace simrun::test {
namespace {

std::string recipe(const std::string& path, std::vector<Override> overrides = {}) {
  LoadOptions options = with_presets();
  options.overrides = std::move(overrides);
  return torchtitan_recipe(load_job(SIMRUN_SOURCE_DIR "/configs/jobs/" + path, options).job, "0",
                           "order.csv");
}

bool has(const std::string& text, const std::string& line) {
  return text.find(line + "\n") != std::string::npos;
}

TEST_CASE("torchtitan: batches are in tokens, and degrees multiply to the GPUs") {
  const std::string text = recipe("llama3-70b-cp2-64xh100.yaml");
  CHECK(has(text, "def llama3_70b_cp2_64xh100() -> Trainer.Config:"));
  CHECK(has(text, "    config = llama3_70b()"));
  CHECK(has(text, "    config.training.num_tokens_per_microbatch_per_dp_rank = 8192"));  // 1 x 8192
  CHECK(has(text, "    config.training.num_tokens_per_train_step = 1048576"));           // 128 x 8192
  // 64 = replicate 1 x shard 2 x tensor 4 x context 2 x pipeline 4; 128 / (1 x 2) = 64 microbatches
  CHECK(has(text, "    config.parallelism.data_parallel_replicate_degree = 1"));
  CHECK(has(text, "    config.parallelism.data_parallel_shard_degree = 2"));
  CHECK(has(text, "    config.parallelism.tensor_parallel_degree = 4"));
  CHECK(has(text, "    config.parallelism.context_parallel_degree = 2"));
  CHECK(has(text, "    config.parallelism.pipeline_parallel_degree = 4"));
  CHECK(has(text, "    config.parallelism.num_pp_microbatches = 64"));
  CHECK(has(text, "    config.parallelism.pipeline_parallel_schedule = \"Interleaved1F1B\""));
  CHECK(has(text, "        [\"tok_embeddings\", \"layers.0\", \"layers.1\", \"layers.2\", \"layers.3\"],"));
  CHECK(has(text,
            "        [\"layers.76\", \"layers.77\", \"layers.78\", \"layers.79\", \"norm\", \"lm_head\"],"));
  CHECK(has(text, "#   parallelism.cp_comm_type: keys and values are gathered"));
  CHECK(text.find("optimizer.zero_stage: 1;") != std::string::npos);
}

TEST_CASE("torchtitan: an order of passes that PyTorch has no class for is the CSV's") {
  const std::vector<Override> zb = {{"parallelism.pipeline_schedule", "zb_h1"}};
  const std::string text = recipe("tiny-4xa100.yaml", zb);
  CHECK(has(text, "    config.parallelism.pipeline_parallel_schedule = \"PipelineScheduleMulti\""));
  CHECK(has(text, "    config.parallelism.pipeline_parallel_schedule_csv = \"order.csv\""));
  // No registry has four layers of 256.
  CHECK(has(text, "def tiny_4xa100(config: Trainer.Config) -> Trainer.Config:"));
  CHECK(text.find("#   model: no recipe of the registries") != std::string::npos);
}

TEST_CASE("torchtitan: stages of ZeRO are degrees of FSDP2, recompute is a policy") {
  const std::string sharded =
      recipe("llama3-8b-8xh100.yaml", {{"optimizer", "{zero_stage: 3}"}, {"recompute.granularity", "full"}});
  CHECK(has(sharded, "    config.parallelism.data_parallel_shard_degree = 4"));
  CHECK(has(sharded, "    config.parallelism.fsdp_reshard_after_forward = \"always\""));
  CHECK(has(sharded, "    config.activation_checkpoint = FullAC.Config()"));
  CHECK(has(sharded, "# Everything else of the job is expressed."));
  const std::string whole =
      recipe("llama3-8b-8xh100.yaml", {{"optimizer", "{zero_stage: 0, overlap_param_gather: false}"}});
  CHECK(has(whole, "    config.parallelism.data_parallel_replicate_degree = 4"));
  CHECK(has(whole, "    config.parallelism.data_parallel_shard_degree = 1"));
  CHECK_THROWS_AS(recipe("llava-1.5-7b-8xh100.yaml"), ConfigError);
}

}  // namespace
}  // namespace simrun::test
