#include "visualizer/likely_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "visualizer/json.h"
#include "visualizer/quantity.h"

namespace simrun {
namespace {

constexpr std::size_t named_sources = 4;

}  // namespace

std::string likely_line(const LikelyTime& likely) {
  const std::string kind = likely.kind.empty() ? "of any kind" : likely.kind;
  const std::string sources = likely.sources.size() <= named_sources
                                  ? fmt::format("{}", fmt::join(likely.sources, ", "))
                                  : fmt::format("{} sources", likely.sources.size());
  return fmt::format(
      "likely {} to {}: as 8 of 10 of {} measured runs ({}; {})\n{}", seconds_text(likely.from_s),
      seconds_text(likely.to_s), likely.runs, kind, sources,
      likely.names_framework
          ? ""
          : "  framework: NAME (configs/frameworks) brings what software costs, and a nearer range\n");
}

std::string likely_json(const LikelyTime& likely) {
  std::vector<std::string> sources;
  for (const std::string& source : likely.sources) sources.push_back(json_quoted(source));
  return fmt::format(
      "{{\"step_time_from_s\": {}, \"step_time_to_s\": {}, \"runs\": {}, \"kind\": {}, \"sources\": [{}]}}",
      likely.from_s, likely.to_s, likely.runs, json_quoted(likely.kind), fmt::join(sources, ", "));
}

}  // namespace simrun
