#include "planner/dealt_layers.h"

#include <catch2/catch.hpp>

#include "configs/pipeline_layout.h"
#include "planner/search.h"

namespace simrun {
namespace {

PlanBase base_with_words(const std::string& vocabulary, std::vector<Override> overrides = {}) {
  const std::string job =
      "simrun: 1\n"
      "model: {model_type: gpt, num_layers: 8, hidden_size: 256, num_attention_heads: 4, vocab_size: " +
      vocabulary +
      ",\n"
      "  max_position_embeddings: 512, attention_dropout: 0, hidden_dropout: 0}\n"
      "training: {seq_length: 512, micro_batch_size: 1, global_batch_size: 16, precision: bf16}\n"
      "cluster: {from: dgx_a100, nodes: 1, gpus_per_node: 4, nics_per_node: 2}\n";
  LoadOptions load;
  load.overrides = std::move(overrides);
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  return plan_base(job, "test.yaml", load);
}

Candidate of_four_stages() {
  Candidate of;
  of.pipeline = 4;
  of.schedule = "1f1b";
  return of;
}

}  // namespace

// A layer has 12 x 256 x 256 weights, a head of 65,536 words 256 x 65,536: as much work as 21 layers.
TEST_CASE("the stage with a head that costs as much as all layers has none of them") {
  const PlanBase base = base_with_words("65536");
  const std::vector<Candidate> dealt = with_dealt_layers(base, of_four_stages());
  REQUIRE(dealt.size() == 1);
  const std::vector<StageContent> stages = load_candidate(base, dealt.front()).parallelism.stages;
  REQUIRE(stages.size() == 4);
  CHECK(stages.back().layers == 0);
  CHECK(stages[1].layers >= 2);
  CHECK(evaluate_candidate(base, dealt.front(), EngineChoice::fast).step_s <
        evaluate_candidate(base, of_four_stages(), EngineChoice::fast).step_s);
}

TEST_CASE("layers are dealt where there are stages to deal them to") {
  CHECK(with_dealt_layers(base_with_words("65536"), Candidate{.data = 4}).empty());
  Candidate balanced = of_four_stages();
  balanced.balance.layout = "Ett|tt|tt|ttL";
  CHECK(with_dealt_layers(base_with_words("65536"), balanced).empty());
}

TEST_CASE("a layout that the job writes is looked at unless a limit forbids it") {
  const std::vector<Override> written = {{"parallelism.pipeline_model_parallel_size", "4"},
                                         {"parallelism.pipeline_model_parallel_layout", "Ettt|ttt|tt|L"}};
  CHECK(written_layout(base_with_words("65536")).empty());
  REQUIRE(written_layout(base_with_words("65536", written)).size() == 1);
  std::vector<Override> limited = written;
  limited.push_back({"plan.fix.recompute", "[none]"});
  CHECK(written_layout(base_with_words("65536", limited)).empty());
}

TEST_CASE("the best of a search is no slower than the job's own layout") {
  const std::vector<Override> written = {{"parallelism.pipeline_model_parallel_size", "4"},
                                         {"parallelism.pipeline_model_parallel_layout", "Ettt|ttt|tt|L"}};
  const PlanBase base = base_with_words("65536", written);
  Candidate own;
  own.is_as_written = true;
  PlanSearchOptions options;
  options.threads = 1;
  const PlanSearchResult found = search_jobs(base, options);
  REQUIRE_FALSE(found.best.empty());
  CHECK(found.best.front().evaluation.step_s <=
        evaluate_candidate(base, own, EngineChoice::automatic).step_s);
}

// 32 GPUs, of which every eighth serves.
TEST_CASE("dedicated parameter servers run no part of the model") {
  LoadOptions load;
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  const Job job = load_job(SIMRUN_SOURCE_DIR "/configs/jobs/vgg16-parameter-server-32xa100.yaml", load).job;
  const std::int64_t workers = job.world_size() - job.server_gpus();
  REQUIRE(workers < job.world_size());
  std::int64_t seen = 0;
  for_each_candidate(job, {}, [&](const Candidate& of) {
    ++seen;
    if (of.tensor * of.context * of.pipeline * of.data != workers) CHECK(describe(of).empty());
  });
  CHECK(seen > 0);
}

}  // namespace simrun
