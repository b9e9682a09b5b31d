// Flows whose dates a reader can find with a pencil. Links carry 50 GB/s and flows start at 0 unless a case
// says otherwise.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/sim/flow_worker.h"

namespace simrun {

namespace {

constexpr double gb = 1e9;
constexpr double us = 1e-6;
constexpr double bandwidth = 50 * gb;

void check_close(const std::vector<double>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i, found[i], expected[i]);
    CHECK(std::abs(found[i] - expected[i]) <= 1e-9 * std::abs(expected[i]));
  }
}

std::vector<double> links(std::size_t count) { return std::vector<double>(count, bandwidth); }

}  // namespace

TEST_CASE("one flow moves its bytes at its link's bandwidth") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  check_close(ends_of(solver, {links(1), {{{0}, 1 * gb}}}), {0.02});     // 1 / 50
  check_close(ends_of(solver, {links(1), {{{0}, 10 * gb, 3}}}), {3.2});  // 3 + 10 / 50
  check_close(ends_of(solver, {links(1), {{{0}, 7000 * gb}}}), {140});   // 7000 / 50
  check_close(ends_of(solver, {links(1), {{{0}, 1}}}), {2e-11});         // 1 byte: 20 ps
  check_close(ends_of(solver, {{1e15}, {{{0}, 1e18}}}), {1000});
  check_close(ends_of(solver, {{1}, {{{0}, 1e-40}}}), {0});
  check_close(ends_of(solver, {{1 * gb}, {{{0}, 1.0 / 3}}}), {1e-9 / 3});  // bytes are not rounded
  check_close(ends_of(solver, {{3}, {{{0}, 1 + std::ldexp(1, -40)}}}), {(1 + std::ldexp(1, -40)) / 3});
}

TEST_CASE("a flow over four links moves at the slowest one's bandwidth") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  check_close(ends_of(solver, {{50 * gb, 100 * gb, 25 * gb, 50 * gb}, {{{0, 1, 2, 3}, 1 * gb}}}),
              {0.04});  // 1 / 25
}

TEST_CASE("two flows halve a link") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  check_close(ends_of(solver, {links(1), {{{0}, 1 * gb}, {{0}, 1 * gb}}}), {0.04, 0.04});  // 1 / 25
}

TEST_CASE("the larger of two flows has the link for itself at last") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  // 1 / 25 = 0.04; then 3 - 1 = 2 GB at 50: + 0.04
  check_close(ends_of(solver, {links(1), {{{0}, 1 * gb}, {{0}, 3 * gb}}}), {0.04, 0.08});
}

TEST_CASE("a late joiner halves the rate from its start on") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  // 1 GB has moved by 0.02; 1 GB each at 25: + 0.04
  check_close(ends_of(solver, {links(1), {{{0}, 2 * gb}, {{0}, 1 * gb, 0.02}}}), {0.06, 0.06});
}

TEST_CASE("an early leaver gives its share back") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  // 0.5 / 25 = 0.02; then 3 - 0.5 = 2.5 GB at 50: + 0.05
  check_close(ends_of(solver, {links(1), {{{0}, 3 * gb}, {{0}, 0.5 * gb}}}), {0.07, 0.02});
}

TEST_CASE("four flows leave a link of 40 GB/s one by one") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  // 1 GB at 10 GB/s: 0.1; 1 more at 40/3: + 0.075; 1 more at 20: + 0.05; the last at 40: + 0.025
  check_close(ends_of(solver, {{40 * gb}, {{{0}, 1 * gb}, {{0}, 2 * gb}, {{0}, 3 * gb}, {{0}, 4 * gb}}}),
              {0.1, 0.175, 0.225, 0.25});
}

TEST_CASE("seven senders share one receiver's link") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  TestNetwork network{links(8), {}};  // link 0 receives
  for (LinkNumber sender = 1; sender <= 7; ++sender) network.flows.push_back({{sender, 0}, 1 * gb});
  check_close(ends_of(solver, network), std::vector<double>(7, 0.14));  // 1 / (50/7)
}

