#include "visualizer/layout_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "visualizer/json.h"
#include "visualizer/quantity.h"

namespace simrun {
namespace {

constexpr std::size_t widest_column = 100;

// "0-3, 5, 8-9": runs of consecutive layers.
std::string runs_text(const std::vector<std::int32_t>& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i;
    while (end + 1 < layers.size() && layers[end + 1] == layers[end] + 1) ++end;
    text += text.empty() ? "" : ", ";
    text += end == i ? fmt::format("{}", layers[i]) : fmt::format("{}-{}", layers[i], layers[end]);
    i = end + 1;
  }
  return text;
}

std::string shortened(std::string text, std::size_t width) {
  if (text.size() > width) text = text.substr(0, width - 3) + "...";
  return text;
}

void add_line(std::string& text, std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  text += shortened(std::move(line), widest_column) + "\n";
}

std::string bytes_text(std::int64_t bytes) {
  const TrafficUnit unit = traffic_unit(bytes);
  return in_unit(bytes, unit) + " " + unit.name;
}

template <typename Items, typename Text>
std::string list(const Items& items, const std::string& indent, const Text& text) {
  std::string json;
  for (const auto& item : items) json += (json.empty() ? "\n" : ",\n") + indent + "  " + text(item);
  return items.empty() ? "[]" : "[" + json + "\n" + indent + "]";
}

std::string json_of(const LayoutTransfer& transfer) {
  return fmt::format(
      R"({{"when": {}, "operation": {}, "axes": {}, "ranks": {}, "bytes": {}, "change": {}, "cause": {}}})",
      json_quoted(transfer.when), json_quoted(transfer.operation), json_quoted(transfer.axes), transfer.ranks,
      transfer.bytes, json_quoted(transfer.change), json_quoted(transfer.cause));
}

std::string json_of(const OperatorLayout& op) {
  return fmt::format(
      R"({{"name": {}, "module": {}, "layout": {}, "partial": {}, "transfers": {}}})", json_quoted(op.name),
      json_quoted(op.module), json_quoted(op.layout), json_quoted(op.partial),
      list(op.transfers, "      ", [](const LayoutTransfer& transfer) { return json_of(transfer); }));
}

std::string json_of(const LayoutPart& part) {
  return fmt::format(R"({{"name": {}, "layers": [{}], "operators": {}}})", json_quoted(part.name),
                     fmt::join(part.layers, ", "),
                     list(part.operators, "    ", [](const OperatorLayout& op) { return json_of(op); }));
}

}  // namespace

std::string layout_text(const LayoutReport& report) {
  std::string text = "mesh of a pipeline stage:";
  for (const Axis& axis : report.mesh)
    if (axis.size > 1) text += fmt::format(" {} {}", axis.name, axis.size);
  text += fmt::format(" (first fastest); pipeline stages: {}\n", report.pipeline_stages);
  for (const LayoutPart& part : report.parts) {
    if (part.operators.empty()) continue;
    text += "\n";
    add_line(text, part.layers.empty() ? part.name : fmt::format("{} {}", part.name, runs_text(part.layers)));
    for (const OperatorLayout& op : part.operators) {
      add_line(text, fmt::format("  {:<22} {:<11} {}{}", op.name, op.module, op.layout,
                                 op.partial.empty() ? "" : " -> " + op.partial));
      for (const LayoutTransfer& transfer : op.transfers)
        add_line(text, fmt::format("    {:<9} {:<14} {:<12} {:>8}  {}", transfer.when, transfer.operation,
                                   fmt::format("{} ({})", transfer.axes, transfer.ranks),
                                   transfer.operation == "slice" ? "" : bytes_text(transfer.bytes),
                                   transfer.change));
    }
  }
  return text;
}

std::string layout_json(const LayoutReport& report) {
  const std::string mesh = list(report.mesh, "  ", [](const Axis& axis) {
    return fmt::format(R"({{"name": {}, "size": {}}})", json_quoted(axis.name), axis.size);
  });
  const std::string parts = list(report.parts, "  ", [](const LayoutPart& part) { return json_of(part); });
  return fmt::format("{{\n  \"mesh\": {},\n  \"pipeline_stages\": {},\n  \"parts\": {}\n}}\n", mesh,
                     report.pipeline_stages, parts);
}

}  // namespace simrun
