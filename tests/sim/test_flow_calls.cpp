// What callers may do between the events of a FlowEngine.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "tests/sim/flow_worker.h"

namespace simrun {

namespace {

constexpr double gb = 1e9;
constexpr double bandwidth = 50 * gb;

bool close_to(double found, double expected) {
  return std::abs(found - expected) <= 1e-9 * std::abs(expected);
}

}  // namespace

TEST_CASE("wake-ups come at their dates between ends, once each, after the ends of their date") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  // The flow ends at 0.02. Each entry: date x 1000, and 0.5 for an end.
  const std::vector<double> events = in_worker([solver] {
    FlowEngine engine(solver);
    const LinkNumber link = engine.link(bandwidth);
    std::vector<double> result;
    for (const double date : {0.03, 0.02, 0.01, 0.01, -5.0}) engine.wake(date);
    engine.start({&link, 1}, 1 * gb, 0, 0);
    const auto note = [&](double kind) { result.push_back(std::round(engine.now() * 1000) + kind); };
    bool again = true;
    engine.run([&](FlowNumber) { note(0.5); },
               [&] {
                 note(0);
                 if (std::exchange(again, false)) engine.wake(0);  // in the first one: at once
               });
    return result;
  });
  CHECK(events == std::vector<double>{0, 0, 10, 10, 20.5, 20, 30});
}

TEST_CASE("remaining bytes are exact at any moment") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  const std::vector<double> left = in_worker([solver] {
    FlowEngine engine(solver);
    const LinkNumber link = engine.link(bandwidth);
    engine.start({&link, 1}, 3 * gb, 0, 7);
    engine.start({&link, 1}, 1 * gb, 0.02, 8);
    std::vector<double> result{engine.remaining(7), engine.remaining(8)};
    for (const double date : {0.01, 0.03}) engine.wake(date);
    const auto note = [&](FlowNumber flow) { result.push_back(engine.remaining(flow)); };
    engine.run(
        [&](FlowNumber flow) {
          if (flow == 8) note(7);
        },
        [&] {
          note(7);
          note(8);
        });
    return result;
  });
  // Before: 3, 1. At 0.01: 2.5, 1 to come. At 0.03: 2 - 0.25, 1 - 0.25. At 0.06, the end of flow 8: 1.
  REQUIRE(left.size() == 7);
  const std::vector<double> expected{3, 1, 2.5, 1, 1.75, 0.75, 1};
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(close_to(left[i], expected[i] * gb));
}

TEST_CASE("usage counts who started and ended at this very moment") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  const std::vector<double> usage = in_worker([solver] {
    FlowEngine engine(solver);
    std::vector<LinkNumber> link;
    for (const double speed : {10.0, 50.0, 30.0}) link.push_back(engine.link(speed * gb));
    std::vector<double> result;
    const auto note = [&] {
      for (const LinkNumber l : link) result.push_back(engine.usage(l) / gb);
    };
    note();
    engine.start({link.data(), 2}, 1 * gb, 0, 0);  // 10 GB/s over links 0 and 1, until 0.1
    note();
    engine.start({&link[1], 2}, 30 * gb, 0, 1);  // 30 GB/s over links 1 and 2, until 1
    note();
    engine.run(
        [&](FlowNumber flow) {
          note();
          if (flow == 0) {
            engine.start({&link[1], 1}, 10 * gb, 0, 2);  // 25; flow 1: 25; it ends at 0.5
            note();
          }
        },
        [] {});
    return result;
  });
  // Flow 2 ends at 0.1 + 10/25 = 0.5; flow 1 gets 30 again: 30 - 3 - 10 = 17 left, ends at 0.5 + 17/30.
  const std::vector<double> expected{0,  0, 0,  10, 10, 0,  10, 40, 30, 0, 30,
                                     30, 0, 50, 25, 0,  30, 30, 0,  0,  0};
  REQUIRE(usage.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i, usage[i], expected[i]);
    CHECK(close_to(usage[i], expected[i]));
  }
}

TEST_CASE("looking does not change the dates") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  const auto ends = [solver](bool look) {
    return in_worker([solver, look] {
      FlowEngine engine(solver);
      const LinkNumber link = engine.link(bandwidth);
      std::vector<double> result;
      FlowNumber next = 0;
      for (; next < 10; ++next)
        engine.start({&link, 1}, 1e6 * static_cast<double>(1 + next * 7 % 5), 0, next);
      engine.run(
          [&](FlowNumber) {
            result.push_back(engine.now());
            if (next < 500)
              engine.start({&link, 1}, 1e6 * static_cast<double>(1 + next * 7 % 5), engine.now() + 3e-6,
                           next);
            ++next;
            if (look) result.back() += 0 * engine.usage(link);
          },
          [] {});
      return result;
    });
  };
  CHECK(ends(true) == ends(false));
}

TEST_CASE("live counts flows until their end is reported") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  const std::vector<double> live = in_worker([solver] {
    FlowEngine engine(solver);
    const LinkNumber link = engine.link(bandwidth);
    for (FlowNumber flow = 0; flow < 3; ++flow) engine.start({&link, 1}, 1 * gb, flow == 2 ? 1 : 0, flow);
    std::vector<double> result{static_cast<double>(engine.live())};
    engine.run([&](FlowNumber) { result.push_back(static_cast<double>(engine.live())); }, [] {});
    return result;
  });
  CHECK(live == std::vector<double>{3, 2, 1, 0});
}

