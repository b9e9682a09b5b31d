#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/summary.h"
#include "visualizer/quantity.h"

namespace simrun {

struct SweepKey {
  std::string key;                  // dotted path
  std::vector<std::string> values;  // as written
};

// What a sweep shows of a Summary; fields named and defined as there.
struct SweepNumbers {
  bool counts_images = false;  // tokens are images
  double step_time_s = 0, tokens_per_s = 0, tokens_per_s_per_gpu = 0;
  double mfu = 0, hfu = 0;
  double likely_from_s = 0, likely_to_s = 0;  // eight of ten measured runs of such jobs; 0: not known
  double compute_s = 0, bubble_s = 0, bubble_fraction = 0, exposed_comm_s = 0, hidden_comm_s = 0;
  std::int64_t ranks = 0, peak_memory_bytes = 0, memory_limit_bytes = 0;
  bool fits = false;
};
SweepNumbers sweep_numbers(const Summary& summary);

struct SweepRow {
  std::vector<std::string> values;      // one per key
  std::optional<SweepNumbers> numbers;  // unset: refused
  std::string engine;
  std::string error;  // why it was refused, or by how much it does not fit
};

struct Sweep {
  std::string name;  // of the job
  std::vector<SweepKey> keys;
  std::vector<SweepRow> rows;  // the cross product, the last key's values varying fastest
};

// The row with the most tokens (or images) per second and GPU among those that fit, the first of equals.
std::optional<std::size_t> best_row(const Sweep& sweep);

// For each key the last words of its path that tell it from the other keys: "bandwidth", or
// "inter_node.bandwidth" beside "intra_node.bandwidth".
std::vector<std::string> short_keys(const std::vector<SweepKey>& keys);

// The units of the longest step and of the largest peak, unless they leave the least fewer than two figures:
// then each cell has its own. And what throughput counts: "tokens", "images", or "samples" where the rows'
// models differ in it.
struct SweepUnits {
  std::optional<TimeUnit> time;
  std::optional<MemoryUnit> memory;
  std::string samples;
};
SweepUnits sweep_units(const Sweep& sweep);

// The columns after the keys, and a row's cells for them; shared by terminal and page.
std::vector<std::string> sweep_columns(const SweepUnits& units);
std::vector<std::string> sweep_cells(const SweepRow& row, const SweepUnits& units);

// For people: one line per row, '*' at the best, refused rows with their reason.
std::string sweep_table(const Sweep& sweep);

// For spreadsheets: RFC 4180 quoting, lines end in "\n"; numbers in SI units as the shortest text that reads
// back to the same double, empty where a row was refused or nothing is known. Throughput is images_per_s
// where every row counts images; where only some do, those rows have no tokens_per_s.
std::string sweep_csv(const Sweep& sweep);

// For programs: an array with an object for each row, {"values": {key: text}, number: ..., "engine",
// "error"}; a refused row has `values` and `error` only. What is not known is null.
std::string sweep_json(const Sweep& sweep);

}  // namespace simrun
