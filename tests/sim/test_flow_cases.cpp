// 57 networks to verify with a pencil. Rates are units per second, sizes units; a flow's line is its links,
// its size, when it starts and when it must end. The comment has the rates that the flows get, and what
// changes.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "tests/sim/flow_worker.h"

namespace simrun {

namespace {

struct CaseFlow {
  const char* links;
  double size, start, end;
  double most = 0;  // the flow's own limit; 0: none
};

struct Case {
  const char* says;
  std::vector<std::pair<const char*, double>> links;
  std::vector<CaseFlow> flows;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      // ---- one flow ----
      {"alone: size over rate", {{"a", 50}}, {{"a", 100, 0, 2}}},
      {"alone and late: no sooner", {{"a", 50}}, {{"a", 100, 3, 5}}},
      {"a fraction of a unit", {{"a", 3}}, {{"a", 0.5, 0, 1.0 / 6}}},
      {"over three links: the slowest one's rate", {{"a", 50}, {"b", 20}, {"c", 40}}, {{"a b c", 100, 0, 5}}},
      {"nothing to move: ends when it starts, takes nobody's share",
       {{"a", 10}},
       {{"a", 10, 0, 1}, {"a", 0, 0.5, 0.5}}},

      // ---- one link ----
      {"two equal ones: 5 each", {{"a", 10}}, {{"a", 10, 0, 2}, {"a", 10, 0, 2}}},
      // 5 each until 2; then the larger has 20 left at 10
      {"the larger has the link for itself at last", {{"a", 10}}, {{"a", 10, 0, 2}, {"a", 30, 0, 4}}},
      // 4 each until 1; 6 each until 1 + 4/6; then 4 left at 12
      {"three leave one by one", {{"a", 12}}, {{"a", 4, 0, 1}, {"a", 8, 0, 5.0 / 3}, {"a", 12, 0, 2}}},
      // 10 moved by 1, 10 left; then 5 each
      {"a late joiner takes half from then on", {{"a", 10}}, {{"a", 20, 0, 3}, {"a", 10, 1, 3}}},
      // 10 by 1; 5 each until 2; 15 left at 10
      {"a guest comes and goes", {{"a", 10}}, {{"a", 30, 0, 3.5}, {"a", 5, 1, 2}}},
      {"one starts as the other ends: they do not meet", {{"a", 10}}, {{"a", 10, 0, 1}, {"a", 10, 1, 2}}},
      // 10 by 1, then pairs at 5: the first has 5 left, the second 10 at 2, the third 5 at 4
      {"one more every second", {{"a", 10}}, {{"a", 15, 0, 2}, {"a", 15, 1, 4}, {"a", 15, 2, 4.5}}},
      {"ten on one link: 1 each", {{"a", 10}}, std::vector<CaseFlow>(10, {"a", 2, 0, 2})},

      // ---- incast and outcast ----
      {"four senders, one receiver: 5 each",
       {{"t1", 20}, {"t2", 20}, {"t3", 20}, {"t4", 20}, {"rx", 20}},
       {{"t1 rx", 5, 0, 1}, {"t2 rx", 5, 0, 1}, {"t3 rx", 5, 0, 1}, {"t4 rx", 5, 0, 1}}},
      // the last has 10 left at 1, then 20
      {"four senders, one with more",
       {{"t1", 20}, {"t2", 20}, {"t3", 20}, {"t4", 20}, {"rx", 20}},
       {{"t1 rx", 5, 0, 1}, {"t2 rx", 5, 0, 1}, {"t3 rx", 5, 0, 1}, {"t4 rx", 15, 0, 1.5}}},
      // 2 for the slow one; (20 - 2) / 2 = 9
      {"a slow sender's share goes to the others",
       {{"slow", 2}, {"t2", 20}, {"t3", 20}, {"rx", 20}},
       {{"slow rx", 4, 0, 2}, {"t2 rx", 18, 0, 2}, {"t3 rx", 18, 0, 2}}},
      // 2 for the slow one; (20 - 2) / 3 = 6
      {"one sender, four receivers, one of them slow",
       {{"tx", 20}, {"slow", 2}, {"r2", 20}, {"r3", 20}, {"r4", 20}},
       {{"tx slow", 4, 0, 2}, {"tx r2", 12, 0, 2}, {"tx r3", 12, 0, 2}, {"tx r4", 12, 0, 2}}},
      // rx gives 10 each; t1 has 10 left for the third, which is alone from 1 on with 20 left
      {"a sender of an incast sends elsewhere too",
       {{"t1", 20}, {"t2", 20}, {"rx", 20}, {"r2", 20}},
       {{"t1 rx", 10, 0, 1}, {"t2 rx", 10, 0, 1}, {"t1 r2", 30, 0, 2}}},

