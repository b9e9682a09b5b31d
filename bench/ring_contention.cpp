#include "bench/ring_contention.h"

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "sim/worker.h"

namespace simrun {

namespace {

constexpr LinkNumber ranks = 8;
constexpr double bandwidth = 50e9;
constexpr double bytes = 1e9;
constexpr FlowNumber steps = 14;  // 2 (n - 1)
constexpr FlowNumber stranger = 1000, endless = 2000;

// Of a FlowEngine with the strangers; `begin` starts the ring, `next` is told of every end and says whether
// the collective is over.
template <class Begin, class Next>
RingContention run(FlowSolver solver, const Begin& begin, const Next& next) {
  const std::string result = run_in_worker([&] {
    FlowEngine engine(solver);
    for (LinkNumber port = 0; port < 2 * ranks; ++port) engine.link(bandwidth);  // tx 0 .. 7, rx 8 .. 15
    for (const FlowNumber flow : {endless, endless + 1})
      engine.start(std::array<LinkNumber, 1>{0}, 6e9, 0, flow);
    engine.start(std::array<LinkNumber, 1>{3}, 2e9, 0, stranger);
    begin(engine);
    RingContention found;
    engine.run(
        [&](FlowNumber flow) {
          if (flow == stranger) found.stranger_end_s = engine.now();
          if (flow < stranger && next(engine, flow)) found.collective_end_s = engine.now();
        },
        [] {});
    std::string text(sizeof found, '\0');
    std::memcpy(text.data(), &found, sizeof found);
    return text;
  });
  RingContention found;
  std::memcpy(&found, result.data(), sizeof found);
  return found;
}

std::array<LinkNumber, 2> edge(FlowNumber from) {
  const auto rank = static_cast<LinkNumber>(from);
  return {rank, ranks + (rank + 1) % ranks};
}

}  // namespace

RingContention ring_of_messages(FlowSolver solver) {
  // Message `step` of an edge needs the one before it on this edge, and what its sender got in the last step.
  std::vector<int> awaited(steps * ranks, 2);
  std::size_t left = steps * ranks;
  const auto send = [](FlowEngine& engine, FlowNumber step, FlowNumber from) {
    engine.start(edge(from), bytes / ranks, engine.now(), step * ranks + from);
  };
  return run(
      solver,
      [&](FlowEngine& engine) {
        for (FlowNumber from = 0; from < ranks; ++from) send(engine, 0, from);
      },
      [&](FlowEngine& engine, FlowNumber message) {
        const FlowNumber step = message / ranks + 1, from = message % ranks;
        if (step < steps)
          for (const FlowNumber follower : {from, (from + 1) % ranks})
            if (--awaited[step * ranks + follower] == 0) send(engine, step, follower);
        return --left == 0;
      });
}

RingContention ring_of_edges(FlowSolver solver) {
  std::size_t left = ranks;
  return run(
      solver,
      [](FlowEngine& engine) {
        for (FlowNumber from = 0; from < ranks; ++from)
          engine.start(edge(from), bytes / ranks * static_cast<double>(steps), 0, from);
      },
      [&](FlowEngine&, FlowNumber) { return --left == 0; });
}

}  // namespace simrun
