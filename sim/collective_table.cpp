#include "sim/collective_table.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string>

#include "schedules/timeline.h"
#include "sim/bus_bandwidth.h"
#include "sim/link_meter.h"
#include "sim/network.h"
#include "sim/worker.h"

namespace simrun {

namespace {

std::vector<std::int64_t> ranks_of(const CollectiveQuery& query, std::int64_t nodes) {
  std::vector<std::int64_t> devices;
  for (std::int64_t node = 0; node < nodes; ++node)
    for (std::int64_t gpu = 0; gpu < query.gpus_per_node; ++gpu)
      devices.push_back(node * query.cluster.gpus_per_node + gpu);
  return devices;
}

// Every rank sends to the next, all at once.
TunedCollective ring_of_transfers(const Topology& topology, const std::vector<std::int64_t>& devices) {
  TunedCollective tuned{{CollectiveAlgorithm::direct, CollectiveProtocol::simple}, {}};
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    const ExchangeFlows own = transfer_flows(topology, devices[rank], devices[(rank + 1) % devices.size()]);
    if (own.empty()) continue;
    if (tuned.flows.empty()) tuned.flows.emplace_back();
    FlowPhase& all = tuned.flows.front();
    all.latency_s = std::max(all.latency_s, own.front().latency_s);
    all.flows.insert(all.flows.end(), own.front().flows.begin(), own.front().flows.end());
  }
  return tuned;
}

// One exchange after the other; picoseconds of each, as bytes.
std::string run_in_turn(const Topology& topology,
                        const std::vector<std::vector<NetworkExchange>>& exchanges) {
  LinkMeter meter(topology.links(), {});
  Network network(topology, exchanges, meter);
  std::vector<Picoseconds> times(exchanges.size(), 0);
  Picoseconds begun = 0;
  const auto post = [&](std::size_t row) {
    while (row < exchanges.size() && !network.carries(static_cast<Index>(row), 0)) ++row;
    if (row < exchanges.size()) network.post(static_cast<Index>(row), 0, begun, static_cast<Index>(row));
  };
  post(0);
  network.run([&](Index row, Picoseconds end) {
    times[row] = end - begun;
    begun = end;
    post(std::size_t{row} + 1);
  });
  std::string bytes(times.size() * sizeof(Picoseconds), '\0');
  std::memcpy(bytes.data(), times.data(), bytes.size());
  return bytes;
}

}  // namespace

TunedCollective collective_of(const CollectiveQuery& query, const Topology& topology, std::int64_t nodes,
                              std::int64_t bytes) {
  const std::vector<std::int64_t> devices = ranks_of(query, nodes);
  if (query.opcode == Opcode::send) return ring_of_transfers(topology, devices);
  return tuned_collective(topology, query.cluster, query.opcode, devices, static_cast<double>(bytes));
}

std::vector<CollectiveRow> collective_table(const CollectiveQuery& query) {
  assert(query.gpus_per_node <= query.cluster.gpus_per_node && "more GPUs than a node has");
  const Topology topology(query.cluster);
  std::vector<CollectiveRow> rows;
  std::vector<std::vector<NetworkExchange>> exchanges;
  for (const std::int64_t nodes : query.nodes)
    for (const std::int64_t bytes : query.bytes) {
      TunedCollective tuned = collective_of(query, topology, nodes, bytes);
      rows.push_back({nodes, nodes * query.gpus_per_node, bytes, tuned.choice, 0, 0, 0});
      exchanges.push_back({{std::move(tuned.flows), static_cast<double>(bytes)}});
    }
  const std::string times = run_in_worker([&] { return run_in_turn(topology, exchanges); });
  for (std::size_t row = 0; row < rows.size(); ++row) {
    Picoseconds time = 0;
    std::memcpy(&time, times.data() + row * sizeof time, sizeof time);
    CollectiveRow& of = rows[row];
    of.time_s = to_seconds(time);
    of.algbw = time > 0 ? static_cast<double>(of.bytes) / of.time_s : 0;
    of.busbw = of.algbw * bus_factor(query.opcode, static_cast<double>(of.ranks));
  }
  return rows;
}

}  // namespace simrun
