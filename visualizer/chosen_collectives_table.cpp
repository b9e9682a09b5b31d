#include "visualizer/chosen_collectives_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "visualizer/json.h"
#include "visualizer/quantity.h"
#include "visualizer/text_table.h"

namespace simrun {

std::string chosen_collectives_table(const std::vector<ChosenCollective>& chosen) {
  std::vector<TextRow> rows{{"collectives", "group", "ranks", "algorithm", "protocol", "times", "bytes"}};
  for (const ChosenCollective& of : chosen) {
    const TrafficUnit unit = traffic_unit(of.most_bytes);
    std::string bytes = fmt::format("{} {}", in_unit(of.most_bytes, unit), unit.name);
    if (of.least_bytes < of.most_bytes) bytes = in_unit(of.least_bytes, unit) + " to " + bytes;
    rows.push_back({of.collective, of.group, fmt::format("{}", of.ranks), of.algorithm, of.protocol,
                    fmt::format("{}", of.times), bytes});
  }
  return text_table(rows, {0, 1, 3, 4});
}

std::string chosen_collectives_json(const std::vector<ChosenCollective>& chosen) {
  std::string list;
  for (const ChosenCollective& of : chosen)
    list += fmt::format(
        "{}\n    {{\"collective\": {}, \"group\": {}, \"ranks\": {}, \"algorithm\": {}, \"protocol\": {}, "
        "\"times\": {}, \"least_bytes\": {}, \"most_bytes\": {}}}",
        list.empty() ? "" : ",", json_quoted(of.collective), json_quoted(of.group), of.ranks,
        json_quoted(of.algorithm), json_quoted(of.protocol), of.times, of.least_bytes, of.most_bytes);
  return chosen.empty() ? "[]" : "[" + list + "\n  ]";
}

}  // namespace simrun
