#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "schedules/compile.h"
#include "sim/server_flows.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

// What parameter servers cost in time, on which links, and where they keep what.
namespace simrun {
namespace {

using Overrides = std::vector<Override>;
constexpr auto data = static_cast<std::size_t>(Traffic::data);

Overrides operator+(Overrides a, const Overrides& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// One GPU per node, each with a NIC of 10 GB/s and no latency: no norm, one bucket.
const Overrides one_bucket = {{"cluster.gpus_per_node", "1"},
                              {"cluster.nics_per_node", "1"},
                              {"cluster.inter_node", "{bandwidth: 10 GB/s, latency: 0 us, efficiency: 1}"},
                              {"training.precision", "fp32"},
                              {"training.global_batch_size", "24"},
                              {"optimizer.clip_grad", "0"},
                              {"optimizer.bucket_size", "1000000000"}};

Overrides servers(int count, const char* placement, const char* mode = "synchronous") {
  return {{"optimizer.parameter_server.servers", std::to_string(count)},
          {"optimizer.parameter_server.placement", placement},
          {"optimizer.parameter_server.mode", mode}};
}
Overrides bounded(int count, const char* placement, int staleness) {
  return servers(count, placement, "bounded_staleness") +
         Overrides{{"optimizer.parameter_server.staleness", std::to_string(staleness)}};
}

Plan plan_of(int nodes, const Overrides& overrides) {
  return compile(job_from(small_gpt(1, 1, 1, nodes), one_bucket + overrides));
}
Timeline run(const Plan& plan, EngineChoice engine) {
  return simulate(plan, {.detail = Detail::totals, .engine = engine});
}
double in_seconds(Picoseconds time) { return static_cast<double>(time) * 1e-12; }

// Bytes of all weights, as they are pushed and pulled: padded to the servers' equal parts.
double weight_bytes(const Plan& plan) {
  return static_cast<double>(plan.job.parameter_servers->servers *
                             plan.job.parameter_servers->bytes_per_server);
}

std::map<std::string, std::int64_t> bytes_of_links(const Timeline& timeline) {
  std::map<std::string, std::int64_t> bytes;
  for (const LinkTimeline& link : timeline.links) bytes[link.name] = link.bytes;
  return bytes;
}

}  // namespace

TEST_CASE("one dedicated server: a step is compute, n M / B in, the update, and n M / B out") {
  const auto engine = GENERATE(EngineChoice::fast, EngineChoice::simgrid);
  const int workers = GENERATE(2, 4);
  CAPTURE(workers, engine == EngineChoice::fast);
  const Plan plan = plan_of(workers + 1, servers(1, "dedicated"));
  const Timeline timeline = run(plan, engine);
  const double incast = workers * weight_bytes(plan) / 10e9;
  const RankTimeline& worker = timeline.ranks.front();
  const RankTimeline& server = timeline.ranks.back();
  CHECK(in_seconds(timeline.step) ==
        Approx(in_seconds(worker.totals.compute) + in_seconds(server.totals.compute) + 2 * incast)
            .epsilon(1e-9));
  // The worker's own NIC would carry it in a n-th of the time.
  CHECK(in_seconds(worker.totals.exposed[data]) == Approx(2 * incast).epsilon(1e-9));
}

TEST_CASE("k dedicated servers each take n M / k, in and out") {
  for (const int k : {1, 2, 4}) {
    const Plan plan = plan_of(4 + k, servers(k, "dedicated"));
    const Timeline timeline = run(plan, EngineChoice::fast);
    const double part = 4 * weight_bytes(plan) / k;
    CAPTURE(k);
    CHECK(in_seconds(timeline.ranks.front().totals.exposed[data]) == Approx(2 * part / 10e9).epsilon(1e-9));
    // The servers' links, which come before their workers' where those carry less.
    CHECK(static_cast<double>(timeline.links[0].bytes) == Approx(part));
    CHECK(timeline.links[0].name == (k == 4 ? "node0.nic0.rx" : "node4.nic0.rx"));
    CHECK(timeline.links[0].multiplicity == (k == 4 ? 8 : k));
  }
}

TEST_CASE("a server on every worker moves as many bytes over a NIC as a ring all-reduce: 2 M (n-1) / n") {
  const auto engine = GENERATE(EngineChoice::fast, EngineChoice::simgrid);
  const int n = GENERATE(2, 3, 4);
  const Plan served = plan_of(n, servers(n, "colocated"));
  const Timeline with_servers = run(served, engine), ring = run(plan_of(n, {}), engine);
  const double expected = 2 * weight_bytes(served) * (n - 1) / n;
  CAPTURE(n);
  for (const Timeline* timeline : {&with_servers, &ring})
    for (const LinkTimeline& link : timeline->links)
      CHECK(static_cast<double>(link.bytes) == Approx(expected).epsilon(1e-4));
  CHECK(in_seconds(with_servers.ranks[0].totals.exposed[data]) == Approx(expected / 10e9).epsilon(1e-4));
}

TEST_CASE("fewer colocated servers than workers: a server's link takes what n - 1 others send it") {
  const auto engine = GENERATE(EngineChoice::fast, EngineChoice::simgrid);
  const Plan plan = plan_of(4, servers(2, "colocated"));  // on workers 0 and 2
  const Timeline timeline = run(plan, engine);
  const double m = weight_bytes(plan);
  std::map<std::string, std::int64_t> bytes = bytes_of_links(timeline);
  // In: 3 workers' pushes of M/2, and the pull of the other server's M/2.
  CHECK(static_cast<double>(bytes["node0.nic0.rx"]) == Approx(2 * m));
  CHECK(static_cast<double>(bytes["node1.nic0.rx"]) == Approx(m));
  CHECK(in_seconds(timeline.ranks[0].totals.exposed[data]) == Approx(2 * 1.5 * m / 10e9).epsilon(1e-9));
}

TEST_CASE("buckets in turn: one is pulled while the next is pushed, over the two directions of a NIC") {
  const Plan whole = plan_of(5, servers(1, "dedicated"));
  const Plan pieces = plan_of(5, servers(1, "dedicated") + Overrides{{"optimizer.bucket_size", "1000000"}});
  const double incast = 4 * weight_bytes(whole) / 10e9;
  const double exposed_whole = in_seconds(run(whole, EngineChoice::fast).ranks[0].totals.exposed[data]);
  const double exposed_pieces = in_seconds(run(pieces, EngineChoice::fast).ranks[0].totals.exposed[data]);
  CHECK(exposed_whole == Approx(2 * incast).epsilon(1e-9));
  // All pushes in turn, then the last bucket's pull. Word embeddings, 51200 x 1024 of 66 M, are the largest.
  CHECK(exposed_pieces > incast);
  CHECK(exposed_pieces < 1.9 * incast);
}

TEST_CASE("only servers keep the optimizer's state") {
  constexpr auto optimizer = static_cast<std::size_t>(Category::optimizer);
  const auto state = [](const Timeline& timeline) {
    std::vector<std::pair<std::int64_t, std::int64_t>> found;  // GPUs, bytes of moments
    for (const RankTimeline& rank : timeline.ranks)
      found.emplace_back(rank.multiplicity, rank.peak.live[optimizer]);
    return found;
  };
  const Plan dedicated = plan_of(6, servers(2, "dedicated"));
  // Adam in fp32: two moments of as many bytes as the weights of a server's half.
  const std::int64_t moments = 2 * dedicated.job.parameter_servers->bytes_per_server;
  CHECK(state(run(dedicated, EngineChoice::fast)) ==
        std::vector<std::pair<std::int64_t, std::int64_t>>{{4, 0}, {2, moments}});
  std::int64_t with_state = 0;
  for (const auto& [gpus, bytes] : state(run(plan_of(4, servers(2, "colocated")), EngineChoice::fast))) {
    CHECK((bytes == 0 || bytes == moments));
    if (bytes > 0) with_state += gpus;
  }
  CHECK(with_state == 2);
}

TEST_CASE("a longer staleness never takes longer, and no waiting at all is as fast as two steps' worth") {
  const char* const placement = GENERATE("colocated", "dedicated");
  const auto engine = GENERATE(EngineChoice::fast, EngineChoice::simgrid);
  const auto step = [&](const Overrides& overrides) {
    return run(plan_of(6, Overrides{{"training.global_batch_size", "240"}} + overrides), engine).step;
  };
  const Picoseconds synchronous = step(servers(2, placement));
  std::vector<Picoseconds> steps{synchronous};
  for (const int staleness : {1, 2, 3}) steps.push_back(step(bounded(2, placement, staleness)));
  CAPTURE(placement, steps);
  CHECK(steps[1] < steps[0]);
  CHECK(steps[2] < steps[1]);
  CHECK(steps[3] == steps[2]);
  CHECK(step(servers(2, placement, "asynchronous")) <= synchronous);
}

TEST_CASE("behind two steps the network has a whole step for what it moves") {
  // Four workers push n M / B = 4 M / B to one server and pull as much beside their passes.
  const Plan plan = plan_of(5, bounded(1, "dedicated", 2));
  const Timeline timeline = run(plan, EngineChoice::fast);
  const double incast = 4 * weight_bytes(plan) / 10e9;
  const RankTimeline& worker = timeline.ranks.front();
  const RankTimeline& server = timeline.ranks.back();
  // 24 sequences on 4 workers compute less than that: what is left of the step is the wait for the network,
  // the copies behind it, or the server's update.
  const double compute = in_seconds(worker.totals.compute);
  CHECK(compute < incast);
  CHECK(in_seconds(timeline.step) > incast);
  CHECK(in_seconds(timeline.step) < incast + compute + in_seconds(server.totals.compute));
}

TEST_CASE("asynchronous servers update once for each worker") {
  const auto update = [](const char* mode, int workers) {
    return in_seconds(run(plan_of(workers + 1, servers(1, "dedicated", mode)), EngineChoice::fast)
                          .ranks.back()
                          .totals.compute);
  };
  // Up to the launch of the kernel, which is paid once.
  CHECK(update("asynchronous", 4) == Approx(4 * update("synchronous", 4)).epsilon(1e-2));
}

TEST_CASE("flows between workers and servers: every pair, or by node where pairs are many, the same bytes") {
  Cluster cluster =  // 512 GPUs
      job_from(small_gpt(1, 1, 1, 64), {{"training.global_batch_size", "1024"}}).cluster;
  cluster.fabric = {};
  const Topology topology(cluster);
  std::vector<std::int64_t> devices(512);
  for (std::size_t i = 0; i < devices.size(); ++i) devices[i] = static_cast<std::int64_t>(i);
  ServerGroup servers{devices, false, false};  // 512 x 512 pairs are more than 2^16
  for (const Opcode opcode : {Opcode::push, Opcode::pull}) {
    const ExchangeFlows flows = server_flows(topology, opcode, servers, devices);
    REQUIRE(flows.size() == 1);
    std::map<LinkIndex, double> loads;
    for (const SharedFlow& flow : flows[0].flows)
      for (const LinkIndex link : flow.route.links()) loads[link] += flow.share;
    for (const auto& [link, load] : loads) {
      const bool is_nic = topology.name(link).find("nic") != std::string::npos;
      CAPTURE(topology.name(link));
      CHECK(load == Approx(is_nic ? 504. / 512 : 7. / 512));
    }
    CHECK(loads.size() == 4 * 512);
  }
}

}  // namespace simrun