TEST_CASE("the two directions of a cable are two links and do not meet") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  check_close(ends_of(solver, {links(2), {{{0}, 1 * gb}, {{1}, 1 * gb}}}), {0.02, 0.02});
}

TEST_CASE("a flow between two bottlenecks frees both") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  // Links: 0 up of A, 1 down of B, 2 down of C, 3 up of D. All flows get 25 at first.
  // A->C: 0.5 / 25 = 0.02. Then A->B has 0.5 left at 50: 0.03; D->C has 1 left at 50: 0.04.
  check_close(ends_of(solver, {links(4), {{{0, 1}, 1 * gb}, {{0, 2}, 0.5 * gb}, {{3, 2}, 1.5 * gb}}}),
              {0.03, 0.02, 0.04});
}

TEST_CASE("a long flow gets half of every link of a chain with one short flow each") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  // Links of 30: all 15. Shorts: 1.5 / 15 = 0.1; the long one has 3 - 1.5 left at 30: + 0.05
  check_close(ends_of(solver, {{30 * gb, 30 * gb, 30 * gb},
                               {{{0, 1, 2}, 3 * gb}, {{0}, 1.5 * gb}, {{1}, 1.5 * gb}, {{2}, 1.5 * gb}}}),
              {0.15, 0.1, 0.1, 0.1});
}

TEST_CASE("what a flow cannot use elsewhere goes to the others: three classes of rates") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  // Link 0 of 6: flows 0, 1, 2 get 2. Link 1 of 10: flow 2 has its 2, flow 3 gets 8. Link 2 of 30: flow 4
  // gets 22.
  check_close(
      ends_of(solver, {{6 * gb, 10 * gb, 30 * gb},
                       {{{0}, 2 * gb}, {{0}, 2 * gb}, {{0, 1}, 2 * gb}, {{1, 2}, 8 * gb}, {{2}, 22 * gb}}}),
      {1, 1, 1, 1, 1});
}

TEST_CASE("a slow first link holds a flow back, and a fast one is left to others") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  // 1 B/s and 1 TB/s: 10 bytes take 10 s; the other flow gets 1e12 - 1 B/s.
  check_close(ends_of(solver, {{1, 1e12}, {{{0, 1}, 10}, {{1}, 2e12}}}), {10, 2e12 / (1e12 - 1)});
}

TEST_CASE("latencies delay a start and do not change shares") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  // Latency 5 us: alone for 47.5 us, 2.375 MB. From 52.5 us on 25 each: (1000 - 2.375) MB / 25 = 39.905 ms.
  // The other one then has 2.375 MB left at 50: + 47.5 us.
  check_close(ends_of(solver, {links(3), {{{0, 1}, 1 * gb, 5 * us}, {{0, 2}, 1 * gb, 52.5 * us}}}),
              {52.5 * us + 0.039905, 52.5 * us + 0.039905 + 47.5 * us});
}

TEST_CASE("a ring all-reduce of 8 as one flow per edge") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  TestNetwork network{links(16), {}};
  for (LinkNumber i = 0; i < 8; ++i) network.flows.push_back({{i, 8 + (i + 1) % 8}, 1.75 * gb});
  check_close(ends_of(solver, network), std::vector<double>(8, 0.035));  // 2 x 7/8 GB / 50
}

TEST_CASE("a ring all-reduce waits for its edge that shares a link with two long flows") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  // Edges of 1.75 GB start after 14 steps x 5 us = 70 us. Edge 0 has a third of its link: 1.75 / (50/3) =
  // 0.105. Flow 10 (2 GB) shares edge 3's link: 3.5 MB alone, 1750 MB at 25 until 0.07007, 246.5 MB at 50: +
  // 0.00493.
  TestNetwork network{links(16), {}};
  for (LinkNumber i = 0; i < 8; ++i) network.flows.push_back({{i, 8 + (i + 1) % 8}, 1.75 * gb, 70 * us});
  network.flows.push_back({{0}, 100 * gb});
  network.flows.push_back({{0}, 100 * gb});
  network.flows.push_back({{3}, 2 * gb});
  const std::vector<double> ends = ends_of(solver, network);
  check_close({ends[0], ends[1], ends[3], ends[10]}, {0.10507, 0.03507, 0.07007, 0.075});
}

