// Alpa's end-to-end tables (Zheng et al. 2022, figure 8; figures and plans of their artifact,
// results_e2e_ref.tsv, suite_auto_moe.py and suite_wresnet.py) on nodes of 8 V100-SXM2-16GB, 25 Gb/s between
// them: their plan, Megatron-LM's best grid (GPT) and what the search here finds, simulated, beside what they
// measured. Arguments: gpt, moe, wresnet; none: all.
//
// Their plan is their stages, microbatches and logical mesh, with the layout of every operator the exact
// minimum on it: theirs are not printed. Weights are fp16 with main weights and moments in fp32 (their
// benchmarks' use_master_copy; MoE has Adafactor's factored moments), gradients fp16, and ZeRO-1, as what is
// reduced and scattered behind the microbatches amounts to; word embeddings are not tied
// (benchmark_one_case_gpt_bert.py); Wide-ResNet fp32. Images are not run by stages of different size: no plan
// for Wide-ResNet on 16 GPUs. TFLOPS per GPU count recompute.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "bench/alpa_cluster.h"
#include "planner/alpa_outcome.h"
#include "planner/stage_search.h"
#include "schedules/summary.h"
#include "sim/plan_job.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

struct AlpaPlanOfPaper {
  int microbatches = 1;
  std::vector<int> layers;  // by stage
  LogicalMesh mesh;         // of every stage: x their model-parallel axis, y their data-parallel one
  std::vector<LogicalMesh> meshes = {};  // of each, where they are of unlike size
};

struct EndToEndRow {
  std::string what, yaml;
  int batch = 1, gpus = 1;
  double flops = 0;                   // of a step, as they count
  double baseline = 0, measured = 0;  // TFLOPS; baseline 0: none, or out of memory
  std::optional<AlpaPlanOfPaper> plan;
};

constexpr double sequence_length = 1024;

std::string yaml_of(const std::string& model, const std::string& training, int batch, int gpus) {
  return fmt::format(
      "simrun: 1\nmodel: {}\ntraining: {{micro_batch_size: 1, global_batch_size: {}, {}}}\n"
      "recompute: {{granularity: full}}\nframework: alpa\ncluster: {}\n",
      model, batch, training, alpa_cluster(gpus));
}

// With the optimizer's keys, as they follow on those of training.
const char* const language =
    "seq_length: 1024, precision: fp16, attention: unfused}\noptimizer: {main_grads_dtype: fp16";

const char* const experts_by_masks =
    ", name: adafactor}\nmoe: {token_dispatcher: einsum, capacity_factor: 1, group_size: 2048";

// 96 b s h^2 l (1 + s / 6h) + 6 b s h v, as Alpa's artifact counts with recompute.
double gpt_flops(double batch, double hidden, double layers) {
  const double tokens = batch * sequence_length;
  return 96 * tokens * hidden * hidden * layers * (1 + sequence_length / (6 * hidden)) +
         6 * tokens * hidden * 51200;
}

// As their count has it: experts in every second layer, two for each token, and the products with masks by
// which groups of 2,048 tokens are dealt out and gathered.
double moe_flops(double batch, double hidden, double layers, double experts) {
  const double tokens = batch * sequence_length, group = 2048, square = hidden * hidden;
  const double attention = 8 * square + 4 * sequence_length * hidden;
  const double dealing = 2 * hidden * experts + 4 * group + 8 * group * hidden;
  const double pair = 2 * attention + 4 * 8 * square + 8 * 8 * square + dealing;
  return tokens * (4 * pair * layers / 2 + 6 * hidden * 32000);
}

double our_flops(const std::string& model) {
  const Plan plan = plan_job(job_from(yaml_of(model, "precision: fp32", 1, 1)));
  return summarize(plan, simulate(plan, {Detail::totals, EngineChoice::fast})).model_flops_per_step;
}

std::string image_model(int layers, int channels, int width) {
  return fmt::format(
      "{{model_type: wide_resnet, image_size: 224, num_layers: {}, base_channels: {}, width_factor: {}, "
      "widens: "
      "3x3, num_labels: 1024}}",
      layers, channels, width);
}

// Their count is XLA's: their ablation's 8.27 TFLOPS x 0.928 s for 32 images of 160 channels without
// recompute, for other models in proportion to the simulator's count, and with recompute 4/3 of it.
double image_flops(const std::string& model, double batch) {
  return 8.27e12 * 0.928 / 32 * 4 / 3 * batch * our_flops(model) / our_flops(image_model(50, 160, 2));
}

std::string tflops_of(const SimulatedPlan& plan, const EndToEndRow& row) {
  if (!plan.refusal.empty() || !plan.fits) return "-";
  return fmt::format("{:.2f}", row.flops / plan.step_s / row.gpus * 1e-12);
}

