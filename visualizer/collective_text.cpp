#include "visualizer/collective_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "visualizer/json.h"
#include "visualizer/text_table.h"

namespace simrun {

namespace {

// "▁▃▇█" for the share of the largest.
std::string bars(const std::vector<CollectivePoint>& block) {
  constexpr std::array eighths{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  double most = 0;
  for (const CollectivePoint& point : block) most = std::max(most, point.busbw);
  std::string text;
  for (const CollectivePoint& point : block) {
    const double share = most > 0 ? point.busbw / most : 0;
    text += eighths[static_cast<std::size_t>(std::clamp(share * 8 - 0.5, 0.0, 7.0))];
  }
  return text;
}

std::string block_text(const CollectiveCurves& curves, const std::vector<CollectivePoint>& block) {
  const CollectivePoint& first = block.front();
  std::vector<TextRow> rows{
      {"size (B)", "time (us)", "algbw (GB/s)", "busbw (GB/s)", "algorithm", "protocol"}};
  for (const CollectivePoint& point : block)
    rows.push_back({fmt::format("{}", point.bytes), fmt::format("{:.2f}", point.time_s * 1e6),
                    fmt::format("{:.2f}", point.algbw * 1e-9), fmt::format("{:.2f}", point.busbw * 1e-9),
                    point.algorithm, point.protocol});
  std::string text = fmt::format("# {} on {}: {} node{}, {} ranks\n", curves.collective, curves.cluster,
                                 first.nodes, first.nodes == 1 ? "" : "s", first.ranks);
  text += text_table(rows, {4, 5});
  if (block.size() > 2) text += fmt::format("# busbw over size  {}\n", bars(block));
  return text;
}

}  // namespace

std::string collective_text(const CollectiveCurves& curves) {
  std::string text;
  std::vector<CollectivePoint> block;
  for (const CollectivePoint& point : curves.points) {
    if (!block.empty() && block.front().nodes != point.nodes) {
      text += block_text(curves, block) + "\n";
      block.clear();
    }
    block.push_back(point);
  }
  return block.empty() ? text : text + block_text(curves, block);
}

std::string collective_json(const CollectiveCurves& curves) {
  std::string json = "[";
  for (const CollectivePoint& point : curves.points)
    json += fmt::format(
        "{}\n  {{\"collective\": {}, \"bytes\": {}, \"nodes\": {}, \"ranks\": {}, \"algorithm\": {}, "
        "\"time_s\": {}, \"algbw\": {}, \"busbw\": {}, \"protocol\": {}}}",
        &point == &curves.points.front() ? "" : ",", json_quoted(curves.collective), point.bytes, point.nodes,
        point.ranks, json_quoted(point.algorithm), point.time_s, point.algbw, point.busbw,
        json_quoted(point.protocol));
  return json + "\n]\n";
}

}  // namespace simrun