TEST_CASE("an all-to-all of 8 fills every port") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  TestNetwork network{links(16), {}};
  for (LinkNumber from = 0; from < 8; ++from)
    for (LinkNumber to = 0; to < 8; ++to)
      if (from != to) network.flows.push_back({{from, 8 + to}, 0.125 * gb});
  check_close(ends_of(solver, network), std::vector<double>(56, 0.0175));  // 7 x 0.125 GB / 50
}

TEST_CASE("many flows of one kind share the oversubscribed uplink of their leaf") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  // 8 NICs of 50 under an uplink of 100: 12.5 each, 1 / 12.5; a flow inside of the leaf has what its NIC
  // leaves: 37.5
  TestNetwork network{links(8), {}};
  network.bandwidths.push_back(100 * gb);
  for (LinkNumber nic = 0; nic < 8; ++nic) network.flows.push_back({{nic, 8}, 1 * gb});
  network.flows.push_back({{0}, 3 * gb});
  std::vector<double> expected(8, 0.08);
  expected.push_back(0.08);  // 3 / 37.5
  check_close(ends_of(solver, network), expected);
}

TEST_CASE("flows that end at one date are reported in the order of their starts") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  const std::vector<double> order = in_worker([solver] {
    FlowEngine engine(solver);
    std::vector<LinkNumber> link;
    for (int i = 0; i < 5; ++i) link.push_back(engine.link(bandwidth));
    // All end at 0.06; numbers and links are in no order, and the last call starts first.
    engine.start({&link[3], 1}, 2 * gb, 0.02, 40);
    engine.start({&link[1], 1}, 2 * gb, 0.02, 70);
    engine.start({&link[4], 1}, 1 * gb, 0.04, 5);
    engine.start({&link[0], 1}, 0, 0.06, 90);
    engine.start({&link[2], 1}, 3 * gb, 0, 60);
    std::vector<double> result;
    engine.run([&](FlowNumber flow) { result.push_back(static_cast<double>(flow)); }, [] {});
    return result;
  });
  CHECK(order == std::vector<double>{60, 40, 70, 5, 90});
}

TEST_CASE("a flow without bytes ends when it starts") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  check_close(ends_of(solver, {links(1), {{{0}, 1 * gb}, {{0}, 0, 0.01}, {{0}, 0, 0.5}}}), {0.02, 0.01, 0.5});
  CHECK(ends_of(solver, {links(1), {{{0}, 0}, {{0}, 0, -1}}}) == std::vector<double>{0, 0});
}

TEST_CASE("flows started by the end of others run on from there") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  // 1 GB alone: 0.02; two successors share: 2 / 25 = 0.08 more; the next, asked for in the past, 0.02 more
  const std::vector<double> ends = in_worker([solver] {
    FlowEngine engine(solver);
    const LinkNumber link = engine.link(bandwidth);
    engine.start({&link, 1}, 1 * gb, 0, 0);
    std::vector<double> result(5);
    engine.run(
        [&](FlowNumber flow) {
          result[flow] = engine.now();
          if (flow == 0) {
            engine.start({&link, 1}, 2 * gb, engine.now(), 1);
            engine.start({&link, 1}, 2 * gb, 0, 2);
            engine.start({&link, 1}, 0, 0, 3);
          }
          if (flow == 2) engine.start({&link, 1}, 1 * gb, 0.001, 4);
        },
        [] {});
    return result;
  });
  check_close(ends, {0.02, 0.1, 0.1, 0.02, 0.12});
}

}  // namespace simrun