std::string their_plan(const EndToEndRow& row, const JobLoader& load) {
  if (!row.plan) return "";
  AlpaOptions options;
  if (row.plan->meshes.empty()) options.mesh = row.plan->mesh;
  options.stage_meshes = row.plan->meshes;
  options.stage_ends.resize(row.plan->layers.size());
  std::partial_sum(row.plan->layers.begin(), row.plan->layers.end(), options.stage_ends.begin());
  const SearchPoint point{.pipeline = static_cast<std::int64_t>(row.plan->layers.size()),
                          .sequences = row.batch / row.plan->microbatches,
                          .zero_stage = 1,
                          .unlike = !row.plan->meshes.empty()};
  const Job job = load({});
  CollectivePrices collectives(job.cluster);
  SimulatedPlan simulated;
  double too_much = options.memory_share;
  for (int tries = 0; tries < 8 && !simulated.fits; ++tries) {  // with as much less memory as it lacks
    const std::optional<AlpaPlan> plan = StageSearch(job, options, point, collectives).best_plan();
    if (!plan) {
      options.memory_share = (options.memory_share + too_much) / 2;
      continue;
    }
    too_much = options.memory_share;
    simulated = simulate_plan("", alpa_overrides(*plan), load);
    if (!simulated.refusal.empty()) return "-";
    options.memory_share *=
        0.98 * static_cast<double>(simulated.limit_bytes) / static_cast<double>(simulated.peak_bytes);
  }
  return tflops_of(simulated, row);
}

std::string measured_text(double tflops) { return tflops > 0 ? fmt::format("{:.1f}", tflops) : "-"; }

void print_row(const EndToEndRow& row, bool has_grid) {
  const JobLoader load = [&](const std::vector<Override>& overrides) {
    return job_from(row.yaml, overrides);
  };
  const bool recomputes = load({}).recompute.granularity == RecomputeGranularity::full;  // as Alpa's runs do
  const AlpaOutcome outcome = plan_by_alpa(load, {.recomputes = {recomputes ? "full" : "none"}});
  const std::string found = outcome.best ? tflops_of(outcome.simulated[*outcome.best], row) : "-";
  fmt::print("{:<22} {:>4}   {:>6} {:>9}   {:>6} {:>9.1f}   {:>6}  {}\n", row.what, row.gpus,
             has_grid ? tflops_of(outcome.references.back(), row) : "", measured_text(row.baseline),
             their_plan(row, load), row.measured, found,
             outcome.best ? outcome.simulated[*outcome.best].name : "");
  std::fflush(stdout);
}

void print_header(const std::string& model, const std::string& baseline) {
  fmt::print("{:<22} {:>4}   {:>6} {:>9}   {:>6} {:>9}   {:>6}\n", model + ", TFLOPS", "GPUs", baseline,
             "measured", "Alpa", "measured", "found");
}

struct GptSize {
  int gpus = 1, hidden = 0, layers = 0, heads = 0;
  double megatron = 0, alpa = 0;
  std::optional<AlpaPlanOfPaper> plan;
};

void print_gpt() {
  print_header("GPT", "grid");
  const std::vector<GptSize> sizes{
      {1, 1024, 24, 16, 47.53, 45.07, {{512, {24}, {1, 1}}}},
      {2, 1536, 24, 16, 55.53, 57.92, {{128, {12, 12}, {1, 1}}}},
      {4, 2048, 24, 32, 55.89, 58.21, {{128, {12, 12}, {1, 2}}}},
      {8, 2560, 32, 32, 50.44, 61.61, {{128, {8, 8, 16}, {}, {{1, 2}, {1, 2}, {1, 4}}}}},
      {16, 4096, 32, 32, 56.59, 60.0, {{64, {16, 16}, {4, 2}}}},
      {32, 5120, 48, 40, 58.24, 59.9, {{128, std::vector(4, 12), {4, 2}}}},
      {64, 8192, 48, 64, 57.84, 57, {{1024, std::vector(16, 3), {4, 1}}}}};
  for (const GptSize& size : sizes) {
    const std::string model = fmt::format(
        "{{model_type: gpt, num_layers: {}, hidden_size: {}, num_attention_heads: {}, vocab_size: 51200, "
        "max_position_embeddings: 1024, attention_dropout: 0, hidden_dropout: 0, "
        "untie_embeddings_and_output_weights: true}}",
        size.layers, size.hidden, size.heads);
    print_row({fmt::format("hidden {}, layers {}", size.hidden, size.layers),
               yaml_of(model, language, 1024, size.gpus), 1024, size.gpus,
               gpt_flops(1024, size.hidden, size.layers), size.megatron, size.alpa, size.plan},
              true);
  }
}

