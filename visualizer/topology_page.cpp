#include "visualizer/topology_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "visualizer/fabric_drawing.h"
#include "visualizer/node_drawing.h"
#include "visualizer/page_tables.h"
#include "visualizer/plain_page.h"
#include "visualizer/quantity.h"

namespace simrun {

namespace {

std::string link_table(const TopologyReport& report) {
  std::vector<HtmlRow> rows;
  for (const TopologyReport::Links& links : report.links)
    rows.push_back({{links.name, fmt::format("{}", links.count), bandwidth_text(links.bandwidth)}, ""});
  return html_table("Links, each way counted for itself", {"links", "count", "bandwidth"}, rows, 1);
}

std::string route_table(const TopologyReport& report) {
  std::vector<HtmlRow> rows;
  for (const TopologyReport::Routes& routes : report.routes)
    rows.push_back({{routes.between, fmt::format("{}", routes.pairs), bandwidth_text(routes.bandwidth),
                     fmt::format("{}", routes.hops), seconds_text(routes.latency_s),
                     fmt::format("{}", fmt::join(routes.example, " "))},
                    "rule"});
  return html_table("Routes from the first node",
                    {"between", "pairs", "bandwidth", "links", "latency", "one of them"}, rows, 1);
}

}  // namespace

std::string topology_page(const Cluster& cluster, const TopologyReport& report) {
  const std::string gpus = report.has_gpu_kinds
                               ? report.gpu
                               : fmt::format("{} x {}", cluster.nodes * cluster.gpus_per_node, report.gpu);
  std::string body = fmt::format("<p>{}, rates as transfers get them.", html_escaped(gpus));
  if (report.bisection > 0) {
    body += fmt::format(" Bisection {} each way", bandwidth_text(report.bisection));
    if (report.unlimited_bisection > report.bisection)
      body += fmt::format(", oversubscribed {} times",
                          significant(report.unlimited_bisection / report.bisection, 3));
    body += ".";
  }
  body += "</p>\n";
  if (cluster.fabric.topology != FabricTopology::torus)
    body += "<h2>One node</h2>\n" + node_drawing(cluster, report);
  if (cluster.nodes > 1 || cluster.fabric.topology == FabricTopology::torus)
    body += "<h2>Between nodes</h2>\n" + fabric_drawing(cluster, report);
  return plain_page(fmt::format("Topology of {}", report.cluster),
                    body + link_table(report) + route_table(report));
}

}  // namespace simrun
