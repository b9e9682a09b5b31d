#include "schedules/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <stdexcept>
#include <tuple>

#include "configs/node_groups.h"
#include "schedules/memory_limit.h"

namespace simrun {
namespace {

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
    compute += weight * to_seconds(rank.totals.compute);
    for (std::size_t i = 0; i < bubble.size(); ++i) bubble[i] += weight * to_seconds(rank.totals.bubble[i]);
    for (std::size_t i = 0; i < exposed.size(); ++i)
      exposed[i] += weight * to_seconds(rank.totals.exposed[i]);
    for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] += weight * to_seconds(rank.totals.hidden[i]);
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

void set_means(StageSummary& stage, const Mean& mean) {
  stage.compute_s = ratio(mean.compute, mean.gpus);
  stage.bubble_by_cause_s = mean.of(mean.bubble);
  stage.exposed_by_traffic_s = mean.of(mean.exposed);
  stage.hidden_by_traffic_s = mean.of(mean.hidden);
  stage.bubble_s = sum(stage.bubble_by_cause_s);
  stage.exposed_comm_s = sum(stage.exposed_by_traffic_s);
}

void add_load(StageSummary& stage, const RankTimeline& rank) {
  const GpuLoad load{rank.device, to_seconds(rank.totals.compute), to_seconds(rank.totals.bubble_total()),
                     to_seconds(rank.totals.exposed_total())};
  const bool first = stage.gpus == 0;
  if (first || load.compute_s > stage.busiest.compute_s) stage.busiest = load;
  if (first || load.compute_s < stage.idlest.compute_s) stage.idlest = load;
}

// What a GPU has for the plan's bytes.
std::int64_t limit_of(const Plan& plan, const Gpu& gpu, const std::optional<HeldMemory>& held,
                      std::int64_t peak_bytes) {
  const std::int64_t context = plan.framework.memory.context_bytes;
  if (held) return memory_limit(plan, gpu, *held, peak_bytes);
  return gpu.memory_bytes - (context > 0 ? context : plan.cluster.reserved_bytes);
}

// "4 v100_sxm2_32gb + 4 p100_sxm2" of a pipeline rank with both.
std::string stage_gpus(const GpuKinds& kinds, const StageDevices& stage) {
  std::vector<std::int64_t> of_kind(kinds.count(), 0);
  for (const DeviceRange& range : stage.devices)
    for (std::int64_t i = 0; i < range.count; ++i) ++of_kind[kinds.of(range.first + i)];
  const bool one = std::count(of_kind.begin(), of_kind.end(), 0) + 1 >= std::ssize(of_kind);
  std::string text;
  for (std::size_t kind = 0; kind < of_kind.size(); ++kind)
    if (of_kind[kind] > 0)
      text += (text.empty() ? "" : " + ") +
              (one ? kinds.gpu(kind).name : fmt::format("{} {}", of_kind[kind], kinds.gpu(kind).name));
  return text;
}

// Of several kinds of GPU the one with least to spare is the fullest.
void choose_tightest(const Plan& plan, const GpuKinds& kinds, const Timeline& timeline,
                     std::vector<StageSummary>& stages) {
  std::vector<bool> known(stages.size(), false);
  for (const RankTimeline& rank : timeline.ranks) {
    const auto number = static_cast<std::size_t>(rank.pipeline_rank);
    StageSummary& stage = stages.at(number);
    const Gpu& gpu = kinds.gpu(kinds.of(rank.device));
    const std::int64_t limit = limit_of(plan, gpu, rank.held, rank.peak.bytes);
    if (known[number] && limit - rank.peak.bytes >= stage.memory_limit_bytes - stage.peak_memory_bytes)
      continue;
    known[number] = true;
    stage.held = rank.held;
    stage.peak_memory_bytes = rank.peak.bytes;
    stage.memory_limit_bytes = limit;
    stage.memory = rank.peak.live;
    stage.fullest_gpu = gpu.name;
  }
}

std::vector<StageSummary> stage_summaries(const Plan& plan, const Timeline& timeline) {
  std::vector<StageSummary> stages(plan.stages.size());
  std::vector<Mean> means(plan.stages.size());
  for (std::size_t i = 0; i < stages.size(); ++i) stages[i].pipeline_rank = static_cast<std::int32_t>(i);
  for (const Chunk& chunk : plan.chunks) {
    StageSummary& stage = stages.at(static_cast<std::size_t>(chunk.pipeline_rank));
    stage.layers += chunk.layers;
    stage.mtp_layers += chunk.mtp_layers;
    stage.embedding |= chunk.embedding;
    stage.loss |= chunk.loss;
    stage.parameters += chunk.parameters;
  }
  for (const RankTimeline& rank : timeline.ranks) {
    StageSummary& stage = stages.at(static_cast<std::size_t>(rank.pipeline_rank));
    add_load(stage, rank);
    stage.gpus += rank.multiplicity;
    means[static_cast<std::size_t>(rank.pipeline_rank)].add(rank);
    const auto needs = [&](const HeldMemory& held) { return needed_bytes(plan, plan.cluster.gpu, held); };
    if (rank.held && (!stage.held || needs(*rank.held) > needs(*stage.held))) stage.held = rank.held;
    if (rank.peak.bytes <= stage.peak_memory_bytes) continue;
    stage.peak_memory_bytes = rank.peak.bytes;
    stage.memory = rank.peak.live;
  }
  for (std::size_t i = 0; i < stages.size(); ++i) set_means(stages[i], means[i]);
  const GpuKinds kinds(plan.cluster);
  for (std::size_t i = 0; i < stages.size() && kinds.count() > 1; ++i)
    stages[i].gpu = stage_gpus(kinds, plan.stages[i]);
  if (kinds.count() > 1) choose_tightest(plan, kinds, timeline, stages);
  if (plan.job.parameter_servers && plan.job.parameter_servers->dedicated) stages.back().serves = true;
  return stages;
}

// "node.nic.tx" of "node3.nic1.tx".
std::string kind_of(const std::string& name) {
  std::string kind;
  std::copy_if(name.begin(), name.end(), std::back_inserter(kind), [](char c) { return c < '0' || c > '9'; });
  return kind;
}

// Links with equal figures are one here, however a Timeline that recorded their use over time keeps them
// apart.
std::vector<LinkSummary> link_summaries(const Timeline& timeline) {
  const double step = to_seconds(timeline.step);
  std::vector<LinkSummary> links;
  const LinkTimeline* last = nullptr;
  for (const LinkTimeline& link : timeline.links) {
    const auto figures = [](const LinkTimeline& of) {
      return std::tuple(of.bandwidth, of.bytes, of.busy, of.contended, kind_of(of.name));
    };
    if (last != nullptr && figures(*last) == figures(link)) {
      links.back().multiplicity += link.multiplicity;
      links.back().name = std::min(links.back().name, link.name);
      continue;
    }
    last = &link;
    links.push_back({link.name, link.multiplicity, link.bandwidth, link.bytes,
                     ratio(to_seconds(link.busy), step), to_seconds(link.contended),
                     ratio(static_cast<double>(link.bytes), link.bandwidth * step)});
  }
  return links;
}

void set_times(Summary& summary, const Timeline& timeline) {
  Mean mean;
  for (const RankTimeline& rank : timeline.ranks) mean.add(rank);
  summary.step_time_s = to_seconds(timeline.step);
  summary.first_step_s = to_seconds(timeline.first_step);
  summary.compute_s = ratio(mean.compute, mean.gpus);
  summary.bubble_by_cause_s = mean.of(mean.bubble);
  summary.exposed_by_traffic_s = mean.of(mean.exposed);
  summary.hidden_by_traffic_s = mean.of(mean.hidden);
  summary.bubble_s = sum(summary.bubble_by_cause_s);
  summary.exposed_comm_s = sum(summary.exposed_by_traffic_s);
  summary.hidden_comm_s = sum(summary.hidden_by_traffic_s);
  summary.bubble_fraction = ratio(summary.bubble_s, summary.step_time_s);
}

// Of all GPUs of the plan, FLOP/s; 0 where a kind has none for the plan's type.
double summed_peaks(const Plan& plan, const GpuKinds& kinds) {
  double sum = 0;
  for (const StageDevices& stage : plan.stages)
    for (const DeviceRange& range : stage.devices)
      for (std::int64_t i = 0; i < range.count; ++i) {
        const Gpu& gpu = kinds.gpu(kinds.of(range.first + i));
        const auto peak = gpu.peak_flops.find(plan.job.precision);
        if (peak == gpu.peak_flops.end()) return 0;
        sum += peak->second;
      }
  return sum;
}

void set_rates(Summary& summary, const Plan& plan) {
  const auto gpus = static_cast<double>(plan.ranks());
  summary.counts_images = plan.job.counts_images;
  summary.tokens_per_s = ratio(static_cast<double>(plan.job.tokens_per_step), summary.step_time_s);
  summary.tokens_per_s_per_gpu = ratio(summary.tokens_per_s, gpus);
  summary.model_flops_per_step = plan.job.model_flops_per_step;
  summary.hardware_flops_per_step = plan.job.hardware_flops_per_step;
  const double gpu_seconds = summary.step_time_s * gpus;
  summary.model_tflops_per_gpu = ratio(summary.model_flops_per_step, gpu_seconds) * 1e-12;
  summary.hardware_tflops_per_gpu = ratio(summary.hardware_flops_per_step, gpu_seconds) * 1e-12;
  if (const GpuKinds kinds(plan.cluster); kinds.count() > 1) {
    const double possible = summary.step_time_s * summed_peaks(plan, kinds);
    summary.mfu = ratio(summary.model_flops_per_step, possible);
    summary.hfu = ratio(summary.hardware_flops_per_step, possible);
    return;
  }
  const auto peak = plan.cluster.gpu.peak_flops.find(plan.job.precision);
  if (peak == plan.cluster.gpu.peak_flops.end()) return;
  summary.mfu = ratio(summary.model_flops_per_step, gpu_seconds * peak->second);
  summary.hfu = ratio(summary.hardware_flops_per_step, gpu_seconds * peak->second);
}

// Of the pipeline rank with least to spare.
void set_memory_of_kinds(Summary& summary) {
  const StageSummary* worst = nullptr;
  const auto spare = [](const StageSummary& stage) {
    return stage.memory_limit_bytes - stage.peak_memory_bytes;
  };
  for (const StageSummary& stage : summary.stages)
    if (worst == nullptr || spare(stage) < spare(*worst)) worst = &stage;
  if (worst == nullptr) return;
  summary.peak_memory_bytes = worst->peak_memory_bytes;
  summary.memory_limit_bytes = worst->memory_limit_bytes;
  summary.peak_pipeline_rank = worst->pipeline_rank;
  summary.peak_gpu = worst->fullest_gpu;
  summary.fits = summary.peak_memory_bytes <= summary.memory_limit_bytes;
}

LargestPeak largest_peak(const Plan& plan, const Timeline& timeline) {
  const GpuKinds kinds(plan.cluster);
  LargestPeak largest;
  for (const RankTimeline& rank : timeline.ranks) {
    if (!largest.gpu.empty() && rank.peak.bytes <= largest.bytes) continue;
    const Gpu& gpu = kinds.gpu(kinds.of(rank.device));
    largest = {rank.peak.bytes, limit_of(plan, gpu, rank.held, rank.peak.bytes), gpu.name};
  }
  return largest;
}

void set_memory(Summary& summary, const Plan& plan) {
  if (GpuKinds(plan.cluster).count() > 1) return set_memory_of_kinds(summary);
  const auto needs = [&](const StageSummary& stage) {
    return stage.held ? needed_bytes(plan, plan.cluster.gpu, *stage.held) : stage.peak_memory_bytes;
  };
  const StageSummary* worst = nullptr;
  for (const StageSummary& stage : summary.stages)
    if (worst == nullptr || needs(stage) > needs(*worst)) worst = &stage;
  const Gpu& gpu = plan.cluster.gpu;
  summary.peak_gpu = gpu.name;
  summary.memory_limit_bytes = limit_of(plan, gpu, std::nullopt, 0);
  if (worst != nullptr) {
    summary.peak_memory_bytes = worst->peak_memory_bytes;
    summary.peak_pipeline_rank = worst->pipeline_rank;
    summary.memory_limit_bytes = limit_of(plan, gpu, worst->held, worst->peak_memory_bytes);
  }
  for (StageSummary& stage : summary.stages) {
    stage.memory_limit_bytes = summary.memory_limit_bytes;
    stage.fullest_gpu = stage.gpu = gpu.name;
  }
  summary.fits = summary.peak_memory_bytes <= summary.memory_limit_bytes;
}

// Pipeline ranks are lists of devices; a node has those of equal number / gpus_per_node.
void set_host_memory(Summary& summary, const Plan& plan, const Timeline& timeline) {
  std::map<std::int32_t, std::pair<std::int64_t, std::int64_t>> of_rank;  // (host, nvme) bytes per GPU
  for (const RankTimeline& rank : timeline.ranks) {
    auto& [host, nvme] = of_rank[rank.pipeline_rank];
    host = std::max(host, rank.host_bytes);
    nvme = std::max(nvme, rank.nvme_bytes);
  }
  const std::int64_t gpus = std::max<std::int64_t>(plan.cluster.gpus_per_node, 1);
  std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> of_node;
  for (const auto& [pipeline_rank, bytes] : of_rank) {
    if (bytes.first == 0 && bytes.second == 0) continue;
    for (const DeviceRange& range : plan.stages.at(static_cast<std::size_t>(pipeline_rank)).devices)
      for (std::int64_t first = range.first; first < range.first + range.count;) {
        const std::int64_t node = first / gpus;
        const std::int64_t end = std::min((node + 1) * gpus, range.first + range.count);
        of_node[node].first += (end - first) * bytes.first;
        of_node[node].second += (end - first) * bytes.second;
        first = end;
      }
  }
  for (const auto& [node, bytes] : of_node) {
    summary.host_memory_bytes = std::max(summary.host_memory_bytes, bytes.first);
    summary.nvme_bytes = std::max(summary.nvme_bytes, bytes.second);
  }
  summary.host_memory_limit_bytes = plan.cluster.host.memory_bytes;
  summary.nvme_limit_bytes = plan.cluster.host.nvme_bytes;
  summary.host_fits = summary.host_memory_bytes <= summary.host_memory_limit_bytes &&
                      summary.nvme_bytes <= summary.nvme_limit_bytes;
}

}  // namespace

