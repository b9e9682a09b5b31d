#include "visualizer/fabric_drawing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "visualizer/node_drawing.h"
#include "visualizer/page_tables.h"
#include "visualizer/quantity.h"
#include "visualizer/svg_shapes.h"

namespace simrun {

namespace {

using Box = SvgShapes::Box;
using Facts = std::vector<std::string>;

constexpr double fabric_left = 10, fabric_right = 890, fabric_width = 900;
constexpr std::size_t most_pods = 3, most_leaves = 12, most_spines = 6, most_cores = 10, most_groups = 4;

std::int64_t rounded_up(std::int64_t number, std::int64_t by) {
  return (number - 1) / std::max<std::int64_t>(by, 1) + 1;
}

std::string count_of(std::int64_t count, const char* what, const char* plural) {
  return fmt::format("{} {}", count, count == 1 ? what : plural);
}

std::string with_facts(const SvgShapes& svg, double height, const Facts& facts) {
  std::string items;
  for (const std::string& fact : facts) items += fmt::format("<li>{}</li>\n", html_escaped(fact));
  return svg.drawn(fabric_width, height,
                   fmt::format("the network between nodes: {}", fmt::join(facts, "; "))) +
         fmt::format("<ul class=\"legend\">\n{}</ul>\n", items);
}

// Leaves, spines and cores; pods side by side.
class SwitchPicture {
 public:
  SwitchPicture(const Cluster& cluster, const TopologyReport& report)
      : cluster_(cluster), fabric_(cluster.fabric), report_(report) {
    groups_ = rounded_up(cluster.nodes, fabric_.nodes_per_leaf);
    const bool has_pods = fabric_.topology != FabricTopology::leaf_spine;
    pods_ = has_pods ? rounded_up(groups_, fabric_.leaves_per_pod) : 1;
    const std::int64_t nics = cluster.nics_per_node > 0 ? cluster.nics_per_node : cluster.gpus_per_node;
    rails_ = fabric_.rail_optimized ? std::min(nics, cluster.gpus_per_node) : 1;
    if (fabric_.topology == FabricTopology::dragonfly_plus) pod_y_ = 60;
    if (fabric_.topology == FabricTopology::fat_tree) draw_cores();
    draw_pods();
    state();
  }

  std::string html() const { return with_facts(svg_, bottom_ + 8, facts_); }

 private:
  static constexpr double core_y = 8;
  double pod_y_ = 26;

  void draw_cores() {
    pod_y_ = 80;
    const SvgRow row = svg_row(fabric_.cores, most_cores, fabric_left, fabric_right, core_y);
    cores_ = row.boxes;
    for (std::size_t i = 0; i < cores_.size(); ++i)
      svg_.box(cores_[i], row.is_cut && i + 1 == cores_.size() ? "..." : fmt::format("core {}", i));
  }

  void draw_pods() {
    const SvgRow row = svg_row(pods_, most_pods, fabric_left, fabric_right, pod_y_);
    const double step = (fabric_right - fabric_left) / static_cast<double>(row.boxes.size());
    std::vector<std::vector<Box>> spines;
    for (std::size_t pod = 0; pod < row.boxes.size(); ++pod) {
      const double from = fabric_left + static_cast<double>(pod) * step;
      if (row.is_cut && pod + 1 == row.boxes.size()) {
        svg_.text(from + step / 2, pod_y_ + 90, fmt::format("... and {} more pods", pods_ - 2), "middle");
        continue;
      }
      spines.push_back(draw_pod(static_cast<std::int64_t>(pod), from, from + step - 8));
    }
    if (fabric_.topology == FabricTopology::dragonfly_plus && spines.size() > 1)
      for (std::size_t i = 0; i < std::min(spines[0].size(), spines[1].size()); ++i)
        svg_.arc(spines[0][i].x, spines[1][i].x, spines[0][i].y, 46);
    bottom_ = pod_y_ + (pods_ > 1 ? 222 : 206);
  }

