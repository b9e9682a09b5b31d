#pragma once

#include <cstdint>
#include <string>

#include "schedules/plan.h"
#include "schedules/summary.h"
#include "schedules/timeline.h"

namespace simrun {

// Numbers as people read them. A value that is not finite is written "-".

// Fixed point with about `digits` significant figures, never an exponent: (14.934, 3) -> "14.9", (0.0123, 2)
// -> "0.012".
std::string significant(double value, int digits);

// "70.6 B", "1.05 M", "70.4 k", "512".
std::string count_text(double count);

// "14.93 s", "812.3 ms", "45.20 us", "380.0 ns", "0 s".
std::string seconds_text(double seconds);

// One unit for a column of sizes, GiB, MiB or KiB: that of the largest.
struct MemoryUnit {
  const char* name = "GiB";
  std::int64_t bytes = std::int64_t{1} << 30;
};
MemoryUnit memory_unit(std::int64_t largest_bytes);
std::string in_unit(std::int64_t bytes, const MemoryUnit& unit);  // without the unit's name, one decimal
std::string memory_text(std::int64_t bytes);                      // "71.4 GiB"
// What a GPU has for a plan: nothing where a framework alone needs more than there is.
std::string room_text(std::int64_t limit_bytes);

// One unit for a column of traffic, decimal as link bandwidths are: GB, MB, kB or B, that of the largest,
// with as many decimals as give it four figures.
struct TrafficUnit {
  const char* name = "B";
  double bytes = 1;
  int decimals = 0;
};
TrafficUnit traffic_unit(std::int64_t largest_bytes);
std::string in_unit(std::int64_t bytes, const TrafficUnit& unit);  // without the unit's name

// "481.4 GFLOP", "4.7 MFLOP"; of a token or an image.
std::string flops_text(double flops);

// "50.0 GB/s".
std::string bandwidth_text(double bytes_per_second);

// "53.5 %" for 0.535.
std::string percent_text(double fraction);

// "node0.nic3.tx (x16)" where one stands for several equal links.
std::string link_text(const std::string& name, std::int64_t multiplicity);

// Which engine ran, and the engine's own words why and how far off it may be; without any, the bound alone:
// "engine fast: at most 0.05 % of the step from shared links".
std::string engine_text(const Summary& summary);

// One unit for a column of times: that of the longest, with as many decimals as give it four figures.
struct TimeUnit {
  const char* name = "s";
  double per_second = 1;
  int decimals = 2;
};
TimeUnit time_unit(double longest_seconds);
std::string in_unit(double seconds, const TimeUnit& unit);  // without the unit's name

// The field's short names: tp, cp, ep, dp, pp, offload; and of idle causes: warm-up, imbalance, drain, p2p.
const char* short_name(Traffic traffic);
const char* short_name(BubbleCause cause);

// Whether its GPUs are of several kinds, on one pipeline rank or on several.
bool has_gpu_kinds(const Summary& summary);

// "20", "20+emb", "19+mtp+head": layers of a pipeline rank and what else it holds ("+2mtp": two layers of
// multi-token prediction); "servers" of those of parameters.
std::string layers_text(const StageSummary& stage);
// What throughput counts: "tokens" or "images".
const char* samples_word(bool counts_images);

// "llama 70.6 B  64 x h100_sxm  tp 4  pp 4 (x5)  dp 2  1.05 M tokens/step  interleaved_1f1b, 64 microbatches"
std::string job_text(const Plan& plan, std::int64_t parameters, std::int64_t ranks);

}  // namespace simrun