Summary summarize(const Plan& plan, const Timeline& timeline) {
  Summary summary;
  summary.stages = stage_summaries(plan, timeline);
  summary.links = link_summaries(timeline);
  set_times(summary, timeline);
  set_rates(summary, plan);
  set_memory(summary, plan);
  if (GpuKinds(plan.cluster).count() > 1)
    summary.largest_peak = largest_peak(plan, timeline);
  else
    summary.largest_peak = {summary.peak_memory_bytes, summary.memory_limit_bytes, summary.peak_gpu};
  set_host_memory(summary, plan, timeline);
  summary.parameters = plan.job.parameters;
  summary.engine = timeline.engine;
  summary.engine_reason = timeline.engine_reason;
  summary.contention_bound = timeline.contention_bound;
  summary.ranks = plan.ranks();
  summary.config_sha256 = plan.job.config_sha256;
  return summary;
}

const RankTimeline& fullest_gpu(const Timeline& timeline, std::int32_t pipeline_rank) {
  const RankTimeline* fullest = nullptr;
  for (const RankTimeline& rank : timeline.ranks)
    if (rank.pipeline_rank == pipeline_rank && (fullest == nullptr || rank.peak.bytes > fullest->peak.bytes))
      fullest = &rank;
  if (fullest == nullptr)
    throw std::out_of_range(fmt::format("the timeline has no GPU of pipeline rank {}", pipeline_rank));
  return *fullest;
}

}  // namespace simrun
