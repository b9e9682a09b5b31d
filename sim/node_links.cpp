#include "sim/node_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace simrun {

namespace {

double effective(const LinkClass& link) { return link.bandwidth * link.efficiency; }

std::size_t at(std::int64_t number) { return static_cast<std::size_t>(number); }

std::uint32_t link_number(std::int64_t pair, bool back) {
  return static_cast<std::uint32_t>(2 * pair + (back ? 1 : 0));
}

}  // namespace

void NodeLinks::Table::add(const Way& way, double seconds) {
  links.insert(links.end(), way.begin(), way.end());
  start.push_back(static_cast<std::uint32_t>(links.size()));
  latency_s.push_back(seconds);
}

void NodeLinks::Table::append(std::size_t number, LinkIndex first, Route& route) const {
  for (std::uint32_t i = start[number]; i < start[number + 1]; ++i) route.link.push_back(first + links[i]);
  route.latency_s += latency_s[number];
}

NodeLinks::NodeLinks(const Cluster& cluster, std::int64_t ports)
    : topology_(cluster.wiring.topology),
      gpus_(std::max<std::int64_t>(cluster.gpus_per_node, 1)),
      nvlink_(cluster.intra_node),
      pcie_link_(cluster.wiring.pcie.link),
      socket_link_(cluster.wiring.pcie.socket_link),
      mesh_(topology_ == IntraNodeTopology::nvlink_mesh ? cluster.wiring.nvlinks : std::vector<NvlinkPair>{}),
      relay_(cluster.wiring.relay),
      pcie_(cluster.wiring.pcie) {
  std::vector<std::int64_t> links(at(gpus_), 0);
  for (const NvlinkPair& pair : mesh_) {
    links.at(at(pair.first)) += pair.links;
    links.at(at(pair.second)) += pair.links;
  }
  most_links_ = std::max<std::int64_t>(*std::max_element(links.begin(), links.end()), 1);
  for (const std::int64_t socket : pcie_.switch_sockets) sockets_ = std::max(sockets_, socket + 1);
  number_pairs(cluster, ports);
  choose_ports(pcie_, ports);
  tabulate(cluster);
}

void NodeLinks::number_pairs(const Cluster& cluster, std::int64_t ports) {
  const bool is_tree = !cluster.wiring.pcie.empty();
  gpu_pair_ = is_switched() ? gpus_ : static_cast<std::int64_t>(mesh_.size());
  port_pair_ = gpu_pair_ + (is_tree ? gpus_ : 0);
  switch_pair_ = port_pair_ + (is_tree ? ports : 0);
  socket_pair_ = switch_pair_ + static_cast<std::int64_t>(pcie_.switch_sockets.size());
}

// The nearest port: on the GPU's switch, else on its socket. Among equally near ones the one that the GPU has
// by its number if it is one of them, else in turn.
void NodeLinks::choose_ports(const PcieTree& pcie, std::int64_t ports) {
  for (std::int64_t gpu = 0; gpu < gpus_; ++gpu) {
    const std::int64_t usual = gpu * ports / gpus_;
    port_of_.push_back(usual);
    if (pcie.empty()) continue;
    const auto distance = [&](std::int64_t port) {
      const std::int64_t own = gpu_place(gpu).on_switch, other = port_place(port).on_switch;
      return own == other ? 0 : pcie.switch_sockets.at(at(own)) == pcie.switch_sockets.at(at(other)) ? 1 : 2;
    };
    std::vector<std::int64_t> nearest;
    for (std::int64_t port = 0, least = 3; port < ports; ++port) {
      if (distance(port) > least) continue;
      if (distance(port) < least) nearest.clear();
      least = distance(port);
      nearest.push_back(port);
    }
    if (std::find(nearest.begin(), nearest.end(), usual) == nearest.end())
      port_of_.back() = nearest.at(at(gpu) % nearest.size());
  }
}

void NodeLinks::tabulate(const Cluster& cluster) {
  if (!is_switched())
    for (std::int64_t from = 0; from < gpus_; ++from)
      for (std::int64_t to = 0; to < gpus_; ++to) add_gpu_way(from, to);
  if (pcie_.empty()) return;
  const bool through_host = !cluster.wiring.gpu_direct;
  for (std::int64_t gpu = 0; gpu < gpus_; ++gpu) {
    const Place own = gpu_place(gpu), port = port_place(port_of(gpu));
    // What a NIC reads by itself is in inter_node's latency.
    const double latency_s = through_host ? pcie_latency(own, port, true) : 0;
    leave_.add(pcie_way(own, port, through_host), latency_s);
    enter_.add(pcie_way(port, own, through_host), latency_s);
  }
}

std::int64_t NodeLinks::mesh_pair(std::int64_t a, std::int64_t b) const {
  const auto [low, high] = std::minmax(a, b);
  for (std::size_t pair = 0; pair < mesh_.size(); ++pair)
    if (mesh_[pair].first == low && mesh_[pair].second == high) return static_cast<std::int64_t>(pair);
  return -1;
}