struct ExpertsSize {
  int gpus = 1, hidden = 0, layers = 0, experts = 0;
  double deepspeed = 0, alpa = 0;
  AlpaPlanOfPaper plan;
};

void print_moe() {
  print_header("MoE", "");
  const std::vector<ExpertsSize> sizes{{1, 768, 8, 8, 34.24, 45.46, {512, {8}, {1, 1}}},
                                       {2, 768, 8, 16, 33.11, 43.03, {32, {8}, {2, 1}}},
                                       {4, 768, 16, 16, 34.67, 39.92, {32, {8, 8}, {2, 1}}},
                                       {8, 1024, 16, 16, 40.01, 45.76, {32, {8, 8}, {4, 1}}},
                                       {16, 1536, 16, 32, 12.91, 45.36, {16, {8, 8}, {8, 1}}},
                                       {32, 2048, 16, 48, 3.82, 38.84, {128, std::vector(8, 2), {4, 1}}},
                                       {64, 2048, 32, 64, 0, 36.55, {64, std::vector(8, 4), {8, 1}}}};
  for (const ExpertsSize& size : sizes) {
    const std::string model = fmt::format(
        "{{model_type: gpt, num_layers: {}, hidden_size: {}, num_attention_heads: 16, ffn_hidden_size: {}, "
        "vocab_size: 32000, max_position_embeddings: 1024, attention_dropout: 0, hidden_dropout: 0, "
        "num_experts: {}, moe_router_topk: 2, moe_layer_freq: 2, untie_embeddings_and_output_weights: true}}",
        size.layers, size.hidden, 8 * size.hidden, size.experts);
    print_row({fmt::format("hidden {}, {} experts", size.hidden, size.experts),
               yaml_of(model, std::string(language) + experts_by_masks, 1024, size.gpus), 1024, size.gpus,
               moe_flops(1024, size.hidden, size.layers, size.experts), size.deepspeed, size.alpa, size.plan},
              false);
  }
}

struct ImagesSize {
  int gpus = 1, layers = 50, channels = 0, width = 2, batch = 1536;
  double pipelines = 0, alpa = 0;  // PP-DP
  std::optional<AlpaPlanOfPaper> plan;
};

// The batch is divisible by the ranks of a stage, and need not be by all; layers need not be by stages.
std::string image_training(const std::optional<AlpaPlanOfPaper>& plan) {
  if (!plan) return "precision: fp32";
  std::string layout = "E";
  for (const int layers : plan->layers) layout += fmt::format("{}t*{}", layout == "E" ? "" : "|", layers);
  return fmt::format(
      "precision: fp32}}\nparallelism: {{pipeline_model_parallel_size: {}, pipeline_model_parallel_layout: "
      "\"{}L\"",
      plan->layers.size(), layout);
}

void print_wide_resnet() {
  print_header("Wide-ResNet", "");
  const std::vector<ImagesSize> sizes{
      {1, 50, 160, 2, 1536, 8.3, 8.3, {{24, {16}, {1, 1}}}},
      {2, 50, 224, 2, 1536, 8.24, 8.46, {{24, {16}, {2, 1}}}},
      {4, 50, 320, 2, 1536, 8.08, 8.16, {{24, {16}, {4, 1}}}},
      {8, 50, 448, 2, 1536, 7.72, 8.04, {{24, {8, 8}, {4, 1}}}},
      {16, 50, 640, 2, 1536, 0.37, 6.76, {}},
      {32, 50, 320, 16, 1536, 0, 6.60, {{32, {5, 4, 4, 3}, {8, 1}}}},
      {64, 101, 320, 16, 1520, 0, 5.3, {{38, {4, 4, 4, 4, 4, 4, 5, 4}, {8, 1}}}}};
  for (const ImagesSize& size : sizes) {
    const std::string model = image_model(size.layers, size.channels, size.width);
    print_row({fmt::format("{}, {} x {}", size.layers, size.channels, size.width),
               yaml_of(model, image_training(size.plan), size.batch, size.gpus), size.batch, size.gpus,
               image_flops(model, size.batch), size.pipelines, size.alpa, size.plan},
              false);
  }
}

}  // namespace
}  // namespace simrun

int main(int argc, char** argv) {
  const std::vector<std::string> asked(argv + 1, argv + argc);
  const auto is_asked = [&](const std::string& model) {
    return asked.empty() || std::find(asked.begin(), asked.end(), model) != asked.end();
  };
  if (is_asked("gpt")) simrun::print_gpt();
  if (is_asked("moe")) simrun::print_moe();
  if (is_asked("wresnet")) simrun::print_wide_resnet();
}