      // ---- both directions ----
      {"two directions of a cable are two links",
       {{"a.tx", 20}, {"a.rx", 20}, {"b.tx", 20}, {"b.rx", 20}},
       {{"a.tx b.rx", 20, 0, 1}, {"b.tx a.rx", 20, 0, 1}}},
      {"a bus that both directions share", {{"bus", 20}}, {{"bus", 20, 0, 2}, {"bus", 20, 0, 2}}},
      {"a ring of three",
       {{"t0", 20}, {"t1", 20}, {"t2", 20}, {"r0", 20}, {"r1", 20}, {"r2", 20}},
       {{"t0 r1", 20, 0, 1}, {"t1 r2", 20, 0, 1}, {"t2 r0", 20, 0, 1}}},
      // t0 gives 10 each; from 2 on the guest has 20 left at 20
      {"a ring of which one edge has a guest",
       {{"t0", 20}, {"t1", 20}, {"t2", 20}, {"r0", 20}, {"r1", 20}, {"r2", 20}, {"out", 20}},
       {{"t0 r1", 20, 0, 2}, {"t1 r2", 20, 0, 1}, {"t2 r0", 20, 0, 1}, {"t0 out", 40, 0, 3}}},
      // b.rx gives 10 each; the way back is free
      {"a swap, and a third that sends to one of them",
       {{"a.tx", 20}, {"a.rx", 20}, {"b.tx", 20}, {"b.rx", 20}, {"c.tx", 20}},
       {{"a.tx b.rx", 20, 0, 2}, {"b.tx a.rx", 20, 0, 1}, {"c.tx b.rx", 20, 0, 2}}},
      // every port carries two flows: 5 each
      {"an all-to-all of three",
       {{"t0", 10}, {"t1", 10}, {"t2", 10}, {"r0", 10}, {"r1", 10}, {"r2", 10}},
       {{"t0 r1", 5, 0, 1},
        {"t0 r2", 5, 0, 1},
        {"t1 r0", 5, 0, 1},
        {"t1 r2", 5, 0, 1},
        {"t2 r0", 5, 0, 1},
        {"t2 r1", 5, 0, 1}}},

      // ---- two bottlenecks ----
      // a: 5 each; b: 20 - 5 = 15
      {"what a flow cannot use at b goes to b's other",
       {{"a", 10}, {"b", 20}},
       {{"a", 10, 0, 2}, {"a b", 10, 0, 2}, {"b", 30, 0, 2}}},
      // from 1 on b gives 10 each: the second has 5 left, the third 15, of which 10 at 1.5, then 20
      {"the bottleneck moves from a to b when a flow ends",
       {{"a", 10}, {"b", 20}},
       {{"a", 5, 0, 1}, {"a b", 10, 0, 1.5}, {"b", 30, 0, 2}}},
      // b: 4 each; a: 10 - 4 = 6. From 2 on the third has 4 left at 8
      {"the second link is the tighter one",
       {{"a", 10}, {"b", 8}},
       {{"a", 6, 0, 1}, {"a b", 8, 0, 2}, {"b", 12, 0, 2.5}}},
      // 3 for the first; (12 - 3) / 2 = 4.5; from 1 on 6 each for 4.5 left
      {"a flow held back elsewhere leaves more than a third",
       {{"x", 3}, {"a", 12}},
       {{"x a", 3, 0, 1}, {"a", 9, 0, 1.75}, {"a", 9, 0, 1.75}}},
      // all 6; from 1 on the long one has 6 left at 12
      {"a long flow over three links with one short flow each",
       {{"a", 12}, {"b", 12}, {"c", 12}},
       {{"a b c", 12, 0, 1.5}, {"a", 6, 0, 1}, {"b", 6, 0, 1}, {"c", 6, 0, 1}}},
      // 3 for the long one; 6 - 3, 12 - 3, 24 - 3
      {"the same where the links differ",
       {{"a", 6}, {"b", 12}, {"c", 24}},
       {{"a b c", 6, 0, 2}, {"a", 6, 0, 2}, {"b", 18, 0, 2}, {"c", 42, 0, 2}}},
      // b: 4 each; a has 4 to spare
      {"two long flows and one short one behind them",
       {{"a", 12}, {"b", 12}},
       {{"a b", 8, 0, 2}, {"a b", 8, 0, 2}, {"b", 8, 0, 2}}},
      // a: 2 each; b: 10 - 2 = 8; c: 30 - 8 = 22
      {"three classes of rates",
       {{"a", 6}, {"b", 10}, {"c", 30}},
       {{"a", 2, 0, 1}, {"a", 2, 0, 1}, {"a b", 2, 0, 1}, {"b c", 8, 0, 1}, {"c", 22, 0, 1}}},
      {"two bottlenecks that have no flow in common do not meet",
       {{"a", 10}, {"b", 4}},
       {{"a", 10, 0, 2}, {"a", 10, 0, 2}, {"b", 4, 0, 2}, {"b", 4, 0, 2}}},