  // Returns its spines.
  std::vector<Box> draw_pod(std::int64_t pod, double from, double to) {
    if (pods_ > 1) {
      svg_.box({(from + to) / 2, pod_y_ - 16, to - from, 226}, "", "frame");
      svg_.text(from + 6, pod_y_ + 204, fmt::format("pod {}", pod));
    }
    const SvgRow spines = svg_row(fabric_.spines, most_spines, from + 8, to - 8, pod_y_);
    const char* const of_rail = fabric_.rail_only && spines.boxes.front().width > 120 ? " of each rail" : "";
    for (std::size_t i = 0; i < spines.boxes.size(); ++i) {
      const bool is_rest = spines.is_cut && i + 1 == spines.boxes.size();
      svg_.box(
          spines.boxes[i],
          is_rest ? "..." : fmt::format("{}{}{}", spines.boxes[i].width < 48 ? "" : "spine ", i, of_rail));
      const auto per_spine =
          static_cast<std::size_t>(std::max<std::int64_t>(fabric_.cores / fabric_.spines, 1));
      for (std::size_t core = i * per_spine; core < std::min((i + 1) * per_spine, cores_.size()); ++core)
        svg_.wire(cores_[core], spines.boxes[i]);
    }
    const std::int64_t own = fabric_.topology == FabricTopology::leaf_spine
                                 ? groups_
                                 : std::min(fabric_.leaves_per_pod, groups_ - pod * fabric_.leaves_per_pod);
    const std::size_t groups_shown = pods_ > 1 ? 2 : most_groups;
    const SvgRow groups = svg_row(own, groups_shown, from + 8, to - 8, pod_y_ + 164);
    const double step = (to - from - 16) / static_cast<double>(groups.boxes.size());
    for (std::size_t g = 0; g < groups.boxes.size(); ++g) {
      const double at = from + 8 + static_cast<double>(g) * step;
      if (groups.is_cut && g + 1 == groups.boxes.size())
        svg_.text(at + step / 2, pod_y_ + 180, fmt::format("... {} more", own - static_cast<std::int64_t>(g)),
                  "middle");
      else
        draw_group(pod * fabric_.leaves_per_pod + static_cast<std::int64_t>(g), groups.boxes[g],
                   {at, at + step - 6}, spines.boxes);
    }
    return spines.boxes;
  }

  // Nodes that have their leaves in common, one of every rail.
  void draw_group(std::int64_t group, const Box& nodes, std::pair<double, double> sides,
                  const std::vector<Box>& spines) {
    const std::int64_t first = group * fabric_.nodes_per_leaf;
    const std::int64_t last = std::min(first + fabric_.nodes_per_leaf, cluster_.nodes) - 1;
    const std::size_t most =
        std::min<std::size_t>(most_leaves, static_cast<std::size_t>((sides.second - sides.first) / 14));
    const SvgRow leaves =
        svg_row(rails_, std::max<std::size_t>(most, 2), sides.first, sides.second, pod_y_ + 92);
    for (std::size_t rail = 0; rail < leaves.boxes.size(); ++rail) {
      const bool is_rest = leaves.is_cut && rail + 1 == leaves.boxes.size();
      const Box& leaf = leaves.boxes[rail];
      const char* const what = leaf.width < 44 ? "" : rails_ == 1 ? "leaf " : "rail ";
      const std::string name =
          fmt::format("{}{}", what, rails_ == 1 ? group : static_cast<std::int64_t>(rail));
      svg_.box(leaf, is_rest ? "..." : name);
      for (const Box& spine : spines) svg_.wire(spine, leaf);
      svg_.wire(leaf, nodes);
    }
    const std::string names = first == last       ? fmt::format("node {}", first)
                              : nodes.width >= 90 ? fmt::format("nodes {}-{}", first, last)
                                                  : fmt::format("{}-{}", first, last);
    svg_.box(nodes, names, "box strong");
  }

  void state() {
    facts_.push_back(
        fmt::format("{} of {} GPUs", count_of(cluster_.nodes, "node", "nodes"), cluster_.gpus_per_node));
    if (fabric_.planes > 1) facts_.push_back(fmt::format("{} planes, each as drawn", fabric_.planes));
    if (pods_ > 1) facts_.push_back(fmt::format("{} pods", pods_));
    const std::string of_rails =
        rails_ > 1 ? fmt::format(" ({} rails x {})", rails_, groups_) : std::string();
    facts_.push_back(fmt::format("{}{}, each of {}", count_of(groups_ * rails_, "leaf", "leaves"), of_rails,
                                 count_of(fabric_.nodes_per_leaf, "node", "nodes")));
    const bool is_sprayed = fabric_.routing == PathChoice::spray;
    facts_.push_back(fmt::format("{}{}; a leaf has {} each way to {}",
                                 count_of(fabric_.spines, "spine", "spines"), pods_ > 1 ? " in each pod" : "",
                                 bandwidth_text(rate_of(report_, "leaf*.spine*.up")),
                                 is_sprayed ? "all of them together" : "each"));
    if (fabric_.topology == FabricTopology::fat_tree)
      facts_.push_back(fmt::format("{}; {} has {} each way to {}", count_of(fabric_.cores, "core", "cores"),
                                   is_sprayed ? "a pod" : "a spine",
                                   bandwidth_text(rate_of(report_, "core*.up")),
                                   is_sprayed ? "all of them together" : "each of its own"));
    if (fabric_.topology == FabricTopology::dragonfly_plus && pods_ > 1)
      facts_.push_back(fmt::format("between any two pods {} each way per spine",
                                   bandwidth_text(rate_of(report_, "pod*.spine*.pod*"))));
    const char* const routing = is_sprayed                            ? "spread evenly over all ways"
                                : fabric_.routing == PathChoice::ecmp ? "by hash (ECMP)"
                                                                      : "by destination";
    facts_.push_back(fmt::format("routes {}{}", routing,
                                 fabric_.rail_only ? "; no switch joins rails"
                                 : fabric_.pxn     ? "; other rails by PXN"
                                                   : ""));
  }

