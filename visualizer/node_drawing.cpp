#include "visualizer/node_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "visualizer/page_tables.h"
#include "visualizer/quantity.h"
#include "visualizer/svg_shapes.h"

namespace simrun {

namespace {

using Box = SvgShapes::Box;

constexpr double node_width = 900, node_left = 10, node_right = 890;
constexpr std::size_t most_gpus = 16;

std::string name_of(const char* what, std::int64_t number) { return fmt::format("{} {}", what, number); }

double mean_x(const std::vector<Box>& boxes) {
  double sum = 0;
  for (const Box& box : boxes) sum += box.x;
  return boxes.empty() ? (node_left + node_right) / 2 : sum / static_cast<double>(boxes.size());
}

// GPUs in the order of their PCIe switches, so that no two wires of the tree cross.
std::vector<std::int64_t> gpu_order(const Cluster& cluster) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(cluster.gpus_per_node));
  std::iota(order.begin(), order.end(), 0);
  const std::vector<std::int64_t>& on = cluster.wiring.pcie.gpu_switches;
  if (!on.empty())
    std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
      return on.at(static_cast<std::size_t>(a)) < on.at(static_cast<std::size_t>(b));
    });
  return order;
}

class NodePicture {
 public:
  NodePicture(const Cluster& cluster, const TopologyReport& report) : cluster_(cluster), report_(report) {
    if (cluster.wiring.topology == IntraNodeTopology::nvswitch && cluster.gpus_per_node > 1) add_switch();
    add_gpus();
    if (cluster.wiring.pcie.empty())
      add_nics();
    else
      add_tree();
  }

  std::string html() const {
    std::string items;
    for (const std::string& fact : facts_) items += fmt::format("<li>{}</li>\n", html_escaped(fact));
    return svg_.drawn(node_width, y_ + 10, fmt::format("one node: {}", fmt::join(facts_, "; "))) +
           fmt::format("<ul class=\"legend\">\n{}</ul>\n", items);
  }

 private:
  void add_switch() {
    const std::int64_t nodes = cluster_.wiring.nodes_per_domain;
    switch_ = {(node_left + node_right) / 2, y_, node_right - node_left};
    svg_.box(switch_, nodes > 1 ? fmt::format("NVLink switch of {} nodes, {} GPUs", nodes,
                                              nodes * cluster_.gpus_per_node)
                                : "NVSwitch");
    facts_.push_back(fmt::format("{} GPUs, {} of NVLink each way per GPU", cluster_.gpus_per_node,
                                 bandwidth_text(rate_of(report_, "gpu*.nvlink_tx"))));
    y_ += 70;
  }

  void add_gpus() {
    const std::vector<std::int64_t> order = gpu_order(cluster_);
    const SvgRow row = svg_row(cluster_.gpus_per_node, most_gpus, node_left, node_right, y_);
    gpus_.assign(order.size(), row.boxes.back());
    for (std::size_t i = 0; i < row.boxes.size(); ++i) {
      const bool is_rest = row.is_cut && i + 1 == row.boxes.size();
      if (!is_rest) gpus_[static_cast<std::size_t>(order[i])] = row.boxes[i];
      svg_.box(row.boxes[i], is_rest ? "..." : name_of("GPU", order[i]), "box strong");
      if (switch_.width > 0) svg_.line(row.boxes[i].x, switch_.bottom(), row.boxes[i].x, row.boxes[i].y, 2);
    }
    if (switch_.width == 0) facts_.push_back(fmt::format("{} GPUs", cluster_.gpus_per_node));
    y_ += 70;
  }

  std::int64_t nics() const {
    return cluster_.nics_per_node > 0 ? cluster_.nics_per_node : cluster_.gpus_per_node;
  }
  // NICs that a GPU has for itself are one port.
  std::int64_t nics_of_port() const { return std::max<std::int64_t>(nics() / cluster_.gpus_per_node, 1); }
  std::string port_name(std::int64_t port) const {
    const std::int64_t each = nics_of_port();
    return each == 1 ? name_of("NIC", port) : fmt::format("NIC {}-{}", port * each, port * each + each - 1);
  }
  void state_nics() {
    std::string fact =
        fmt::format("{} NIC{}, {} each way per {}", nics(), nics() == 1 ? "" : "s",
                    bandwidth_text(rate_of(report_, ".nic*", ".tx")), nics_of_port() > 1 ? "GPU" : "NIC");
    if (cluster_.fabric.planes > 1 && cluster_.fabric.routing != PathChoice::spray)
      fact += fmt::format(" and plane, of {}", cluster_.fabric.planes);
    if (cluster_.inter_node.flow_bandwidth > 0)
      fact += fmt::format(", a flow at most {}", bandwidth_text(cluster_.inter_node.flow_bandwidth));
    facts_.push_back(fact);
    if (!cluster_.wiring.gpu_direct) facts_.push_back("no GPU-direct: traffic to NICs passes host memory");
  }

  void add_nics() {
    const std::int64_t ports = nics() / nics_of_port();
    const std::int64_t gpus_of_port = std::max<std::int64_t>(cluster_.gpus_per_node / ports, 1);
    std::size_t gpu = 0;
    for (std::int64_t port = 0; port < ports; ++port) {
      std::vector<Box> own;
      for (std::int64_t g = 0; g < gpus_of_port && gpu < gpus_.size(); ++g) own.push_back(gpus_[gpu++]);
      const bool is_rest = own.front().x == gpus_.back().x && gpus_.size() > most_gpus;
      const Box nic{mean_x(own), y_, own.front().width};
      for (const Box& box : own) svg_.wire(box, nic);
      svg_.box(nic, is_rest ? "..." : port_name(port));
      if (is_rest) break;
    }
    state_nics();
    facts_.push_back("PCIe limits nothing");
    y_ += 30;
  }

