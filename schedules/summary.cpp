#include "schedules/summary.h"

namespace simrun {
namespace {

double seconds(Picoseconds time) { return static_cast<double>(time) * 1e-12; }

// 0 where there is nothing to divide by: an empty Timeline, or a device without a peak for the precision.
double ratio(double numerator, double denominator) { return denominator > 0 ? numerator / denominator : 0; }

// Totals of several equal or unlike GPUs, weighted by how many each recorded rank stands for.
struct Mean {
  double gpus = 0;
  double compute = 0;
  std::array<double, bubble_cause_count> bubble{};
  std::array<double, traffic_count> exposed{};
  std::array<double, traffic_count> hidden{};

  void add(const RankTimeline& rank) {
    const auto weight = static_cast<double>(rank.multiplicity);
    gpus += weight;
    compute += weight * seconds(rank.totals.compute);
    for (std::size_t i = 0; i < bubble.size(); ++i) bubble[i] += weight * seconds(rank.totals.bubble[i]);
    for (std::size_t i = 0; i < exposed.size(); ++i) exposed[i] += weight * seconds(rank.totals.exposed[i]);
    for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] += weight * seconds(rank.totals.hidden[i]);
  }
  template <std::size_t size>
  std::array<double, size> of(std::array<double, size> sums) const {
    for (double& value : sums) value = ratio(value, gpus);
    return sums;
  }
};

template <std::size_t size>
double sum(const std::array<double, size>& values) {
  double total = 0;
  for (const double value : values) total += value;
  return total;
}

std::vector<StageSummary> stage_summaries(const Plan& plan, const Timeline& timeline) {
  std::vector<StageSummary> stages(plan.stages.size());
  std::vector<Mean> means(plan.stages.size());
  for (std::size_t i = 0; i < stages.size(); ++i) stages[i].pipeline_rank = static_cast<std::int32_t>(i);
  for (const Chunk& chunk : plan.chunks) {
    StageSummary& stage = stages.at(static_cast<std::size_t>(chunk.pipeline_rank));
    stage.layers += chunk.layers;
    stage.embedding |= chunk.embedding;
    stage.loss |= chunk.loss;
    stage.parameters += chunk.parameters;
  }
  for (const RankTimeline& rank : timeline.ranks) {
    StageSummary& stage = stages.at(static_cast<std::size_t>(rank.pipeline_rank));
    means[static_cast<std::size_t>(rank.pipeline_rank)].add(rank);
    if (rank.peak.bytes <= stage.peak_memory_bytes) continue;
    stage.peak_memory_bytes = rank.peak.bytes;
    stage.memory = rank.peak.live;
  }
  for (std::size_t i = 0; i < stages.size(); ++i) {
    stages[i].compute_s = ratio(means[i].compute, means[i].gpus);
    stages[i].bubble_s = sum(means[i].of(means[i].bubble));
    stages[i].exposed_comm_s = sum(means[i].of(means[i].exposed));
  }
  return stages;
}

void set_times(Summary& summary, const Timeline& timeline) {
  Mean mean;
  for (const RankTimeline& rank : timeline.ranks) mean.add(rank);
  summary.step_time_s = seconds(timeline.step);
  summary.first_step_s = seconds(timeline.first_step);
  summary.compute_s = ratio(mean.compute, mean.gpus);
  summary.bubble_by_cause_s = mean.of(mean.bubble);
  summary.exposed_by_traffic_s = mean.of(mean.exposed);
  summary.hidden_by_traffic_s = mean.of(mean.hidden);
  summary.bubble_s = sum(summary.bubble_by_cause_s);
  summary.exposed_comm_s = sum(summary.exposed_by_traffic_s);
  summary.hidden_comm_s = sum(summary.hidden_by_traffic_s);
  summary.bubble_fraction = ratio(summary.bubble_s, summary.step_time_s);
}

void set_rates(Summary& summary, const Plan& plan) {
  const auto gpus = static_cast<double>(plan.ranks());
  summary.tokens_per_s = ratio(static_cast<double>(plan.job.tokens_per_step), summary.step_time_s);
  summary.tokens_per_s_per_gpu = ratio(summary.tokens_per_s, gpus);
  summary.model_flops_per_step = plan.job.model_flops_per_step;
  summary.hardware_flops_per_step = plan.job.hardware_flops_per_step;
  const double gpu_seconds = summary.step_time_s * gpus;
  summary.model_tflops_per_gpu = ratio(summary.model_flops_per_step, gpu_seconds) * 1e-12;
  summary.hardware_tflops_per_gpu = ratio(summary.hardware_flops_per_step, gpu_seconds) * 1e-12;
  const auto peak = plan.cluster.gpu.peak_flops.find(plan.job.precision);
  if (peak == plan.cluster.gpu.peak_flops.end()) return;
  summary.mfu = ratio(summary.model_flops_per_step, gpu_seconds * peak->second);
  summary.hfu = ratio(summary.hardware_flops_per_step, gpu_seconds * peak->second);
}

void set_memory(Summary& summary, const Plan& plan) {
  for (const StageSummary& stage : summary.stages) {
    if (stage.peak_memory_bytes <= summary.peak_memory_bytes) continue;
    summary.peak_memory_bytes = stage.peak_memory_bytes;
    summary.peak_pipeline_rank = stage.pipeline_rank;
  }
  summary.memory_limit_bytes = plan.cluster.gpu.memory_bytes - plan.cluster.reserved_bytes;
  summary.fits = summary.peak_memory_bytes <= summary.memory_limit_bytes;
}

}  // namespace

Summary summarize(const Plan& plan, const Timeline& timeline) {
  Summary summary;
  summary.stages = stage_summaries(plan, timeline);
  set_times(summary, timeline);
  set_rates(summary, plan);
  set_memory(summary, plan);
  summary.parameters = plan.job.parameters;
  summary.engine = timeline.engine;
  summary.ranks = plan.ranks();
  summary.config_sha256 = plan.job.config_sha256;
  return summary;
}

}  // namespace simrun