  const Cluster& cluster_;
  const Fabric& fabric_;
  const TopologyReport& report_;
  std::int64_t groups_ = 1, pods_ = 1, rails_ = 1;
  SvgShapes svg_;
  std::vector<Box> cores_;
  Facts facts_;
  double bottom_ = 0;
};

std::string flat_drawing(const Cluster& cluster) {
  SvgShapes svg;
  const Box network{(fabric_left + fabric_right) / 2, 8, fabric_right - fabric_left};
  svg.box(network, "a network that does not block");
  const SvgRow nodes = svg_row(cluster.nodes, most_leaves, fabric_left, fabric_right, 80);
  for (std::size_t n = 0; n < nodes.boxes.size(); ++n) {
    svg.line(nodes.boxes[n].x, network.bottom(), nodes.boxes[n].x, nodes.boxes[n].y);
    svg.box(nodes.boxes[n], nodes.is_cut && n + 1 == nodes.boxes.size() ? "..." : fmt::format("node {}", n),
            "box strong");
  }
  return with_facts(
      svg, 112,
      {fmt::format("{} of {} GPUs", count_of(cluster.nodes, "node", "nodes"), cluster.gpus_per_node),
       "only NICs limit what goes between them"});
}

// The first two dimensions; the third is said.
std::string torus_drawing(const Cluster& cluster, const TopologyReport& report) {
  const Fabric& fabric = cluster.fabric;
  std::vector<std::int64_t> sizes = fabric.torus;
  sizes.resize(3, 1);
  constexpr std::size_t most = 8;
  constexpr double step_y = 56;
  SvgShapes svg;
  const SvgRow columns = svg_row(sizes[0], most, 40, 860, 40);
  const auto rows = static_cast<std::size_t>(std::min<std::int64_t>(sizes[1], most));
  for (std::size_t y = 0; y < rows; ++y)
    for (std::size_t x = 0; x < columns.boxes.size(); ++x) {
      Box box = columns.boxes[x];
      box.y += static_cast<double>(y) * step_y;
      box.width = std::min(box.width, 60.0);
      const bool is_rest = (columns.is_cut && x + 1 == columns.boxes.size()) ||
                           (sizes[1] > static_cast<std::int64_t>(most) && y + 1 == rows);
      const double next_x = x + 1 < columns.boxes.size() ? columns.boxes[x + 1].x : 890;
      if (x + 1 < columns.boxes.size() || fabric.torus_wraps) svg.line(box.x, box.y + 12, next_x, box.y + 12);
      if (x == 0 && fabric.torus_wraps) svg.line(10, box.y + 12, box.x, box.y + 12);
      if (y + 1 < rows || fabric.torus_wraps) svg.line(box.x, box.bottom(), box.x, box.y + step_y);
      if (y == 0 && fabric.torus_wraps) svg.line(box.x, 14, box.x, box.y);
      svg.box(box,
              is_rest ? "..."
                      : fmt::format("GPU {}",
                                    static_cast<std::int64_t>(x) + sizes[0] * static_cast<std::int64_t>(y)),
              "box strong");
    }
  Facts facts{
      fmt::format("{} of {} GPUs", fabric.torus_wraps ? "a torus" : "a mesh", fmt::join(fabric.torus, " x ")),
      fmt::format("{} each way between neighbours", bandwidth_text(rate_of(report, "_forward")))};
  if (fabric.torus_wraps) facts.emplace_back("wires that leave the picture come back on the other side");
  if (sizes[2] > 1) facts.push_back(fmt::format("one of {} layers, each linked with the next", sizes[2]));
  return with_facts(svg, 50 + static_cast<double>(rows) * step_y, facts);
}

}  // namespace

std::string fabric_drawing(const Cluster& cluster, const TopologyReport& report) {
  switch (cluster.fabric.topology) {
    case FabricTopology::torus: return torus_drawing(cluster, report);
    case FabricTopology::non_blocking: return flat_drawing(cluster);
    default: return SwitchPicture(cluster, report).html();
  }
}

}  // namespace simrun
