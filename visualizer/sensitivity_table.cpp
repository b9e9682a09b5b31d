#include "visualizer/sensitivity_table.h"

#include <fmt/format.h>

#include <stdexcept>

#include "visualizer/json.h"
#include "visualizer/quantity.h"
#include "visualizer/text_table.h"

namespace simrun {

namespace {

struct NaturalUnit {
  const char* name;
  const char* si;
  double size;  // SI units
};

NaturalUnit natural(Sensitivity::Unit unit) {
  switch (unit) {
    case Sensitivity::Unit::bytes_per_second: return {"GB/s", "bytes/s", 1e9};
    case Sensitivity::Unit::flops_per_second: return {"TFLOP/s", "FLOP/s", 1e12};
    case Sensitivity::Unit::seconds: return {"us", "s", 1e-6};
  }
  return {"", "", 1};
}

std::string signed_seconds(double seconds) { return (seconds > 0 ? "+" : "") + seconds_text(seconds); }

}  // namespace

std::string sensitivity_table(const std::vector<Sensitivity>& rows, double step_time_s) {
  std::vector<TextRow> lines{{"sensitivity", "now", "elasticity", "d step", "10 % better saves", ""}};
  for (const Sensitivity& row : rows) {
    const NaturalUnit unit = natural(row.unit);
    lines.push_back({row.name, fmt::format("{} {}", significant(row.value / unit.size, 4), unit.name),
                     fmt::format("{:+.3f}", row.elasticity + 0.0),
                     fmt::format("{} per {}", signed_seconds(row.derivative * unit.size), unit.name),
                     seconds_text(row.saved_s), percent_text(row.saved_s / step_time_s)});
  }
  return text_table(lines, {0}) +
         "elasticity: % that the step changes by for +1 % (central difference); saving: another run\n";
}

std::string sensitivity_json(const std::vector<Sensitivity>& rows) {
  std::string json = "[";
  for (const Sensitivity& row : rows)
    json += fmt::format(
        "{}\n    {{\"name\": {}, \"unit\": \"{}\", \"value\": {}, \"elasticity\": {}, \"derivative\": {}, "
        "\"saved_by_10_percent_better_s\": {}}}",
        json.size() == 1 ? "" : ",", json_quoted(row.name), natural(row.unit).si, row.value, row.elasticity,
        row.derivative, row.saved_s);
  return json + (rows.empty() ? "]" : "\n  ]");
}

std::string with_member(std::string object, const std::string& key, const std::string& json) {
  const std::size_t end = object.rfind("\n}");
  if (end == std::string::npos) throw std::logic_error("not the text of a JSON object with members");
  return object.insert(end, fmt::format(",\n  {}: {}", json_quoted(key), json));
}

}  // namespace simrun
