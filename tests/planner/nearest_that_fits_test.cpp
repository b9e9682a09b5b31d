#include "planner/nearest_that_fits.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "configs/diagnostics.h"
#include "planner/starting_split.h"

namespace simrun {
namespace {

// Some 0.9 B parameters: 18 bytes each, of which two nodes of two GPUs have 4 GiB each to hold them.
std::string large_job(const std::string& plan) {
  return "simrun: 1\n"
         "model: {model_type: gpt, num_layers: 16, hidden_size: 2048, num_attention_heads: 16, vocab_size: "
         "32000,\n"
         "  max_position_embeddings: 512, attention_dropout: 0, hidden_dropout: 0}\n"
         "training: {seq_length: 512, global_batch_size: 16, precision: bf16}\n"
         "cluster: {from: dgx_a100, nodes: 1, gpus_per_node: 2, nics_per_node: 2, gpu: {from: "
         "a100_sxm_40gb, memory: 4 GiB}}\n" +
         plan;
}

PlanBase base_of_large(const std::string& text, std::vector<Override> changes = {}) {
  LoadOptions load;
  load.overrides = std::move(changes);
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  return plan_base(text, "test.yaml", with_starting_split(text, "test.yaml", load, WrittenSizes::give_way));
}

FittingSearch fitting(const std::string& text, PlanSearchOptions options = {}) {
  options.threads = 1;
  REQUIRE(search_jobs(base_of_large(text), {.threads = 1}).best.empty());
  return nearest_that_fits(
      base_of_large(text),
      [&](const Override& nodes) -> std::optional<PlanBase> { return base_of_large(text, {nodes}); },
      options);
}
std::optional<NearestThatFits> nearest(const std::string& text) { return fitting(text).found; }

}  // namespace

TEST_CASE("what fits nowhere within its limits: the one limit to leave out is named", "[long]") {
  CHECK_FALSE(nearest(large_job("plan: {max_memory: 1 MiB}\n")));  // 4 GiB are too few as well
  const std::string roomy = large_job("plan: {max_memory: 1 MiB, fix: {zero_stage: 0}}\n")
                                .replace(large_job("").find("4 GiB"), 5, "40 GiB");
  const auto limited = nearest(roomy);
  REQUIRE(limited);
  CHECK(limited->change == "without plan.max_memory");
  CHECK(limited->best.evaluation.fits);
  CHECK(limited->best.candidate.zero_stage == 0);
}

TEST_CASE("what fits only without several of its limits, and a search that is stopped", "[long]") {
  const std::string roomy = [](std::string text) {
    return text.replace(large_job("").find("4 GiB"), 5, "40 GiB");
  }(large_job("plan: {max_memory: 3 GiB, fix: {zero_stage: 0, recompute: [none]}}\n"));
  const auto found = nearest(roomy);
  REQUIRE(found);
  CHECK(found->change == "without plan.max_memory");
  const FittingSearch none = fitting(large_job("plan: {max_memory: 1 MiB, fix: {zero_stage: 0}}\n"));
  CHECK_FALSE(none.found);
  CHECK((none.tried_limits && none.tried_nodes && !none.was_stopped));
  PlanSearchOptions stopping;
  stopping.progress = [](const PlanSearchProgress&) { return false; };
  const FittingSearch stopped = fitting(large_job("plan: {fix: {zero_stage: 0}}\n"), stopping);
  CHECK((stopped.was_stopped && !stopped.found && !stopped.tried_nodes));
  // A limit above the GPU's memory is none.
  const FittingSearch idle = fitting(large_job("plan: {max_memory: 90 GiB}\n"), stopping);
  CHECK((idle.was_stopped && !idle.tried_limits));
}

TEST_CASE("a model that fits nowhere: the number of nodes that hold it", "[long]") {
  const auto found = nearest(large_job(""));
  REQUIRE(found);
  CAPTURE(found->change);
  CHECK(found->base.job.job.cluster.nodes > 1);
  CHECK(found->change == "with " + std::to_string(found->base.job.job.cluster.nodes) + " nodes (" +
                             std::to_string(2 * found->base.job.job.cluster.nodes) + " GPUs)");
  CHECK(found->best.evaluation.fits);
}

TEST_CASE("on GPUs of several kinds: more nodes of those with most memory", "[long]") {
  const std::string job =
      "simrun: 1\nmodel: {from: llama2-13b}\n"
      "training: {seq_length: 4096, global_batch_size: 12, precision: fp16}\n"
      "cluster: {gpus_per_node: 1, nics_per_node: 1, intra_node: {latency: 3 us, bandwidth: 25 GB/s},\n"
      "  inter_node: {bandwidth: 100 Gb/s, latency: 10 us}, node_groups: {small: {nodes: 1, gpu: "
      "p100_pcie_16gb}, large: {nodes: 2, gpu: a100_sxm_80gb}}}\n";
  const auto found = nearest(job);
  REQUIRE(found);
  CAPTURE(found->change);
  CHECK(found->change.starts_with("with "));
  CHECK(found->change.find(" nodes in group large (") != std::string::npos);
  CHECK(found->best.evaluation.fits);
}

}  // namespace simrun