  // GPUs, their switches, NICs and CPU sockets.
  void add_tree() {
    const PcieTree& pcie = cluster_.wiring.pcie;
    std::vector<std::vector<Box>> below(pcie.switch_sockets.size());
    for (std::size_t g = 0; g < gpus_.size(); ++g)
      below.at(static_cast<std::size_t>(pcie.gpu_switches.at(g))).push_back(gpus_[g]);
    std::vector<Box> switches;
    for (std::size_t s = 0; s < below.size(); ++s) {
      switches.push_back({mean_x(below[s]), y_, 100});
      for (const Box& gpu : below[s]) svg_.wire(gpu, switches.back());
      svg_.box(switches.back(), fmt::format("PCIe {}", s));
    }
    std::vector<std::size_t> count(switches.size(), 0), placed(switches.size(), 0);
    for (const std::int64_t on : pcie.nic_switches) ++count.at(static_cast<std::size_t>(on));
    for (std::size_t n = 0; n < pcie.nic_switches.size(); ++n) {
      const auto on = static_cast<std::size_t>(pcie.nic_switches[n]);
      const double offset = static_cast<double>(placed[on]++) - static_cast<double>(count[on] - 1) / 2;
      const Box nic{switches[on].x + 66 * offset, y_ + 70, 60};
      svg_.wire(switches[on], nic);
      svg_.box(nic, name_of("NIC", static_cast<std::int64_t>(n)));
    }
    facts_.push_back(fmt::format("PCIe links {} each way", bandwidth_text(rate_of(report_, "pcie_tx"))));
    add_sockets(switches);
    state_nics();
  }

  void add_sockets(const std::vector<Box>& switches) {
    const std::vector<std::int64_t>& on = cluster_.wiring.pcie.switch_sockets;
    const std::int64_t sockets = *std::ranges::max_element(on) + 1;
    Box last;
    for (std::int64_t socket = 0; socket < sockets; ++socket) {
      std::vector<Box> own;
      for (std::size_t s = 0; s < on.size(); ++s)
        if (on[s] == socket) own.push_back(switches[s]);
      const Box box{mean_x(own), y_ + 140, 90};
      for (const Box& one : own)  // past the NICs below them
        svg_.line(one.x + (box.x < one.x ? -40 : 40), one.bottom(), box.x, box.y);
      svg_.box(box, name_of("CPU", socket));
      if (socket > 0) svg_.line(last.x, last.y + 12, box.x, box.y + 12, 2);
      last = box;
    }
    if (sockets > 1)
      facts_.push_back(
          fmt::format("between CPUs {} each way", bandwidth_text(rate_of(report_, "socket*.socket*"))));
    y_ += 174;
  }

  const Cluster& cluster_;
  const TopologyReport& report_;
  SvgShapes svg_;
  double y_ = 8;
  Box switch_{0, 0, 0};
  std::vector<Box> gpus_;  // by number
  std::vector<std::string> facts_;
};

// The GPUs of a mesh in a circle.
std::string mesh_drawing(const Cluster& cluster) {
  const std::vector<NvlinkPair>& links = cluster.wiring.nvlinks;
  const auto gpus = static_cast<std::size_t>(cluster.gpus_per_node);
  constexpr double centre = 190, radius = 155;
  SvgShapes svg;
  std::vector<Box> boxes;
  for (std::size_t g = 0; g < gpus; ++g) {
    const double angle = 2 * std::numbers::pi * (static_cast<double>(g) + 0.5) / static_cast<double>(gpus);
    boxes.push_back({centre + radius * std::sin(angle), centre - radius * std::cos(angle) - 12, 56});
  }
  std::vector<std::int64_t> of_gpu(gpus, 0);
  for (const NvlinkPair& pair : links) {
    const Box &a = boxes.at(static_cast<std::size_t>(pair.first)),
              &b = boxes.at(static_cast<std::size_t>(pair.second));
    svg.line(a.x, a.y + 12, b.x, b.y + 12, 1.5 * static_cast<double>(pair.links));
    of_gpu[static_cast<std::size_t>(pair.first)] += pair.links;
    of_gpu[static_cast<std::size_t>(pair.second)] += pair.links;
  }
  for (std::size_t g = 0; g < gpus; ++g)
    svg.box(boxes[g], name_of("GPU", static_cast<std::int64_t>(g)), "box strong");
  const double most = static_cast<double>(std::max<std::int64_t>(std::ranges::max(of_gpu), 1));
  const std::string fact = fmt::format(
      "{} pairs of GPUs are linked; {} each way per NVLink, a wire is as wide as its links are many",
      links.size(), bandwidth_text(cluster.intra_node.bandwidth * cluster.intra_node.efficiency / most));
  return svg.drawn(2 * centre, 2 * centre, "NVLinks between the GPUs of a node: " + fact) +
         fmt::format("<p>{}</p>\n", html_escaped(fact));
}

}  // namespace

double rate_of(const TopologyReport& report, const std::string& part, const std::string& end) {
  for (const TopologyReport::Links& links : report.links)
    if (links.name.find(part) != std::string::npos && links.name.ends_with(end)) return links.bandwidth;
  return 0;
}

std::string node_drawing(const Cluster& cluster, const TopologyReport& report) {
  std::string html = NodePicture(cluster, report).html();
  if (cluster.wiring.topology == IntraNodeTopology::nvlink_mesh) html += mesh_drawing(cluster);
  return html;
}

}  // namespace simrun
