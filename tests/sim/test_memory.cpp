#include <algorithm>
#include <catch2/catch.hpp>

#include "sim/memory.h"
#include "sim/simulate.h"
#include "tests/sim/plan_builder.h"
#include "tests/sim/reference_engine.h"

namespace simrun {

TEST_CASE("memory follows first writers and FREEs in issue order") {
  PlanBuilder b(1);
  const Index weights = b.buffer(100, Scope::run, Category::weights);
  const Index gradients = b.buffer(50, Scope::step, Category::gradients);
  const Index saved = b.buffer(10), work = b.buffer(7, Scope::pass, Category::workspace);
  const Index forward =
      b.segment(PassKind::forward,
                {b.compute(5, {weights}, {work}), b.compute(5, {work}, {saved}), PlanBuilder::free({work})});
  const Index backward =
      b.segment(PassKind::backward, {b.compute(5, {saved}, {gradients}), PlanBuilder::free({saved})});
  const Index step =
      b.segment(PassKind::step, {b.compute(5, {gradients}, {weights}), PlanBuilder::free({gradients})});
  b.entry(0, forward, 0);   // 100 -> 107 -> 117 -> 110
  b.entry(0, forward, 1);   // 117 -> 127 -> 120
  b.entry(0, backward, 0);  // 170 -> 160
  b.entry(0, forward, 2);   // 167 -> 177 -> 170
  b.entry(0, backward, 1);  // 170 -> 160
  b.entry(0, backward, 2);  // 160 -> 150
  b.entry(0, step);         // 150 -> 100
  const Timeline timeline = simulate(b.plan, {Detail::passes});
  const MemoryPeak& peak = timeline.ranks[0].peak;
  CHECK(peak.bytes == 177);
  CHECK(peak.live == LiveBytes{100, 50, 0, 20, 0, 7});
  CHECK(peak.entry == 3);
  CHECK(peak.instruction == 1);
  const std::vector<MemoryEvent>& events = timeline.ranks[0].memory;
  REQUIRE(events.size() >= 4);
  CHECK(events[0] == MemoryEvent{0, {100, 0, 0, 0, 0, 0}});
  CHECK(events[1] == MemoryEvent{0, {100, 0, 0, 10, 0, 7}});
  // The times of compute include the bytes read and written: 5 + 100 + 7, then 5 + 7 + 10.
  CHECK(events[2] == MemoryEvent{134, {100, 0, 0, 10, 0, 0}});
  CHECK(events.back().live == LiveBytes{100, 0, 0, 0, 0, 0});
  CHECK(std::is_sorted(events.begin(), events.end(),
                       [](const auto& a, const auto& c) { return a.time < c.time; }));
}

TEST_CASE("writing a view brings its bucket to life, once") {
  PlanBuilder b(1);
  const Index bucket = b.buffer(64, Scope::step, Category::gradients), first = b.view(bucket),
              second = b.view(bucket);
  b.entry(0, b.segment(PassKind::backward, {b.compute(1, {}, {first}), b.compute(1, {}, {second}),
                                            PlanBuilder::free({first, bucket}), b.compute(1, {}, {})}));
  const Timeline timeline = simulate(b.plan);
  CHECK(timeline.ranks[0].peak.bytes == 64);
  CHECK(timeline.ranks[0].peak.live == LiveBytes{0, 64, 0, 0, 0, 0});
}

TEST_CASE("the walk by segments agrees with one set of live buffers") {
  const int microbatches = GENERATE(1, 2, 5);
  const int window = GENERATE(1, 2, 4);  // forwards ahead of backwards
  const bool recompute = GENERATE(true, false);
  CAPTURE(microbatches, window, recompute);
  PlanBuilder b(1);
  const Index a = b.buffer(13), c = b.buffer(29), d = b.buffer(5, Scope::pass), g = b.buffer(31, Scope::step),
              h = b.buffer(17, Scope::chunk);
  std::vector<Instruction> forward = {b.compute(1, {}, {a}), b.compute(1, {}, {d}), b.compute(1, {d}, {c}),
                                      PlanBuilder::free({d})};
  std::vector<Instruction> backward;
  if (recompute) {
    forward.push_back(PlanBuilder::free({c}));
    backward.push_back(b.compute(1, {a}, {c}));
  }
  for (const Instruction& i :
       {b.compute(1, {c}, {g, d}), PlanBuilder::free({c, a}), b.compute(1, {d}, {h}), PlanBuilder::free({d})})
    backward.push_back(i);
  const Index f = b.segment(PassKind::forward, forward), back = b.segment(PassKind::backward, backward);
  const Index step = b.segment(PassKind::step, {b.compute(1, {g}, {}), PlanBuilder::free({g, h})});
  for (int m = 0; m < microbatches + window; ++m) {
    if (m < microbatches) b.entry(0, f, m);
    if (m >= window) b.entry(0, back, m - window);
    if (m == 2) b.entry(0, step);
  }
  const MemoryWalk walk = walk_memory(b.plan, b.plan.programs[0], WhichStep::steady, MemoryDetail::entries);
  CHECK(walk.peak.bytes == reference_peak(b.plan, 0));
}

}  // namespace simrun
