// The intra-operator ablation of Alpa (Zheng et al. 2022, section 8.2, figure 8; figures of their artifact,
// results_intra_ablation_ref.tsv) on one p3.16xlarge: what the exact search finds beside data parallel,
// ZeRO-2 and ZeRO-3, simulated here and as published. One microbatch per step; TFLOPS per GPU count
// recompute.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "bench/alpa_cluster.h"
#include "planner/alpa_search.h"
#include "planner/simulated_plan.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

struct AblationRow {
  std::string model;  // YAML
  std::string what;
  int gpus = 1, batch = 8;
  std::vector<double> published;  // TFLOPS: ILP, data parallel, ZeRO-2, ZeRO-3; 0: out of memory
};

std::string job_yaml_of(const AblationRow& of, const std::string& training) {
  return fmt::format(
      "simrun: 1\nmodel: {}\ntraining: {{micro_batch_size: 1, global_batch_size: {}{}}}\n"
      "framework: alpa\ncluster: {}\n",
      of.model, of.batch, training, alpa_cluster(of.gpus));
}

std::string gpt_model(int hidden, int heads) {
  return fmt::format(
      "{{model_type: gpt, num_layers: 8, hidden_size: {}, num_attention_heads: {}, vocab_size: 25600, "
      "max_position_embeddings: 1024, attention_dropout: 0, hidden_dropout: 0}}",
      hidden, heads);
}

// Experts in every second layer, eight hidden sizes wide as the MLPs are, dealt out by masks of 1,024 tokens.
std::string experts_model(int hidden, int heads, int experts) {
  return fmt::format(
      "{{model_type: gpt, num_layers: 8, hidden_size: {}, num_attention_heads: {}, ffn_hidden_size: {}, "
      "vocab_size: 51200, max_position_embeddings: 1024, attention_dropout: 0, hidden_dropout: 0, "
      "num_experts: {}, moe_router_topk: 2, moe_layer_freq: 2}}",
      hidden, heads, 8 * hidden, experts);
}

std::string tflops_text(const std::optional<SimulatedPlan>& plan, double flops, int gpus) {
  if (!plan || !plan->refusal.empty() || !plan->fits) return "-";
  return fmt::format("{:.1f}", flops / plan->step_s / gpus * 1e-12);
}

std::string published_text(double tflops) { return tflops > 0 ? fmt::format("{:.1f}", tflops) : "-"; }

void print_ablation(const AblationRow& of, const std::string& training, double flops) {
  const std::string yaml = job_yaml_of(of, training);
  const JobLoader load = [&](const std::vector<Override>& overrides) { return job_from(yaml, overrides); };
  std::optional<SimulatedPlan> best;
  AlpaOptions options;
  options.most_stages = options.microbatches = 1;
  std::string mesh;
  for (const AlpaPlan& plan : alpa_plans(load({}), options)) {
    SimulatedPlan simulated = simulate_plan("", alpa_overrides(plan), load);
    if (best && !is_better(simulated, *best)) continue;
    best = std::move(simulated);
    mesh = fmt::format("({},{}) ZeRO-{}", plan.stages.front().mesh.y, plan.stages.front().mesh.x,
                       plan.zero_stage);
  }
  std::string line = fmt::format("{:<18} {:>4}  {:>6} {:>6}  {:<14}", of.what, of.gpus,
                                 tflops_text(best, flops, of.gpus), published_text(of.published[0]), mesh);
  for (int zero_stage : {0, 2, 3}) {
    const SimulatedPlan other =
        simulate_plan("",
                      {{"optimizer.zero_stage", fmt::format("{}", zero_stage)},
                       {"training.micro_batch_size", fmt::format("{}", of.batch / of.gpus)}},
                      load);
    line +=
        fmt::format("  {:>6} {:>6}", tflops_text(other, flops, of.gpus),
                    published_text(of.published[zero_stage == 0 ? 1 : static_cast<std::size_t>(zero_stage)]));
  }
  fmt::print("{}\n", line);
}

// 96 b s h^2 l (1 + s / 6h) + 6 b s h v, as Alpa's artifact counts with recompute.
double gpt_flops(double hidden) {
  const double tokens = 8 * 1024.0, layers = 8, sequence = 1024, vocabulary = 25600;
  return 96 * tokens * hidden * hidden * layers * (1 + sequence / (6 * hidden)) +
         6 * tokens * hidden * vocabulary;
}

}  // namespace
}  // namespace simrun

int main() {
  using namespace simrun;
  fmt::print("{:<18} {:>4}  {:>13}  {:<14}  {:>13}  {:>13}  {:>13}\n", "TFLOPS per GPU", "GPUs",
             "search  Alpa", "mesh found", "data  Alpa's", "ZeRO-2 Alpa's", "ZeRO-3 Alpa's");
  const std::string text =
      ", seq_length: 1024, precision: fp16, attention: unfused}\noptimizer: {main_grads_dtype: fp16";
  const std::string full = "}\nrecompute: {granularity: full";
  const std::vector<std::vector<double>> gpt_published{
      {68.7, 68.4, 68.6, 68.6}, {62.0, 0, 62.0, 52.3}, {66.4, 0, 66.4, 57.8}, {61.2, 0, 0, 53.2}};
  const std::vector<int> hidden{2048, 3072, 4096, 5760}, heads{16, 24, 32, 40};
  for (std::size_t i = 0; i < hidden.size(); ++i)
    print_ablation({gpt_model(hidden[i], heads[i]), fmt::format("GPT h{} 8 layers", hidden[i]), 1 << i, 8,
                    gpt_published[i]},
                   text + full, gpt_flops(hidden[i]));
  // FLOPs of a step by the published figures, as of Wide-ResNet: 45.45 TFLOPS x 0.4987 s and so on.
  const std::vector<std::vector<double>> experts_published{
      {45.5, 45.5, 45.4, 45.4}, {38.9, 0, 24.9, 20.8}, {42.6, 0, 26.5, 22.2}, {35.1, 0, 0, 10.4}};
  const std::vector<int> experts_hidden{1024, 1280, 1536, 1536}, experts_heads{32, 40, 24, 24},
      experts{8, 16, 16, 32};
  const std::vector<double> experts_flops{22.663e12, 33.142e12, 45.543e12, 45.549e12};
  for (std::size_t i = 0; i < experts.size(); ++i)
    print_ablation(
        {experts_model(experts_hidden[i], experts_heads[i], experts[i]),
         fmt::format("MoE h{} E{}", experts_hidden[i], experts[i]), 1 << i, 8, experts_published[i]},
        text +
            ", name: adafactor}\nmoe: {token_dispatcher: einsum, capacity_factor: 1, "
            "group_size: 1024" +
            full,
        experts_flops[i]);
  // FLOPs of a step by the published figures: 8.27 x 0.928 s on one GPU, 8.00 x 8 x 0.937 s on eight.
  const std::vector<std::vector<double>> image_published{{8.27, 8.28, 8.26, 8.27}, {8.00, 0, 0, 5.97}};
  print_ablation({"{from: wide-resnet-250m}", "WResNet 160", 1, 32, image_published[0]}, ", precision: fp32",
                 8.27e12 * 0.928);
  print_ablation({"{from: wide-resnet-2b}", "WResNet 448", 8, 32, image_published[1]}, ", precision: fp32",
                 8.00e12 * 8 * 0.937);
}