      // ---- rails, leaves and spines ----
      {"an uplink of half its ports: 5 each",
       {{"n0", 10}, {"n1", 10}, {"n2", 10}, {"n3", 10}, {"up", 20}},
       {{"n0 up", 10, 0, 2}, {"n1 up", 10, 0, 2}, {"n2 up", 10, 0, 2}, {"n3 up", 10, 0, 2}}},
      {"and what stays in the leaf gets the rest of its port: 10 - 5",
       {{"n0", 10}, {"n1", 10}, {"n2", 10}, {"n3", 10}, {"up", 20}},
       {{"n0 up", 10, 0, 2},
        {"n1 up", 10, 0, 2},
        {"n2 up", 10, 0, 2},
        {"n3 up", 10, 0, 2},
        {"n0", 10, 0, 2}}},
      // rail 1: 2.5 each; the spine leaves 12 - 5 = 7
      {"two rails over one spine",
       {{"rail1", 5}, {"rail2", 20}, {"spine", 12}},
       {{"rail1 spine", 5, 0, 2}, {"rail1 spine", 5, 0, 2}, {"rail2 spine", 14, 0, 2}}},
      {"two flows that hash to one of two spines take twice as long",
       {{"n0", 10}, {"n1", 10}, {"s0", 10}, {"s1", 10}},
       {{"n0 s0", 10, 0, 2}, {"n1 s0", 10, 0, 2}}},
      {"and half of that on two spines",
       {{"n0", 10}, {"n1", 10}, {"s0", 10}, {"s1", 10}},
       {{"n0 s0", 10, 0, 1}, {"n1 s1", 10, 0, 1}}},
      {"a GPU borrows its neighbour's NIC over NVLink",
       {{"nvlink", 40}, {"nic", 10}},
       {{"nvlink nic", 10, 0, 2}, {"nic", 10, 0, 2}}},
      // down2: 3 each; up1: 10 - 3 = 7
      {"up from one leaf, down to another",
       {{"up1", 10}, {"up4", 10}, {"down2", 6}, {"down3", 10}},
       {{"up1 down2", 6, 0, 2}, {"up1 down3", 14, 0, 2}, {"up4 down2", 6, 0, 2}}},

      // ---- unequal latency: later starts, equal shares ----
      // 20 moved by 3; then 5 each for 20 left
      {"latencies of 1 and 3", {{"a", 10}}, {{"a", 40, 1, 7}, {"a", 20, 3, 7}}},
      {"equal latencies on ways of unequal length: 5 each",
       {{"a", 10}, {"b", 10}, {"c", 30}, {"d", 10}},
       {{"a b", 20, 0.5, 4.5}, {"a c d", 20, 0.5, 4.5}}},
      {"one is over before the other's latency is", {{"a", 10}}, {{"a", 5, 0.1, 0.6}, {"a", 5, 0.7, 1.2}}},

