#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace simrun {

// What measured runs say of a prediction: eight of ten lay between these bounds of what was predicted for
// them.
struct LikelyTime {
  double from_s = 0, to_s = 0;
  std::size_t runs = 0;
  std::string kind;  // what they are alike in: "a100_sxm_80gb, pipeline"; "": nothing
  std::vector<std::string> sources;
  bool names_framework = true;  // the job does
};

// "likely 12.9 to 14.8 s: as 8 of 10 of 43 measured runs (a100_sxm_80gb, pipeline; colm, sc21)\n". More than
// four sources are counted. A second line where the job names no framework: how to come nearer.
std::string likely_line(const LikelyTime& likely);

// {"step_time_from_s", "step_time_to_s", "runs", "kind", "sources"}.
std::string likely_json(const LikelyTime& likely);

}  // namespace simrun
