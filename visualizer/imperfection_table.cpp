#include "visualizer/imperfection_table.h"

#include <fmt/format.h>

#include "visualizer/json.h"
#include "visualizer/quantity.h"
#include "visualizer/text_table.h"

namespace simrun {

namespace {

TextRow cost_row(const std::string& name, const std::string& what, double added_s, double without_s) {
  const char* const sign = added_s > 0 ? "+" : "";
  return {name, what, sign + seconds_text(added_s),
          fmt::format("{:+.2f} %", 100 * added_s / without_s + 0.0)};
}

}  // namespace

std::string imperfection_table(const ImperfectionCosts& costs, double step_time_s) {
  std::vector<TextRow> lines{{"imperfections", "", "step", ""},
                             {"without any", "", seconds_text(costs.without_s), ""}};
  for (const ImperfectionCost& cost : costs.causes)
    lines.push_back(cost_row(cost.cause, cost.what, cost.added_s, costs.without_s));
  if (costs.causes.size() > 1)
    lines.push_back(
        cost_row("interaction", "together less each alone", costs.interaction_s, costs.without_s));
  lines.push_back(cost_row("all", "", step_time_s - costs.without_s, costs.without_s));
  return text_table(lines, {0, 1});
}

std::string imperfection_json(const ImperfectionCosts& costs) {
  std::string causes;
  for (const ImperfectionCost& cost : costs.causes)
    causes +=
        fmt::format("{}\n      {{\"cause\": {}, \"what\": {}, \"added_s\": {}}}", causes.empty() ? "" : ",",
                    json_quoted(cost.cause), json_quoted(cost.what), cost.added_s);
  return fmt::format(
      "{{\n    \"step_time_without_s\": {},\n    \"causes\": [{}\n    ],\n    \"interaction_s\": {}\n  }}",
      costs.without_s, causes, costs.interaction_s);
}

}  // namespace simrun
