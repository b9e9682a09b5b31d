// Alpa's end-to-end table for GPT (Zheng et al. 2022, figure 8; figures and plans of their artifact,
// results_e2e_ref.tsv) on nodes of 8 V100-SXM2-16GB, 25 Gb/s between them: their plan, Megatron-LM's best
// grid and what the search here finds, simulated, beside what they measured. Stages of Alpa's plan for 8 GPUs
// have sub-meshes of different size, which cannot be compiled. TFLOPS per GPU count recompute.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "bench/alpa_cluster.h"
#include "planner/alpa_outcome.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

struct AlpaPlanOfPaper {
  int microbatches = 1, stages = 1, data = 1, tensor = 1;
};

struct EndToEndRow {
  int gpus = 1, hidden = 0, layers = 0, heads = 0;
  double megatron = 0, alpa = 0;  // measured TFLOPS
  std::optional<AlpaPlanOfPaper> plan;
};

constexpr int global_batch = 1024, sequence_length = 1024, vocabulary = 51200;

std::string yaml_of(const EndToEndRow& row) {
  return fmt::format(
      "simrun: 1\n"
      "model: {{model_type: gpt, num_layers: {}, hidden_size: {}, num_attention_heads: {}, vocab_size: {}, "
      "max_position_embeddings: {}, attention_dropout: 0, hidden_dropout: 0}}\n"
      "training: {{micro_batch_size: 1, global_batch_size: {}, seq_length: {}, precision: fp16, attention: "
      "unfused}}\nrecompute: {{granularity: full}}\nframework: alpa\ncluster: {}\n",
      row.layers, row.hidden, row.heads, vocabulary, sequence_length, global_batch, sequence_length,
      alpa_cluster(row.gpus));
}

// 96 b s h^2 l (1 + s / 6h) + 6 b s h v, as Alpa's artifact counts with recompute.
double flops_of(const EndToEndRow& row) {
  const double tokens = double{global_batch} * sequence_length, hidden = row.hidden;
  return 96 * tokens * hidden * hidden * row.layers * (1 + sequence_length / (6 * hidden)) +
         6 * tokens * hidden * vocabulary;
}

std::string tflops_of(const SimulatedPlan& plan, const EndToEndRow& row) {
  if (!plan.refusal.empty() || !plan.fits) return "-";
  return fmt::format("{:.1f}", flops_of(row) / plan.step_s / row.gpus * 1e-12);
}

std::string their_plan(const EndToEndRow& row, const JobLoader& load) {
  if (!row.plan) return "";
  const AlpaPlanOfPaper& plan = *row.plan;
  const int sequences = global_batch / plan.microbatches / plan.data;
  return tflops_of(
      simulate_plan("",
                    {{"parallelism.tensor_model_parallel_size", fmt::format("{}", plan.tensor)},
                     {"parallelism.pipeline_model_parallel_size", fmt::format("{}", plan.stages)},
                     {"training.micro_batch_size", fmt::format("{}", sequences)}},
                    load),
      row);
}

void print_row(const EndToEndRow& row) {
  const std::string yaml = yaml_of(row);
  const JobLoader load = [&](const std::vector<Override>& overrides) { return job_from(yaml, overrides); };
  const AlpaOutcome outcome = plan_by_alpa(load);
  const std::string found = outcome.best ? tflops_of(outcome.simulated[*outcome.best], row) : "-";
  fmt::print("GPT h{:<5} l{:<3} {:>4}   {:>6} {:>9.1f}   {:>6} {:>9.1f}   {:>6}  {}\n", row.hidden,
             row.layers, row.gpus, tflops_of(outcome.references.back(), row), row.megatron,
             their_plan(row, load), row.alpa, found,
             outcome.best ? outcome.simulated[*outcome.best].name : "");
}

}  // namespace
}  // namespace simrun

int main() {
  using namespace simrun;
  fmt::print("{:<15} {:>4}   {:>16}   {:>16}   {:>6}\n", "TFLOPS per GPU", "GPUs", "Megatron measured",
             "Alpa measured", "found");
  const std::vector<EndToEndRow> rows{
      {1, 1024, 24, 16, 47.53, 45.07, {{512, 1, 1, 1}}}, {2, 1536, 24, 16, 55.53, 57.92, {{128, 2, 1, 1}}},
      {4, 2048, 24, 32, 55.89, 58.21, {{128, 2, 2, 1}}}, {8, 2560, 32, 32, 50.44, 61.61, {}},
      {16, 4096, 32, 32, 56.59, 60.0, {{64, 2, 2, 4}}},  {32, 5120, 48, 40, 58.24, 59.9, {{128, 4, 2, 4}}},
      {64, 8192, 48, 64, 57.84, 57, {{1024, 16, 1, 4}}}};
  for (const EndToEndRow& row : rows) print_row(row);
}
