#include "visualizer/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "configs/node_groups.h"
#include "schedules/stage_sizes.h"

namespace simrun {

namespace {

// Decimals that give `value` that many figures, judged after rounding: 9.9996 has the decimals of 10.
int decimals_for(double value, int digits) {
  if (value == 0) return 0;
  const double magnitude = std::abs(value);
  const int whole = static_cast<int>(std::floor(std::log10(magnitude))) + 1;
  const int decimals = std::clamp(digits - whole, 0, 9);
  const double unit = std::pow(10.0, decimals);
  const bool carries = std::round(magnitude * unit) / unit >= std::pow(10.0, whole);
  return carries ? std::max(decimals - 1, 0) : decimals;
}

}  // namespace

std::string significant(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  return fmt::format("{:.{}f}", value, decimals_for(value, digits));
}

std::string count_text(double count) {
  struct Scale {
    double of;
    const char* name;
  };
  constexpr std::array<Scale, 4> scales{{{1e12, " T"}, {1e9, " B"}, {1e6, " M"}, {1e3, " k"}}};
  for (const Scale& scale : scales) {
    // 999,600 is 1.00 M, not 1000 k.
    if (std::abs(count) >= scale.of * 0.9995) return significant(count / scale.of, 3) + scale.name;
  }
  return significant(count, std::abs(count) == std::floor(std::abs(count)) ? 0 : 3);
}

TimeUnit time_unit(double longest_seconds) {
  struct Scale {
    double of;
    const char* name;
    double per_second;
  };
  constexpr std::array<Scale, 4> scales{{{1, "s", 1}, {1e-3, "ms", 1e3}, {1e-6, "us", 1e6}, {0, "ns", 1e9}}};
  if (!std::isfinite(longest_seconds) || longest_seconds <= 0) return {};
  const Scale& scale = *std::find_if(scales.begin(), scales.end(),
                                     [&](const Scale& s) { return longest_seconds >= s.of * 0.99995; });
  return {scale.name, scale.per_second, decimals_for(longest_seconds * scale.per_second, 4)};
}

std::string in_unit(double seconds, const TimeUnit& unit) {
  if (!std::isfinite(seconds)) return "-";
  return fmt::format("{:.{}f}", seconds * unit.per_second, unit.decimals);
}

std::string seconds_text(double seconds) {
  if (seconds == 0) return "0 s";
  const TimeUnit unit = time_unit(std::abs(seconds));
  return in_unit(seconds, unit) + " " + unit.name;
}

MemoryUnit memory_unit(std::int64_t largest_bytes) {
  constexpr std::int64_t kib = 1024, mib = 1024 * kib, gib = 1024 * mib;
  if (largest_bytes == 0 || largest_bytes >= gib) return {"GiB", gib};
  return largest_bytes >= mib ? MemoryUnit{"MiB", mib} : MemoryUnit{"KiB", kib};
}

std::string in_unit(std::int64_t bytes, const MemoryUnit& unit) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / static_cast<double>(unit.bytes));
}

std::string memory_text(std::int64_t bytes) {
  const MemoryUnit unit = memory_unit(std::abs(bytes));
  return in_unit(bytes, unit) + " " + unit.name;
}

std::string room_text(std::int64_t limit_bytes) {
  return memory_text(std::max(limit_bytes, std::int64_t{0}));
}

TrafficUnit traffic_unit(std::int64_t largest_bytes) {
  constexpr std::array<TrafficUnit, 3> units{{{"GB", 1e9, 0}, {"MB", 1e6, 0}, {"kB", 1e3, 0}}};
  const auto largest = static_cast<double>(largest_bytes);
  // 999,960,000 bytes are 1.000 GB, not 1000.0 MB.
  for (const TrafficUnit& unit : units)
    if (largest >= unit.bytes * 0.99995)
      return {unit.name, unit.bytes, std::max(decimals_for(largest / unit.bytes, 4), 1)};
  return {"B", 1, 0};
}

std::string in_unit(std::int64_t bytes, const TrafficUnit& unit) {
  return fmt::format("{:.{}f}", static_cast<double>(bytes) / unit.bytes, unit.decimals);
}

