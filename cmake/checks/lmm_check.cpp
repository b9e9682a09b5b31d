// Run while simrun is configured: whether the installed SimGrid is as sim/lmm_abi.h declares it, so that
// sim/lmm_flows.cpp, compiled with this, shares links exactly. Prints why not; exits with 0 if it does.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

#include "sim/flow_mover.h"

namespace {

// Leaves at once: SimGrid's engine is not to be taken down.
[[noreturn]] void leave(const char* why_not) {
  if (why_not != nullptr) std::puts(why_not);
  std::fflush(stdout);
  std::_Exit(why_not == nullptr ? 0 : 1);
}

void expect(double found, double expected, const char* what) {
  if (!(std::abs(found - expected) <= 1e-12 * (1 + std::abs(expected)))) leave(what);
}

void check() {
  const auto engine = simrun::lmm_mover();
  for (const double bandwidth : {6.0, 10.0, 30.0, 4.0, 40.0, 12.0}) engine->add_link(bandwidth);
  engine->add_ceiling(2);  // number 6
  engine->seal();
  std::vector<double> ends(12, -1);
  const auto start = [&](const std::vector<simrun::LinkNumber>& links, double bytes, double date,
                         simrun::FlowNumber flow, const std::vector<double>& weights = {}) {
    engine->start({links, weights}, bytes, date, flow);
  };
  // Link 0 gives 2 to each of flows 0, 1, 2; link 1 what flow 2 leaves, 8, to flow 3; link 2 22 to flow 4.
  start({0}, 2, 0, 0);
  start({0}, 2, 0, 1);
  start({0, 1}, 2, 0, 2);
  start({1, 2}, 8, 0, 3);
  start({2}, 22, 0, 4);
  // Apart from them: flow 5 alone until 1/3, then halves link 3 with flow 6, which has a fraction to move.
  start({3}, 4, 0, 5);
  start({3}, 0.5, 1.0 / 3, 6);
  // Flow 8 stands for seven on link 4, flow 9 is one more: 5 each.
  start({4}, 5, 0, 8, {7});
  start({4}, 5, 0, 9);
  // Flow 10 takes no more than 2 of link 5, flow 11 what it leaves.
  start({5, 6}, 2, 0, 10);
  start({5}, 10, 0, 11);
  double usage = -1;
  double left = -1;
  engine->wake(0.5);
  const auto done = [&](simrun::FlowNumber flow) {
    ends[flow] = engine->now();
    if (flow == 5) start({3}, 1, 0, 7);
  };
  const auto woken = [&] {
    usage = engine->usage(2);
    left = engine->remaining(5);
  };
  engine->run(done, woken);
  for (const int flow : {0, 1, 2, 3, 4}) expect(ends[flow], 1, "links are not shared max-min fairly");
  expect(usage, 30, "the usage of a link is not the sum of its flows' rates");
  expect(left, 4 - 4.0 / 3 - 2.0 / 6, "what a flow has yet to move is not known between events");
  expect(ends[6], 1.0 / 3 + 0.25, "rates do not change with a late joiner");
  for (const int flow : {8, 9}) expect(ends[flow], 1, "weights on links do not count");
  for (const int flow : {10, 11}) expect(ends[flow], 1, "a flow's own limit does not count");
  expect(ends[5], 1.125, "rates do not change when a flow ends");
  expect(ends[7], 1.375, "a flow that an end starts does not run on from there");
}

}  // namespace

int main() {
  alarm(20);
  try {
    check();
  } catch (const std::exception& error) {
    leave(error.what());
  }
  leave(nullptr);
}
