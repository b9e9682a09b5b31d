#include "visualizer/topology_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "visualizer/json.h"
#include "visualizer/quantity.h"

namespace simrun {
namespace {

double oversubscription(const TopologyReport& report) {
  return report.bisection > 0 ? report.unlimited_bisection / report.bisection : 1;
}

template <typename Items, typename Text>
std::string json_list(const Items& items, const Text& text) {
  std::string json;
  for (const auto& item : items) json += (json.empty() ? "\n    " : ",\n    ") + text(item);
  return items.empty() ? "[]" : "[" + json + "\n  ]";
}

std::string json_of(const TopologyReport::Links& links) {
  return fmt::format(R"({{"name": {}, "count": {}, "bandwidth": {}}})", json_quoted(links.name), links.count,
                     links.bandwidth);
}

std::string json_of(const TopologyReport::Routes& routes) {
  std::vector<std::string> names;
  for (const std::string& name : routes.example) names.push_back(json_quoted(name));
  return fmt::format(
      R"({{"between": {}, "pairs": {}, "hops": {}, "bandwidth": {}, "latency_s": {}, "example": [{}]}})",
      json_quoted(routes.between), routes.pairs, routes.hops, routes.bandwidth, routes.latency_s,
      fmt::join(names, ", "));
}

}  // namespace

std::string topology_text(const TopologyReport& report) {
  std::string text = fmt::format("{}  {} nodes x {} {}", report.cluster, report.nodes, report.gpus_per_node,
                                 report.has_gpu_kinds ? fmt::format("GPUs: {}", report.gpu) : report.gpu);
  text += fmt::format("  {} NICs per node\n", report.nics_per_node);
  if (report.bisection > 0)
    text += fmt::format("bisection {} each way, oversubscription {}\n", bandwidth_text(report.bisection),
                        significant(oversubscription(report), 3));
  text += fmt::format(" {:<34} {:>10} {:>12}\n", "links", "count", "bandwidth");
  for (const TopologyReport::Links& links : report.links)
    text += fmt::format(" {:<34} {:>10} {:>12}\n", links.name, links.count, bandwidth_text(links.bandwidth));
  text += fmt::format(" {:<34} {:>10} {:>12} {:>6} {:>10}\n", "routes from the first node", "pairs",
                      "bandwidth", "links", "latency");
  for (const TopologyReport::Routes& routes : report.routes)
    text += fmt::format(" {:<34} {:>10} {:>12} {:>6} {:>10}\n   {}\n", routes.between, routes.pairs,
                        bandwidth_text(routes.bandwidth), routes.hops, seconds_text(routes.latency_s),
                        fmt::join(routes.example, " "));
  return text;
}

std::string topology_json(const TopologyReport& report) {
  const auto text = [](const auto& item) { return json_of(item); };
  return fmt::format(
      "{{\n  \"cluster\": {}, \"gpu\": {}, \"nodes\": {}, \"gpus_per_node\": {}, \"nics_per_node\": {},\n"
      "  \"links\": {},\n  \"routes\": {},\n  \"bisection_bandwidth\": {}, \"oversubscription\": {}\n}}\n",
      json_quoted(report.cluster), json_quoted(report.gpu), report.nodes, report.gpus_per_node,
      report.nics_per_node, json_list(report.links, text), json_list(report.routes, text), report.bisection,
      oversubscription(report));
}

}  // namespace simrun
