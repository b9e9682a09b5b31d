#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "planner/alpa_outcome.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

// Of memory limits in mebibytes, ascending, the best steps.
std::vector<double> best_steps(const std::string& yaml, const std::vector<double>& mebibytes) {
  const JobLoader load = [&](const std::vector<Override>& overrides) { return job_from(yaml, overrides); };
  std::vector<double> steps;
  for (const double limit : mebibytes) {
    CAPTURE(limit);
    AlpaPlanning planning;
    planning.search.max_memory = std::llround(limit * 0x1p20);
    const AlpaOutcome outcome = plan_by_alpa(load, planning);
    REQUIRE(outcome.best);
    CHECK(outcome.simulated[*outcome.best].fits);
    steps.push_back(outcome.simulated[*outcome.best].step_s);
  }
  return steps;
}

std::string small_llama(const std::string& model, int batch, const std::string& cluster) {
  return "simrun: 1\n"
         "model: {model_type: llama, num_attention_heads: 4, max_position_embeddings: 64, " +
         model +
         "}\n"
         "training: {seq_length: 64, micro_batch_size: 1, precision: fp32, global_batch_size: " +
         std::to_string(batch) +
         "}\n"
         "cluster: {gpu: t4, intra_node: {bandwidth: 10 GB/s, latency: 2 us}, " +
         cluster + "}\n";
}

}  // namespace

TEST_CASE("more memory never makes the plan that is found slower", "[long]") {
  const std::string layers =
      "num_hidden_layers: 2, hidden_size: 128, intermediate_size: 256, num_key_value_heads: 4";
  const std::vector<double> steps =
      best_steps(small_llama(layers + ", vocab_size: 512", 4,
                             "nodes: 2, gpus_per_node: 1, inter_node: {bandwidth: 10 Gb/s, latency: 20 us}"),
                 {5.5, 6, 7, 9});
  CHECK(std::is_sorted(steps.rbegin(), steps.rend()));
  CHECK(steps.back() < steps.front());
}

// Estimates are a few percent off, and only what is near the best of them is simulated.
TEST_CASE("nor much slower on more GPUs and for more layers", "[long]") {
  const std::string wide = "hidden_size: 128, intermediate_size: 256, num_key_value_heads: 4";
  const std::string slow = ", inter_node: {bandwidth: 10 Gb/s, latency: 20 us}";
  for (const auto& [yaml, mebibytes] :
       {std::pair{small_llama(wide + ", num_hidden_layers: 4, vocab_size: 256", 8,
                              "nodes: 2, gpus_per_node: 1" + slow),
                  std::vector<double>{8, 9, 10, 12, 14}},
        std::pair{small_llama(wide + ", num_hidden_layers: 4, vocab_size: 2048", 4,
                              "nodes: 2, gpus_per_node: 2" + slow),
                  std::vector<double>{6, 8, 12, 18}}}) {
    CAPTURE(yaml);
    const std::vector<double> steps = best_steps(yaml, mebibytes);
    for (std::size_t i = 1; i < steps.size(); ++i) CHECK(steps[i] <= 1.1 * steps[i - 1]);
  }
}

// Proposals of 1.8 MiB need a little more than the sums over operators say, those of 1.6 are found; of 2.5
// and 3 the best estimates are far below what fits.
TEST_CASE("a plan that fits a small limit is found within a larger one", "[long]") {
  const std::vector<double> steps = best_steps(
      small_llama("num_hidden_layers: 6, hidden_size: 64, intermediate_size: 128, num_key_value_heads: 2, "
                  "vocab_size: 256",
                  30, "nodes: 2, gpus_per_node: 3, inter_node: {bandwidth: 10 Gb/s, latency: 20 us}"),
      {1.6, 1.8, 2.0, 2.5, 3.0, 4.0});
  CHECK(steps.front() < 0.0066);
  CHECK(std::is_sorted(steps.rbegin(), steps.rend()));
}

}  // namespace simrun
