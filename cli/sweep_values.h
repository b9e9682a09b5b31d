#pragma once

#include <optional>
#include <string>
#include <vector>

#include "configs/load_job.h"
#include "visualizer/sweep_tables.h"

namespace simrun {

constexpr std::size_t most_sweep_points = 10'000;

// "a, {b: 1, c: 2}, 'd,e'" -> three values, split at commas outside brackets, braces and quotes, without the
// spaces around them; "1..8" -> 1, 2, 4, 8. Nothing if a bracket or quote is not closed, or a value is empty.
std::optional<std::vector<std::string>> split_values(const std::string& text);

// Why they are not what is to be swept: nothing was read, or a range that does not go up; or "".
std::string fault_of(const std::optional<std::vector<std::string>>& values);

bool is_small_enough(const std::vector<SweepKey>& keys);

// The values of one point of the cross product, one per key; the last key varies fastest.
std::vector<std::string> values_of_point(const std::vector<SweepKey>& keys, std::size_t point);
std::size_t points_of(const std::vector<SweepKey>& keys);

}  // namespace simrun