std::string flops_text(double flops) {
  if (flops >= 1e9) return fmt::format("{:.1f} GFLOP", flops / 1e9);
  return flops >= 1e6 ? fmt::format("{:.1f} MFLOP", flops / 1e6) : fmt::format("{:.1f} kFLOP", flops / 1e3);
}

std::string bandwidth_text(double bytes_per_second) {
  return significant(bytes_per_second / 1e9, 3) + " GB/s";
}

std::string percent_text(double fraction) {
  if (!std::isfinite(fraction)) return "- %";
  return fmt::format("{:.1f} %", fraction * 100);
}

std::string link_text(const std::string& name, std::int64_t multiplicity) {
  return multiplicity > 1 ? fmt::format("{} (x{})", name, multiplicity) : name;
}

std::string engine_text(const Summary& summary) {
  if (!summary.engine_reason.empty())
    return fmt::format("engine {}: {}", summary.engine, summary.engine_reason);
  if (summary.contention_bound <= 0) return "engine " + summary.engine;
  return fmt::format("engine {}: at most {} % of the step from shared links", summary.engine,
                     significant(summary.contention_bound * 100, 2));
}

const char* short_name(Traffic traffic) {
  switch (traffic) {
    case Traffic::compute: return "compute";
    case Traffic::tensor: return "tp";
    case Traffic::context: return "cp";
    case Traffic::expert: return "ep";
    case Traffic::data: return "dp";
    case Traffic::pipeline: return "pp";
    case Traffic::offload: return "offload";
  }
  return "";
}

const char* short_name(BubbleCause cause) {
  switch (cause) {
    case BubbleCause::warm_up: return "warm-up";
    case BubbleCause::imbalance: return "imbalance";
    case BubbleCause::drain: return "drain";
    case BubbleCause::p2p: return "p2p";
  }
  return "";
}

bool has_gpu_kinds(const Summary& summary) {
  return std::ranges::any_of(summary.stages, [&](const StageSummary& stage) {
    return stage.gpu != stage.fullest_gpu || stage.gpu != summary.stages.front().gpu;
  });
}

std::string layers_text(const StageSummary& stage) {
  if (stage.serves) return "servers";
  const std::string mtp = stage.mtp_layers == 0   ? ""
                          : stage.mtp_layers == 1 ? "+mtp"
                                                  : fmt::format("+{}mtp", stage.mtp_layers);
  return fmt::format("{}{}{}{}", stage.layers, stage.embedding ? "+emb" : "", mtp, stage.loss ? "+head" : "");
}

const char* samples_word(bool counts_images) { return counts_images ? "images" : "tokens"; }

std::string job_text(const Plan& plan, std::int64_t parameters, std::int64_t ranks) {
  const JobFacts& job = plan.job;
  std::string trained;
  if (job.frozen_parameters > 0)
    trained =
        fmt::format(" ({} trained)", count_text(static_cast<double>(job.parameters - job.frozen_parameters)));
  std::string text =
      fmt::format("{} {}{}  {}  tp {}", job.model_type, count_text(static_cast<double>(parameters)), trained,
                  GpuKinds(plan.cluster).count() > 1 ? gpus_text(plan.cluster)
                                                     : fmt::format("{} x {}", ranks, plan.cluster.gpu.name),
                  ranks_along_text(plan, "tp"));
  if (job.context_parallel > 1) text += fmt::format("  cp {}", job.context_parallel);
  if (job.expert_parallel > 1) text += fmt::format("  ep {}", job.expert_parallel);
  text += fmt::format("  pp {}", job.pipeline_parallel);
  if (job.virtual_pipeline > 1) text += fmt::format(" (x{})", job.virtual_pipeline);
  text += fmt::format("  dp {}  {} {}/step  {}, {} microbatch{}", ranks_along_text(plan, "dp"),
                      count_text(static_cast<double>(job.tokens_per_step)), samples_word(job.counts_images),
                      job.schedule, job.microbatches, job.microbatches == 1 ? "" : "es");
  return text;
}

}  // namespace simrun
