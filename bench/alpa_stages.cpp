// Alpa's inter-operator ablation (Zheng et al. 2022, section 8.3; figures of their artifact,
// results_inter_ablation_ref.tsv) on nodes of 8 V100-SXM2-16GB: pipelines whose stages the dynamic program
// cuts, beside stages of as many layers and of as many operators each, every one with the best number of
// stages, microbatches and layouts, simulated and as published. TFLOPS per GPU count recompute as they do.
#include "planner/alpa_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "bench/alpa_cluster.h"
#include "planner/alpa_outcome.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

struct StagesRow {
  std::string what, model, training;
  int batch = 1024, gpus = 8, layers = 1;
  double flops = 0;               // of a step, as they count
  std::vector<double> published;  // TFLOPS: dynamic program, equal layers, equal operators
};

JobLoader loader_of(const StagesRow& row) {
  const std::string yaml = fmt::format(
      "simrun: 1\nmodel: {}\ntraining: {{micro_batch_size: 1, global_batch_size: {}, {}}}\n"
      "recompute: {{granularity: full}}\nframework: alpa\ncluster: {}\n",
      row.model, row.batch, row.training, alpa_cluster(row.gpus));
  return [yaml](const std::vector<Override>& overrides) { return job_from(yaml, overrides); };
}

// By layer; what is before the first and behind the last goes with these.
std::vector<double> operators_by_layer(const StagesRow& row) {
  std::vector<double> counts(static_cast<std::size_t>(row.layers), 0);
  std::size_t layer = 0;
  for (const Operator& op : stage_graph(loader_of(row)({}), {{1, 1}, 1, 1, 1, false}).graph.operators) {
    layer = op.layer < 0 ? layer : static_cast<std::size_t>(op.layer);
    counts[layer] += 1;
  }
  return counts;
}

constexpr std::size_t simulated_proposals = 2;  // of a pipeline size

void keep_best(std::optional<SimulatedPlan>& best, const AlpaOptions& options, const JobLoader& load) {
  for (const AlpaPlan& plan : alpa_plans(load({}), options)) {
    SimulatedPlan simulated = simulate_plan("", alpa_overrides(plan), load);
    if (!best || is_better(simulated, *best)) best = std::move(simulated);
  }
}

// Over pipelines of 2, 4, 8 and 16 stages; no weights: as the dynamic program cuts them.
std::string best_tflops(const StagesRow& row, const std::vector<double>& weights) {
  const JobLoader load = loader_of(row);
  std::optional<SimulatedPlan> best;
  for (int stages = 2; stages <= std::min(row.layers, 16); stages *= 2) {
    AlpaOptions options;
    options.plans = simulated_proposals;
    options.least_stages = options.most_stages = stages;
    options.memory_share = 0.88;
    if (!weights.empty()) options.stage_ends = cluster_layers(weights, stages);
    keep_best(best, options, load);
  }
  if (!best || !best->fits || !best->refusal.empty()) return "-";
  return fmt::format("{:.2f}", row.flops / best->step_s / row.gpus * 1e-12);
}

void print_row(const StagesRow& row) {
  const std::vector<double> equal(static_cast<std::size_t>(row.layers), 1.0);
  fmt::print("{:<22} {:>4}   {:>6} {:>9.2f}   {:>6} {:>9.2f}   {:>6} {:>9.2f}\n", row.what, row.gpus,
             best_tflops(row, {}), row.published[0], best_tflops(row, equal), row.published[1],
             best_tflops(row, operators_by_layer(row)), row.published[2]);
  std::fflush(stdout);
}

void print_gpt(int gpus, int hidden, int layers, int heads, const std::vector<double>& published) {
  const double tokens = 1024.0 * 1024;
  print_row(
      {fmt::format("GPT {}, {} layers", hidden, layers),
       fmt::format("{{model_type: gpt, num_layers: {}, hidden_size: {}, num_attention_heads: {}, "
                   "vocab_size: 51200, max_position_embeddings: 1024, attention_dropout: 0, "
                   "hidden_dropout: 0}}",
                   layers, hidden, heads),
       "seq_length: 1024, precision: fp16, attention: unfused}\noptimizer: {main_grads_dtype: fp16", 1024,
       gpus, layers,
       96 * tokens * hidden * hidden * layers * (1 + 1024.0 / (6 * hidden)) + 6 * tokens * hidden * 51200,
       published});
}

// XLA's count of the 250 M model's 32 images, and those of other channels in proportion to their square.
void print_images(int gpus, int channels, const std::string& model, const std::vector<double>& published) {
  print_row({fmt::format("Wide-ResNet {}", channels), fmt::format("{{from: {}}}", model), "precision: fp32",
             1536, gpus, 16, 8.27e12 * 0.928 / 32 * 4 / 3 * 1536 * channels * channels / (160.0 * 160),
             published});
}

}  // namespace
}  // namespace simrun

int main() {
  using namespace simrun;
  fmt::print("{:<22} {:>4}   {:>6} {:>9}   {:>6} {:>9}   {:>6} {:>9}\n", "TFLOPS per GPU", "GPUs", "cut",
             "published", "layers", "published", "operat.", "published");
  print_images(8, 448, "wide-resnet-2b", {8.04, 6.6, 7.3});
  print_images(16, 640, "wide-resnet-4b", {6.8, 6.3, 3.3});
  print_gpt(8, 2560, 32, 32, {61, 61, 40});
  print_gpt(16, 4096, 32, 32, {60, 60, 41});
  print_gpt(32, 5120, 48, 40, {60, 60, 40});
}