// The GPU with links to both of which the thinner is thickest, and of several the first; -1: none.
std::int64_t NodeLinks::relay_between(std::int64_t a, std::int64_t b) const {
  std::int64_t best = -1, thickest = 0;
  for (std::int64_t gpu = 0; gpu < gpus_; ++gpu) {
    const std::int64_t in = mesh_pair(a, gpu), out = mesh_pair(gpu, b);
    if (in < 0 || out < 0) continue;
    const std::int64_t thinner = std::min(mesh_[at(in)].links, mesh_[at(out)].links);
    if (thinner <= thickest) continue;
    best = gpu;
    thickest = thinner;
  }
  return best;
}

std::uint32_t NodeLinks::mesh_link(std::int64_t from, std::int64_t to) const {
  return link_number(mesh_pair(from, to), from > to);
}

void NodeLinks::add_gpu_way(std::int64_t from, std::int64_t to) {
  if (from == to) return between_.add({}, 0);
  if (mesh_pair(from, to) >= 0) return between_.add({mesh_link(from, to)}, nvlink_.latency_s);
  const std::int64_t relay = relay_between(from, to);
  if (relay >= 0 && (relay_ || pcie_.empty()))
    return between_.add({mesh_link(from, relay), mesh_link(relay, to)}, 2 * nvlink_.latency_s);
  assert(!pcie_.empty() && "two GPUs of a node that nothing connects: the loader and lint() refuse them");
  const Place own = gpu_place(from), other = gpu_place(to);
  between_.add(pcie_way(own, other, false), pcie_latency(own, other, false));
}

NodeLinks::Place NodeLinks::gpu_place(std::int64_t gpu) const {
  return {gpu_pair_ + gpu, pcie_.gpu_switches.at(at(gpu))};
}

// Several NICs that make a port are on the switch of the first.
NodeLinks::Place NodeLinks::port_place(std::int64_t port) const {
  const auto nics = static_cast<std::int64_t>(pcie_.nic_switches.size()), ports = switch_pair_ - port_pair_;
  return {port_pair_ + port, pcie_.nic_switches.at(at(port * nics / ports))};
}

std::int64_t NodeLinks::socket_pair(std::int64_t a, std::int64_t b) const {
  const auto [low, high] = std::minmax(a, b);
  return socket_pair_ + low * (2 * sockets_ - low - 1) / 2 + high - low - 1;
}

NodeLinks::Way NodeLinks::pcie_way(Place from, Place to, bool through_host) const {
  Way way{link_number(from.pair, false)};
  const std::int64_t own = pcie_.switch_sockets.at(at(from.on_switch));
  const std::int64_t other = pcie_.switch_sockets.at(at(to.on_switch));
  if (from.on_switch != to.on_switch || through_host) {
    way.push_back(link_number(switch_pair_ + from.on_switch, false));
    if (own != other) way.push_back(link_number(socket_pair(own, other), own > other));
    way.push_back(link_number(switch_pair_ + to.on_switch, true));
  }
  way.push_back(link_number(to.pair, true));
  return way;
}

double NodeLinks::pcie_latency(Place from, Place to, bool through_host) const {
  const bool crosses =
      pcie_.switch_sockets.at(at(from.on_switch)) != pcie_.switch_sockets.at(at(to.on_switch));
  return (through_host ? 2 : 1) * pcie_link_.latency_s + (crosses ? socket_link_.latency_s : 0);
}

double NodeLinks::bandwidth(std::int64_t pair) const {
  if (pair >= socket_pair_) return effective(socket_link_);
  if (pair >= gpu_pair_) return effective(pcie_link_);
  if (is_switched()) return effective(nvlink_);
  return effective(nvlink_) * static_cast<double>(mesh_[at(pair)].links) / static_cast<double>(most_links_);
}

std::string NodeLinks::name(std::int64_t pair, bool back) const {
  const char* const port = back ? "rx" : "tx";
  if (pair < gpu_pair_ && is_switched()) return fmt::format("gpu{}.nvlink_{}", pair, port);
  if (pair < gpu_pair_) {
    const auto [low, high] = std::pair(mesh_[at(pair)].first, mesh_[at(pair)].second);
    return fmt::format("gpu{}.nvlink_gpu{}", back ? high : low, back ? low : high);
  }
  if (pair < port_pair_) return fmt::format("gpu{}.pcie_{}", pair - gpu_pair_, port);
  if (pair < switch_pair_) return fmt::format("nic{}.pcie_{}", pair - port_pair_, port);
  if (pair < socket_pair_) return fmt::format("pcie{}.{}", pair - switch_pair_, back ? "down" : "up");
  for (std::int64_t low = 0; low < sockets_; ++low)
    for (std::int64_t high = low + 1; high < sockets_; ++high)
      if (socket_pair(low, high) == pair)
        return fmt::format("socket{}.socket{}", back ? high : low, back ? low : high);
  return "";
}

void NodeLinks::connect(std::int64_t from, std::int64_t to, LinkIndex first, Route& route) const {
  if (!is_switched()) return between_.append(at(from * gpus_ + to), first, route);
  route.link.push_back(first + link_number(from, false));
  route.link.push_back(first + link_number(to, true));
  route.latency_s += nvlink_.latency_s;
}

void NodeLinks::leave(std::int64_t gpu, LinkIndex first, Route& route) const {
  if (!pcie_.empty()) leave_.append(at(gpu), first, route);
}

void NodeLinks::enter(std::int64_t gpu, LinkIndex first, Route& route) const {
  if (!pcie_.empty()) enter_.append(at(gpu), first, route);
}

}  // namespace simrun
