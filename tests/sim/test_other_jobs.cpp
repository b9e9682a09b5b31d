// Another job's periodic traffic beside the plan's own.
#include <catch2/catch.hpp>
#include <sstream>

#include "sim/network.h"
#include "sim/other_jobs.h"
#include "sim/simulate.h"
#include "sim/worker.h"
#include "tests/sim/random_plan.h"

namespace simrun {
namespace {

constexpr Picoseconds us = 1'000'000;

// Nodes of two GPUs with a NIC each; 1 byte per picosecond everywhere, no latency.
Cluster cluster_of_nodes(std::int64_t nodes) {
  Cluster cluster;
  cluster.nodes = nodes;
  cluster.gpus_per_node = cluster.nics_per_node = 2;
  cluster.intra_node = cluster.inter_node = {1e12, 0, 1};
  return cluster;
}

// Node 0 to node 1; `megabytes` over each of its two NICs.
OtherJob copier(double megabytes, double period_s, double phase_s) {
  return {.name = "copier",
          .from = {0},
          .to = {1},
          .bytes = 2e6 * megabytes,
          .period_s = period_s,
          .phase_s = phase_s};
}

struct Outcome {
  Picoseconds end = 0;                  // of the transfer
  double bytes = 0;                     // over the first NIC
  Picoseconds busy = 0, contended = 0;  // of it
};

// A transfer of so many megabytes from GPU 0 to GPU 2, beside the other job.
Outcome transfer(const OtherJob& job, Picoseconds at, double megabytes) {
  const std::string text = run_in_worker([&] {
    Cluster cluster = cluster_of_nodes(2);
    cluster.imperfections.other_jobs = {job};
    const Topology topology(cluster);
    CarriedTraffic carried;
    TrafficAppender appender(topology, carried);
    carried.exchanges = {{appender.append({transfer_flows(topology, 0, 2), 1e6 * megabytes})}};
    for (const PeriodicExchange& other : other_jobs_traffic(topology, cluster))
      carried.periodic.push_back({appender.append(other.exchange), other.period, other.phase});
    LinkMeter meter(topology.links(), {});
    Network network(topology, std::move(carried), meter);
    network.post(0, 0, at, 0);
    Picoseconds end = -1;
    network.run([&](Index, Picoseconds date) { end = date; });
    const LinkMeter::Link& nic = meter.at(topology.route(0, 2).link.front());
    std::ostringstream out;
    out << end << " " << nic.bytes << " " << nic.busy << " " << nic.contended;
    return out.str();
  });
  Outcome outcome;
  std::istringstream(text) >> outcome.end >> outcome.bytes >> outcome.busy >> outcome.contended;
  return outcome;
}

// Stages on nodes of two GPUs each, which send to one another and reduce.
Plan on_nodes(unsigned seed) {
  Plan plan = random_plan(seed, {us, true});
  plan.cluster.nodes = static_cast<std::int64_t>(plan.stages.size());
  plan.cluster.gpus_per_node = plan.cluster.nics_per_node = 2;
  return plan;
}

}  // namespace

TEST_CASE("another job takes half of a link whenever it comes, and gives it back") {
  // 1 MB from 2 us, 7 us and 12 us on. 0 to 2 us: 2 MB move; at half the rate until 4: 3; until 7: 6; until
  // 9: 7; until 12: 10.
  const Outcome outcome = transfer(copier(1, 5e-6, 2e-6), 0, 10);
  CHECK(outcome.end == 12 * us);
  CHECK(outcome.bytes == Approx(12e6));  // what the other job moves after the end is not counted
  CHECK(outcome.busy == 12 * us);
  CHECK(outcome.contended == 4 * us);
}

TEST_CASE("another job that is not over after its period goes on at once") {
  // 6 MB every 5 us: 0 to 6, then from 6 on. 1 MB at 7 us has half until 9. Of the second 6 MB 1 + 1 have
  // moved.
  const Outcome outcome = transfer(copier(6, 5e-6, 0), 7 * us, 1);
  CHECK(outcome.end == 9 * us);
  CHECK(outcome.bytes == Approx(6e6 + 2e6 + 1e6));
  CHECK(outcome.busy == 9 * us);
}

TEST_CASE("another job that begins after the end is not heard of") {
  CHECK(transfer(copier(6, 5e-6, 20e-6), 0, 10).end == 10 * us);
  CHECK(transfer(copier(6, 5e-6, 10e-6), 0, 10).bytes == Approx(10e6));
}

TEST_CASE("a job that copies from several nodes holds up none for another") {
  // Nodes 0 to 1 and 2 to 3, 4 MB per NIC from 0 on; those of node 2 have a tenth of the rate. A transfer
  // from 0 to 1 shares its NIC until the first copy is over: 4 MB of each until 8 us, and 2 MB until 10. Were
  // the copies to keep pace, each would take 0.1 of node 0's NIC.
  const std::string text = run_in_worker([&] {
    Cluster cluster = cluster_of_nodes(4);
    cluster.imperfections.links = {{.name = "worn", .pattern = "node2.nic*.tx", .bandwidth_share = 0.1}};
    cluster.imperfections.other_jobs = {
        {.name = "copier", .from = {0, 2}, .to = {1, 3}, .bytes = 8e6, .period_s = 1}};
    const Topology topology(cluster);
    CarriedTraffic carried;
    TrafficAppender appender(topology, carried);
    carried.exchanges = {{appender.append({transfer_flows(topology, 0, 2), 6e6})}};
    for (const PeriodicExchange& other : other_jobs_traffic(topology, cluster))
      carried.periodic.push_back({appender.append(other.exchange), other.period, other.phase});
    LinkMeter meter(topology.links(), {});
    Network network(topology, std::move(carried), meter);
    network.post(0, 0, 0, 0);
    Picoseconds end = -1;
    network.run([&](Index, Picoseconds date) { end = date; });
    return std::to_string(end);
  });
  CHECK(text == std::to_string(10 * us));
}

TEST_CASE("the other job's collective is carried out as the job's own would be") {
  Cluster cluster = cluster_of_nodes(4);
  cluster.imperfections.other_jobs = {
      {.name = "trainer", .nodes = {3, 1}, .collective = "all_gather", .bytes = 8e6, .period_s = 1e-3}};
  const Topology topology(cluster);
  const std::vector<PeriodicExchange> others = other_jobs_traffic(topology, cluster);
  REQUIRE(others.size() == 1);
  CHECK(others[0].period == 1000 * us);
  CHECK(others[0].exchange.bytes == 8e6);
  const std::vector<std::int64_t> gpus{2, 3, 6, 7};
  const ExchangeFlows own = collective_flows(topology, cluster, Opcode::all_gather, gpus, 8e6);
  REQUIRE(others[0].exchange.flows().size() == own.size());
  CHECK(lockstep_seconds(topology, {&others[0].exchange.flows(), 1}, 8e6) ==
        lockstep_seconds(topology, {&own, 1}, 8e6));
}

TEST_CASE("where another job meets the plan SimGrid is the engine, and elsewhere nothing changes", "[long]") {
  constexpr SimulateOptions unasked{Detail::totals, EngineChoice::automatic};
  int slower = 0;
  for (unsigned seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    Plan plan = on_nodes(seed);
    const Timeline before = simulate(plan, unasked);
    const std::int64_t own = plan.cluster.nodes;
    plan.cluster.nodes += 2;  // the plan has no part of these
    plan.cluster.imperfections.other_jobs = {
        {.name = "far", .nodes = {own, own + 1}, .bytes = 1e6, .period_s = 10e-6}};
    CHECK(simulate(plan, unasked).step == before.step);
    CHECK(simulate(plan, {Detail::totals, EngineChoice::fast}).engine == "fast");
    if (own < 2) continue;
    plan.cluster.imperfections.other_jobs = {
        {.name = "near", .nodes = {0, 1}, .collective = "all_to_all", .bytes = 1e6, .period_s = 2e-6}};
    const Timeline beside = simulate(plan, unasked);
    CHECK(simulate(plan, unasked) == beside);
    slower += beside.step > before.step ? 1 : 0;
    if (beside.engine == "simgrid")
      CHECK_THROWS_WITH(simulate(plan, {Detail::totals, EngineChoice::fast}),
                        Catch::StartsWith("imperfections.other_jobs:"));
  }
  CHECK(slower >= 5);
}

}  // namespace simrun