TEST_CASE("an exception of a callback leaves run, and another run goes on") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  const std::vector<double> ends = in_worker([solver] {
    FlowEngine engine(solver);
    const LinkNumber link = engine.link(bandwidth);
    for (FlowNumber flow = 0; flow < 3; ++flow) engine.start({&link, 1}, 1 * gb, 0, flow);  // all end at 0.06
    engine.start({&link, 1}, 1 * gb, 0.1, 3);
    engine.wake(0.08);
    std::vector<double> result;
    const auto done = [&](FlowNumber flow) {
      result.push_back(static_cast<double>(flow) + engine.now());
      if (flow == 0) throw std::range_error("too long");
    };
    const auto woken = [] { throw std::invalid_argument("not now"); };
    for (int runs = 0; runs < 3; ++runs) {
      try {
        engine.run(done, woken);
        result.push_back(100);
      } catch (const std::range_error&) {
        result.push_back(200);
      } catch (const std::invalid_argument&) {
        result.push_back(300);
      }
    }
    return result;
  });
  REQUIRE(ends.size() == 7);
  const std::vector<double> expected{0.06, 200, 1.06, 2.06, 300, 3.12, 100};
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(close_to(ends[i], expected[i]));
}

TEST_CASE("an engine may be left with flows alive, and there is one per process") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  CHECK_THROWS_AS(run_in_worker([solver]() -> std::string {
                    {
                      FlowEngine engine(solver);
                      const LinkNumber link = engine.link(bandwidth);
                      engine.start({&link, 1}, 1 * gb, 0, 0);
                      engine.start({&link, 1}, 1 * gb, 1, 1);
                      try {
                        engine.run([](FlowNumber) { throw std::range_error("enough"); }, [] {});
                      } catch (const std::range_error&) {
                      }
                    }
                    FlowEngine second(solver);
                    return "";
                  }),
                  std::logic_error);
}

TEST_CASE("a flow that stands for seven alike takes seven shares, where the solver is built in") {
  const std::vector<double> weight{7};
  const auto ends = [&weight](FlowSolver solver) {
    return in_worker([solver, &weight] {
      FlowEngine engine(solver);
      const LinkNumber link = engine.link(bandwidth);
      engine.start({&link, 1}, 1 * gb, 0, 0, weight);
      engine.start({&link, 1}, 2 * gb, 0, 1);
      std::vector<double> result(2);
      engine.run([&](FlowNumber flow) { result[flow] = engine.now(); }, [] {});
      return result;
    });
  };
  CHECK_THROWS_AS(ends(FlowSolver::s4u), std::logic_error);
  if (flow_solvers().front() != FlowSolver::lmm) return;
  // 50 / 8 each: 1 / 6.25 = 0.16; then the other has 1 left at 50
  const std::vector<double> found = ends(FlowSolver::lmm);
  CHECK(close_to(found[0], 0.16));
  CHECK(close_to(found[1], 0.18));
}

TEST_CASE("calls that make no sense are refused before SimGrid sees them") {
  const FlowSolver solver = GENERATE(from_range(flow_solvers()));
  const auto refused = [solver](const std::function<void(FlowEngine&)>& call) {
    return run_in_worker([solver, &call]() -> std::string {
             FlowEngine engine(solver);
             engine.link(bandwidth);
             try {
               call(engine);
             } catch (const std::logic_error&) {
               return "refused";
             }
             return "";
           }) == "refused";
  };
  constexpr double endless = std::numeric_limits<double>::infinity();
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  const LinkNumber link = 0;
  const LinkNumber missing = 1;
  for (const double bad : {0.0, -1.0, endless, unknown}) CHECK(refused([&](FlowEngine& e) { e.link(bad); }));
  for (const double bad : {-1.0, endless, unknown})
    CHECK(refused([&](FlowEngine& e) { e.start({&link, 1}, bad, 0, 0); }));
  for (const double bad : {endless, unknown}) {
    CHECK(refused([&](FlowEngine& e) { e.start({&link, 1}, 1, bad, 0); }));
    CHECK(refused([&](FlowEngine& e) { e.wake(bad); }));
  }
  CHECK(refused([&](FlowEngine& e) { e.start({}, 1, 0, 0); }));
  CHECK(refused([&](FlowEngine& e) {
    const LinkNumber ceiling = e.ceiling(1);
    e.start({&ceiling, 1}, 1, 0, 0);
  }));
  CHECK(refused([&](FlowEngine& e) { static_cast<void>(e.usage(e.ceiling(1))); }));
  CHECK(refused([&](FlowEngine& e) { e.ceiling(0); }));
  CHECK(refused([&](FlowEngine& e) {
    e.start({&link, 1}, 1, 0, 0);
    e.ceiling(1);
  }));
  const std::vector<double> two_weights{1, 1}, no_weight{0};
  for (const std::vector<double>& bad : {two_weights, no_weight})
    CHECK(refused([&](FlowEngine& e) { e.start({&link, 1}, 1, 0, 0, bad); }));
  CHECK(refused([&](FlowEngine& e) { e.start({&missing, 1}, 1, 0, 0); }));
  CHECK(refused([&](FlowEngine& e) { (void)e.usage(missing); }));
  CHECK(refused([&](FlowEngine& e) { (void)e.remaining(0); }));
  CHECK(refused([&](FlowEngine& e) {
    e.start({&link, 1}, 1, 0, 5);
    e.start({&link, 1}, 1, 0, 5);
  }));
  CHECK(refused([&](FlowEngine& e) {
    e.wake(0);
    e.link(bandwidth);
  }));
}

}  // namespace simrun
