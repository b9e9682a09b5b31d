// Networks that are too large for a pencil: against a slow solver, twice, one after the other, many at once.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <random>
#include <stdexcept>

#include "tests/sim/flow_worker.h"

namespace simrun {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

// Max-min fair rates by progressive filling: the link that offers its flows least fixes them, until none is
// left.
std::vector<double> fair_rates(const TestNetwork& network, const std::vector<bool>& alive) {
  std::vector<double> rates(network.flows.size(), -1), left = network.bandwidths;
  const auto unfixed = [&](std::size_t f) { return alive[f] && rates[f] < 0; };
  while (true) {
    std::vector<int> users(left.size(), 0);
    for (std::size_t f = 0; f < rates.size(); ++f)
      for (const LinkNumber link : network.flows[f].links) users[link] += unfixed(f) ? 1 : 0;
    std::size_t tightest = left.size();
    for (std::size_t link = 0; link < left.size(); ++link)
      if (users[link] > 0 &&
          (tightest == left.size() || left[link] / users[link] < left[tightest] / users[tightest]))
        tightest = link;
    if (tightest == left.size()) return rates;
    const double share = left[tightest] / users[tightest];
    for (std::size_t f = 0; f < rates.size(); ++f) {
      const std::vector<LinkNumber>& links = network.flows[f].links;
      if (!unfixed(f) || std::find(links.begin(), links.end(), tightest) == links.end()) continue;
      rates[f] = share;
      for (const LinkNumber link : links) left[link] = std::max(0.0, left[link] - share);
    }
  }
}

// Event by event: constant rates until the next start or end.
std::vector<double> reference_ends(const TestNetwork& network) {
  const std::size_t count = network.flows.size();
  std::vector<double> left(count), ends(count, -1);
  for (std::size_t f = 0; f < count; ++f) left[f] = network.flows[f].bytes;
  double now = 0;
  while (true) {
    std::vector<bool> alive(count);
    double next = never;
    for (std::size_t f = 0; f < count; ++f) {
      alive[f] = ends[f] < 0 && network.flows[f].date <= now;
      if (ends[f] < 0 && !alive[f]) next = std::min(next, network.flows[f].date);
    }
    const std::vector<double> rates = fair_rates(network, alive);
    for (std::size_t f = 0; f < count; ++f)
      if (alive[f]) next = std::min(next, now + left[f] / rates[f]);
    if (next == never) return ends;
    for (std::size_t f = 0; f < count; ++f) {
      if (!alive[f]) continue;
      const bool ended = now + left[f] / rates[f] <= next * (1 + 1e-14);
      left[f] = ended ? 0 : left[f] - rates[f] * (next - now);
      if (ended) ends[f] = next;
    }
    now = next;
  }
}

// Bandwidths over three decades, routes of 1 to 4 links, and often the same bytes or dates, so that events
// coincide.
TestNetwork random_network(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&random](std::uint64_t end) { return random() % end; };
  TestNetwork network;
  const std::uint64_t links = 1 + below(12);
  for (std::uint64_t i = 0; i < links; ++i)
    network.bandwidths.push_back(1e9 * std::pow(10.0, static_cast<double>(below(7)) / 2));
  const std::uint64_t flows = 1 + below(40);
  for (std::uint64_t i = 0; i < flows; ++i) {
    TestFlow flow;
    for (std::uint64_t hops = 1 + below(4); hops > 0; --hops) {
      const LinkNumber link = static_cast<LinkNumber>(below(links));
      if (std::find(flow.links.begin(), flow.links.end(), link) == flow.links.end())
        flow.links.push_back(link);
    }
    flow.bytes = below(3) == 0 ? 1e9 : 1e6 + static_cast<double>(below(4'000'000'000));
    flow.date = static_cast<double>(below(4)) * 0.125 +
                (below(2) == 0 ? 0 : 1e-9 * static_cast<double>(below(1'000'000'000)));
    network.flows.push_back(flow);
  }
  return network;
}

double resident_megabytes() {
  long total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1048576;
}

}  // namespace

TEST_CASE("random networks: every end is that of a slow max-min solver, by either of SimGrid's ways",
          "[long]") {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const TestNetwork network = random_network(seed);
    const std::vector<double> expected = reference_ends(network);
    std::vector<std::vector<double>> found;
    for (const FlowSolver solver : flow_solvers()) found.push_back(ends_of(solver, network));
    for (const std::vector<double>& ends : found) REQUIRE(ends.size() == expected.size());
    for (std::size_t f = 0; f < expected.size(); ++f) {
      CAPTURE(seed, f, found.front()[f], found.back()[f], expected[f]);
      REQUIRE(std::abs(found.front()[f] - expected[f]) <= 1e-9 * expected[f]);
      REQUIRE(std::abs(found.front()[f] - found.back()[f]) <= 1e-9 * expected[f]);
    }
  }
}

TEST_CASE("the same calls give the same dates to the last bit") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  for (std::uint64_t seed = 1000; seed < 1010; ++seed) {
    const TestNetwork network = random_network(seed);
    CHECK(ends_of(solver, network) == ends_of(solver, network));
  }
}

TEST_CASE("100,000 flows one after the other take no memory") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  // Two at a time share 50 GB/s: 100,000 x 1 MB / 50 GB/s = 2 s.
  const std::vector<double> result = in_worker([solver] {
    FlowEngine engine(solver);
    const LinkNumber link = engine.link(50e9);
    const auto start = [&](FlowNumber flow) { engine.start({&link, 1}, 1e6, engine.now(), flow); };
    FlowNumber next = 0;
    double early = 0;
    for (; next < 2; ++next) start(next);
    engine.run(
        [&](FlowNumber) {
          if (next == 10'000) early = resident_megabytes();
          if (next < 100'000) start(next++);
        },
        [] {});
    return std::vector<double>{engine.now(), resident_megabytes() - early};
  });
  CHECK(result.at(0) == Approx(2).epsilon(1e-9));
#ifndef SIMRUN_ADDRESS_SANITIZER  // it keeps what was freed
  CHECK(result.at(1) < 2);        // MiB
#endif
}

TEST_CASE("2,000 flows at once: an all-to-all between 45 ports") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  // Each port sends and receives 44 x 1 GB at 50 GB/s.
  TestNetwork network{std::vector<double>(90, 50e9), {}};
  for (LinkNumber from = 0; from < 45; ++from)
    for (LinkNumber to = 0; to < 45; ++to)
      if (from != to) network.flows.push_back({{from, 45 + to}, 1e9});
  for (const double end : ends_of(solver, network)) CHECK(end == Approx(0.88).epsilon(1e-9));
}

TEST_CASE("2,000 flows at once, each with an end of its own") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  // 50 links of 40 flows of 1, 2 .. 40 MB: flow k ends when every flow has min(its bytes, k MB) behind it:
  // (1 + .. + k + (40 - k) k) MB / 50 GB/s.
  TestNetwork network{std::vector<double>(50, 50e9), {}};
  for (LinkNumber link = 0; link < 50; ++link)
    for (int k = 1; k <= 40; ++k) network.flows.push_back({{link}, k * 1e6});
  const std::vector<double> ends = ends_of(solver, network);
  for (std::size_t f = 0; f < ends.size(); ++f) {
    const double k = static_cast<double>(1 + f % 40);
    CHECK(ends[f] == Approx((k * (k + 1) / 2 + (40 - k) * k) * 1e6 / 50e9).epsilon(1e-9));
  }
}

TEST_CASE("a chain of 100,000 flows and links does not overflow the stack", "[long]") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  // Flow i crosses links i and i + 1; the solver recurses along them. At 0.01 s half of the second has moved.
  const std::vector<double> left = in_worker([solver] {
    constexpr LinkNumber count = 100'000;
    FlowEngine engine(solver);
    for (LinkNumber i = 0; i <= count; ++i) engine.link(50e9);
    for (LinkNumber i = 0; i < count; ++i) engine.start(std::array{i, i + 1}, 0.5e9, 0, i);
    engine.wake(0.01);
    std::vector<double> result;
    try {
      engine.run([](FlowNumber) {},
                 [&] {
                   for (const FlowNumber flow : {0, 1, 50'000, 99'999})
                     result.push_back(engine.remaining(flow));
                   throw std::range_error("seen enough");
                 });
    } catch (const std::range_error&) {
    }
    return result;
  });
  REQUIRE(left.size() == 4);
  for (const double bytes : left) CHECK(bytes == Approx(0.25e9).epsilon(1e-9));  // 0.5 - 0.01 x 25
}

}  // namespace simrun