      // ---- flows with a limit of their own: the last number of their line ----
      {"alone below its link", {{"a", 50}}, {{"a", 100, 0, 5, 20}}},
      {"a limit above the link is none", {{"a", 50}}, {{"a", 100, 0, 2, 60}}},
      // 2 for the limited one; 10 - 2 = 8
      {"the other takes what the limited one leaves", {{"a", 10}}, {{"a", 4, 0, 2, 2}, {"a", 16, 0, 2}}},
      {"a limit above the equal share changes nothing", {{"a", 10}}, {{"a", 10, 0, 2, 6}, {"a", 10, 0, 2}}},
      // 5 each until 1; then 15 left at 6, not 10
      {"but holds when the other one is gone", {{"a", 10}}, {{"a", 5, 0, 1}, {"a", 20, 0, 3.5, 6}}},
      // 2 and 4 for these; 12 - 2 - 4 = 6
      {"three limits, two of which bind",
       {{"a", 12}},
       {{"a", 2, 0, 1, 2}, {"a", 4, 0, 1, 4}, {"a", 6, 0, 1, 9}}},
      // 3 each of 20: nobody shares
      {"an incast of four limited ones leaves the receiver idle",
       {{"t1", 20}, {"t2", 20}, {"t3", 20}, {"t4", 20}, {"rx", 20}},
       {{"t1 rx", 6, 0, 2, 3}, {"t2 rx", 6, 0, 2, 3}, {"t3 rx", 6, 0, 2, 3}, {"t4 rx", 6, 0, 2, 3}}},
      // 7 x 3 > 20: 20/7 each
      {"and of seven does not", {{"rx", 20}}, std::vector<CaseFlow>(7, {"rx", 20, 0, 7, 3})},
      // 2 for the limited one; a: 10 - 2, b: 20 - 2
      {"a limited flow over two links leaves both",
       {{"a", 10}, {"b", 20}},
       {{"a b", 4, 0, 2, 2}, {"a", 16, 0, 2}, {"b", 36, 0, 2}}},
      // a gives 5 to each; b then has 20 - 5 for one that takes 12
      {"a link's share and a limit, one after the other",
       {{"a", 10}, {"b", 20}},
       {{"a", 10, 0, 2}, {"a b", 10, 0, 2, 8}, {"b", 24, 0, 2, 12}}},
      // 4 by 1; then 4 beside 6 until 2; 8 left at 4
      {"a guest does not disturb a limited one", {{"a", 10}}, {{"a", 16, 0, 4, 4}, {"a", 6, 1, 2}}},
      // 8 by 1; then 5 each: the guest's 5 are over at 2; 7 left at 8
      {"unless the two together are too much", {{"a", 10}}, {{"a", 20, 0, 2.875, 8}, {"a", 5, 1, 2}}},
      // 3 through the slow link, 4 of its own limit: 20 - 3 - 4 = 13
      {"a slow link, a limit and what both leave",
       {{"slow", 3}, {"rx", 20}},
       {{"slow rx", 3, 0, 1, 5}, {"rx", 4, 0, 1, 4}, {"rx", 13, 0, 1}}},
      {"nothing to move under a limit", {{"a", 10}}, {{"a", 0, 0.5, 0.5, 2}, {"a", 10, 0, 1}}},
  };
  return all;
}

// All cases side by side: they have no link in common, but flows with the same limit have one ceiling.
TestNetwork side_by_side() {
  TestNetwork network;
  for (const Case& one : cases())
    for (const auto& link : one.links) network.bandwidths.push_back(link.second * 1e9);
  LinkNumber links = 0;
  std::map<double, LinkNumber> ceiling;
  for (const Case& one : cases()) {
    std::map<std::string, LinkNumber> number;
    for (const auto& link : one.links) number[link.first] = links++;
    for (const CaseFlow& flow : one.flows) {
      TestFlow& added = network.flows.emplace_back(TestFlow{{}, flow.size * 1e9, flow.start});
      std::istringstream names(flow.links);
      for (std::string name; names >> name;) added.links.push_back(number.at(name));
      if (flow.most == 0) continue;
      const std::size_t next = network.bandwidths.size() + network.ceilings.size();
      const auto [found, is_new] = ceiling.try_emplace(flow.most, static_cast<LinkNumber>(next));
      if (is_new) network.ceilings.push_back(flow.most * 1e9);
      added.links.push_back(found->second);
    }
  }
  return network;
}

}  // namespace

TEST_CASE("57 max-min cases, each solved by hand") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  CHECK(cases().size() == 57);
  const std::vector<double> ends = ends_of(solver, side_by_side());
  std::size_t f = 0;
  for (const Case& one : cases())
    for (const CaseFlow& flow : one.flows) {
      CAPTURE(one.says, flow.links, ends.at(f), flow.end);
      CHECK(std::abs(ends.at(f) - flow.end) <= 1e-9 * flow.end);
      ++f;
    }
}

}  // namespace simrun
