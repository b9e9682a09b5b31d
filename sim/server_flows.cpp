#include "sim/server_flows.h"

#include <algorithm>

namespace simrun {
namespace {

constexpr std::size_t most_pairs = std::size_t{1} << 16;

bool is_server(const ServerGroup& servers, std::size_t place) {
  return std::binary_search(servers.members.begin(), servers.members.end(), static_cast<std::int64_t>(place));
}

class FlowWriter {
 public:
  FlowWriter(const Topology& topology, Opcode opcode, std::span<const std::int64_t> servers)
      : topology_(topology), pushes_(opcode == Opcode::push), servers_(servers) {}

  void add_worker(std::int64_t worker) {
    for (const std::int64_t server : servers_) add(worker, server, 1);
  }

  // One flow for all servers of a node but the worker itself.
  void add_worker_by_node(std::int64_t worker, std::size_t turn) {
    for (std::size_t first = 0, end = 0; first < servers_.size(); first = end) {
      const std::int64_t node = topology_.node_of(servers_[first]);
      while (end < servers_.size() && topology_.node_of(servers_[end]) == node) ++end;
      const std::span<const std::int64_t> own = servers_.subspan(first, end - first);
      const bool is_one = std::find(own.begin(), own.end(), worker) != own.end();
      std::int64_t server = own[turn % own.size()];
      if (server == worker) server = own[(turn + 1) % own.size()];
      add(worker, server, own.size() - (is_one ? 1 : 0));
    }
  }

  ExchangeFlows flows() && {
    if (phase_.flows.empty()) return {};
    return {std::move(phase_)};
  }

 private:
  void add(std::int64_t worker, std::int64_t server, std::size_t parts) {
    if (worker == server || parts == 0) return;
    const Route route = pushes_ ? topology_.route(worker, server) : topology_.route(server, worker);
    phase_.latency_s = std::max(phase_.latency_s, route.latency_s);
    phase_.flows.push_back({route, static_cast<double>(parts) / static_cast<double>(servers_.size()),
                            static_cast<std::uint32_t>(parts)});
  }

  const Topology& topology_;
  const bool pushes_;
  const std::span<const std::int64_t> servers_;
  FlowPhase phase_;
};

}  // namespace

std::vector<std::int64_t> server_devices(const ServerGroup& servers, std::span<const std::int64_t> devices) {
  std::vector<std::int64_t> found;
  for (std::size_t place = 0; place < devices.size(); ++place)
    if (is_server(servers, place)) found.push_back(devices[place]);
  return found;
}

std::vector<std::int64_t> worker_devices(const ServerGroup& servers, std::span<const std::int64_t> devices) {
  std::vector<std::int64_t> found;
  for (std::size_t place = 0; place < devices.size(); ++place)
    if (!servers.dedicated || !is_server(servers, place)) found.push_back(devices[place]);
  return found;
}

ExchangeFlows server_flows(const Topology& topology, Opcode opcode, const ServerGroup& servers,
                           std::span<const std::int64_t> devices) {
  const std::vector<std::int64_t> to = server_devices(servers, devices);
  const std::vector<std::int64_t> workers = worker_devices(servers, devices);
  if (to.empty()) return {};
  const bool every_pair = workers.size() <= most_pairs / to.size();
  FlowWriter writer(topology, opcode, to);
  for (std::size_t w = 0; w < workers.size(); ++w)
    every_pair ? writer.add_worker(workers[w]) : writer.add_worker_by_node(workers[w], w);
  return std::move(writer).flows();
}

ExchangeFlows one_sided_flows(const Topology& topology, Opcode opcode, std::int64_t worker,
                              std::span<const std::int64_t> servers) {
  FlowWriter writer(topology, opcode, servers);
  writer.add_worker(worker);
  return std::move(writer).flows();
}

}  // namespace simrun
