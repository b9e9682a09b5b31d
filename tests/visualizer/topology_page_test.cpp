#include "visualizer/topology_page.h"

#include <catch2/catch.hpp>

namespace simrun {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

Cluster cluster_of(std::int64_t nodes, std::int64_t gpus) {
  Cluster cluster;
  cluster.nodes = nodes;
  cluster.gpus_per_node = cluster.nics_per_node = gpus;
  cluster.gpu.name = "a<b";
  cluster.intra_node = {100e9, 1e-6, 1};
  cluster.inter_node = {10e9, 5e-6, 1};
  return cluster;
}

TopologyReport report_of(const Cluster& cluster) {
  TopologyReport report;
  report.cluster = "test";
  report.gpu = cluster.gpu.name;
  report.nodes = cluster.nodes;
  report.links = {
      {"node*.gpu*.nvlink_tx", 8, 100e9}, {"node*.nic*.tx", 8, 10e9}, {"rail*.leaf*.spine*.up", 4, 20e9}};
  report.routes = {{"same node", 7, 2, 100e9, 1e-6, {"node0.gpu0.nvlink_tx", "node0.gpu1.nvlink_rx"}}};
  return report;
}

}  // namespace

TEST_CASE("a node's picture has a box for each GPU, each NIC and the switch, and says their rates") {
  const Cluster cluster = cluster_of(2, 4);
  const std::string page = topology_page(cluster, report_of(cluster));
  CHECK(has(page, ">NVSwitch</text>"));
  for (const char* name : {"GPU 0", "GPU 3", "NIC 0", "NIC 3"})
    CHECK(count(page, std::string(">") + name + "</text>") == 1);
  CHECK_FALSE(has(page, ">GPU 4</text>"));
  CHECK(has(page, "100 GB/s of NVLink each way per GPU"));
  CHECK(has(page, "role=\"img\" aria-label=\"one node: 4 GPUs"));
  CHECK(has(page, "a network that does not block"));
  CHECK(has(page, "8 x a&lt;b"));
  CHECK_FALSE(has(page, "<script"));
  CHECK(has(page, "node0.gpu0.nvlink_tx node0.gpu1.nvlink_rx"));
}

TEST_CASE("levels with more switches than there is room for say how many there are") {
  Cluster cluster = cluster_of(64, 8);
  cluster.fabric = {FabricTopology::leaf_spine, true, 8, 20};
  const std::string page = topology_page(cluster, report_of(cluster));
  CHECK(has(page, "64 nodes of 8 GPUs"));
  CHECK(has(page, "64 leaves (8 rails x 8), each of 8 nodes"));  // 64 / 8 groups, a leaf for each rail
  CHECK(has(page, "20 spines; a leaf has 20.0 GB/s each way to each"));
  CHECK(has(page, ">...</text>"));
  CHECK_FALSE(has(page, ">spine 6</text>"));
}

TEST_CASE(
    "a torus is a grid of GPUs, a mesh of NVLinks a circle, and a PCIe tree has its switches and sockets") {
  Cluster torus = cluster_of(4, 4);
  torus.fabric.topology = FabricTopology::torus;
  torus.fabric.torus = {4, 2, 2};
  const std::string grid = topology_page(torus, report_of(torus));
  CHECK(has(grid, ">GPU 7</text>"));
  CHECK_FALSE(has(grid, ">GPU 8</text>"));  // of the second layer
  CHECK(has(grid, "a torus of 4 x 2 x 2 GPUs"));
  CHECK(has(grid, "one of 2 layers"));

  Cluster mesh = cluster_of(1, 4);
  mesh.nics_per_node = 2;
  mesh.wiring.topology = IntraNodeTopology::nvlink_mesh;
  mesh.wiring.nvlinks = {{0, 1, 2}, {1, 2, 1}, {2, 3, 2}, {0, 3, 1}};
  mesh.wiring.pcie = {{10e9, 1e-6, 1}, {5e9, 1e-6, 1}, {0, 0, 1, 1}, {0, 1}, {0, 1}};
  TopologyReport report = report_of(mesh);
  report.links.insert(report.links.begin(), {"node*.nic*.pcie_tx", 4, 15e9});
  const std::string page = topology_page(mesh, report);
  CHECK(has(page, "2 NICs, 10.0 GB/s each way per NIC"));                         // not of its PCIe link
  CHECK(has(page, "4 pairs of GPUs are linked; 33.3 GB/s each way per NVLink"));  // 100 / 3 links
  for (const char* name : {"PCIe 1", "CPU 1", "NIC 1"}) CHECK(has(page, std::string(">") + name + "</text>"));
  CHECK_FALSE(has(page, "Between nodes"));
}

}  // namespace simrun
