#pragma once

#include <cstdint>
#include <string>

#include "schedules/plan.h"
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

// "53.5 %" for 0.535.
std::string percent_text(double fraction);

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

// "20", "20+emb", "20+head": layers of a pipeline rank and what else it holds.
std::string layers_text(std::int64_t layers, bool embedding, bool loss);

// "llama 70.6 B  64 x h100_sxm  tp 4  pp 4 (x5)  dp 2  1.05 M tokens/step  interleaved_1f1b, 64 microbatches"
std::string job_text(const Plan& plan, std::int64_t parameters, std::int64_t ranks);

}  // namespace simrun
