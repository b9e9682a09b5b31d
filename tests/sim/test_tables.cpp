#include <catch2/catch.hpp>
#include <random>

#include "schedules/extent_tables.h"
#include "sim/kernel_cost.h"
#include "sim/memory.h"
#include "sim/simulate.h"
#include "tests/sim/plan_builder.h"
#include "tests/sim/random_plan.h"
#include "tests/sim/reference_engine.h"

namespace simrun {

namespace {

// On PlanBuilder's stages of two tensor-parallel GPUs; axes {0}: by GPU.
std::int32_t add_table(Plan& plan, std::vector<std::uint8_t> axes, std::vector<std::int64_t> values,
                       bool per_microbatch = false) {
  plan.extent_tables.push_back(
      {ExtentSource::coordinates, 0, std::move(axes), std::move(values), "", per_microbatch});
  return static_cast<std::int32_t>(plan.extent_tables.size() - 1);
}

Instruction with_work(Instruction instruction, std::int32_t table) {
  instruction.work_table = table;
  return instruction;
}

// Lets what an instruction is paid for, its last buffer, come from a table below the present bound.
void pay_from(Plan& plan, const Instruction& instruction, std::int32_t table) {
  const bool receives = instruction.opcode == Opcode::recv;
  const bool by_input = is_communication(instruction.opcode) && !receives;
  plan.buffers[by_input ? instruction.inputs.back() : instruction.outputs.back()].dims[0].table = table;
}

constexpr auto imbalance = static_cast<std::size_t>(BubbleCause::imbalance);
constexpr auto tensor = static_cast<std::size_t>(Traffic::tensor);

}  // namespace

TEST_CASE("a GPU with half the rows waits for the other to the picosecond") {
  PlanBuilder b(1);
  const std::uint8_t tp = b.stream("tp", Traffic::tensor);
  b.plan.dimension_names = {"bytes", "rows", "in", "out"};
  const std::int32_t rows = add_table(b.plan, {0}, {16384, 8192});
  const Index x = b.token(), w = b.token(Scope::run), y = b.token(), reduced = b.token();
  b.plan.buffers[x].dims = {{1, rows, 16384}, {2, -1, 512}};
  b.plan.buffers[w].dims = {{2, -1, 512}, {3, -1, 256}};
  b.plan.buffers[y].dims = {{1, rows, 16384}, {3, -1, 256}};
  for (const Index buffer : {x, w, y}) b.plan.buffers[buffer].dtype = Dtype::bf16;
  Instruction gemm = b.compute(0, {x, w}, {y});
  gemm.opcode = Opcode::gemm;
  gemm.outputs.pop_back();
  const Instruction reduce = b.all_reduce(tp, 700, {y}, {reduced});
  b.plan.communications[reduce.communication].group.axes = {0};
  Instruction paid = reduce;
  paid.inputs.erase(paid.inputs.begin());  // y orders it but costs it nothing
  paid.waits_for = {y};
  b.entry(0, b.segment(PassKind::forward, {gemm, paid, b.compute(50, {reduced}, {})}));

  GemmShape shape{.m = 16384, .n = 256, .k = 512};
  const Picoseconds slow = to_picoseconds(gemm_seconds(b.plan.cluster.gpu, shape));
  shape.m = 8192;
  const Picoseconds quick = to_picoseconds(gemm_seconds(b.plan.cluster.gpu, shape));
  CHECK(slow == 2 * quick);  // 64 x 2 tiles of 256 x 128 and half as many, one after the other
  for (const EngineChoice engine : {EngineChoice::fast, EngineChoice::simgrid}) {
    const Timeline timeline = simulate(b.plan, {Detail::totals, engine});
    CHECK(timeline.step == slow + 700 + 50);
    REQUIRE(timeline.ranks.size() == 2);
    const RankTotals &busy = timeline.ranks[0].totals, &idle = timeline.ranks[1].totals;
    CHECK(busy.compute == slow + 50);
    CHECK(busy.bubble_total() == 0);
    CHECK(idle.compute == quick + 50);
    CHECK(idle.bubble[imbalance] == slow - quick);
    CHECK(idle.bubble_total() == slow - quick);
    CHECK(busy.exposed[tensor] == 700);
    CHECK(idle.exposed[tensor] == 700);
    CHECK(timeline.ranks[0].multiplicity == 1);
    CHECK(timeline.ranks[1].device == 1);
  }
}

// Per microbatch, on both GPUs:   kernel 100 x   0.5  1  2        = 350 ps
// and the all-reduce of           1000 B x the larger of the GPUs' shares, 0.25 1 and 1 0.5 in turn
TEST_CASE("shares of the work by microbatch add up, a collective takes its busiest member's") {
  PlanBuilder b(1);
  const std::uint8_t tp = b.stream("tp", Traffic::tensor);
  const Index y = b.token(), reduced = b.token();
  const std::int32_t work = add_table(b.plan, {}, {500'000, 1'000'000, 2'000'000}, true);
  const std::int32_t bytes = add_table(b.plan, {0}, {250'000, 1'000'000, 600'000, 500'000}, true);
  const Index pass = b.segment(PassKind::forward, {with_work(b.compute(100, {}, {y}), work),
                                                   with_work(b.all_reduce(tp, 1000, {y}, {reduced}), bytes),
                                                   b.compute(0, {reduced}, {})});
  for (int m = 0; m < 3; ++m) b.entry(0, pass, m);
  // Rows of the second table: microbatches 0 and 2 have the first, 1 the second.
  const Picoseconds step = (50 + 1000) + (100 + 600) + (200 + 1000);
  CHECK(simulate(b.plan).step == step);
  CHECK(simulate(b.plan, {Detail::totals, EngineChoice::simgrid}).step == step);
  CHECK(simulate(b.plan).ranks.size() == 1);  // both GPUs come out alike
  CHECK(simulate(b.plan).ranks[0].multiplicity == 2);
}

TEST_CASE("a kernel without work is not launched, one with any pays the whole launch") {
  PlanBuilder b(1);
  b.plan.cluster.gpu.kernel_launch_s = 40e-12;
  const std::int32_t work = add_table(b.plan, {}, {0, 1'000'000, 250'000, 1'500'000}, true);
  const std::int32_t rows = add_table(b.plan, {}, {0, 80, 80, 80}, true);
  const Index busy = b.segment(PassKind::forward, {with_work(b.compute(100, {}, {}), work)});
  const Instruction sized = b.compute(80, {}, {});
  pay_from(b.plan, sized, rows);
  const Index filled = b.segment(PassKind::forward, {sized});
  for (int m = 0; m < 4; ++m) b.entry(0, busy, m);
  CHECK(simulate(b.plan).step == 0 + 140 + (40 + 25) + (40 + 150));
  for (Entry& entry : b.plan.programs[0].entries) entry.segment = filled;
  CHECK(simulate(b.plan).step == 0 + 3 * (40 + 80));
}

TEST_CASE("a plan whose tables differ by microbatch only is still simulated by one GPU of each rank") {
  PlanBuilder b(1);
  const std::int32_t work = add_table(b.plan, {}, {500'000, 2'000'000}, true);
  const Index pass = b.segment(PassKind::forward, {with_work(b.compute(100, {}, {}), work)});
  for (int m = 0; m < 4; ++m) b.entry(0, pass, m);
  const Timeline timeline = simulate(b.plan, {Detail::instructions});
  CHECK(timeline.step == 2 * (50 + 200));
  CHECK(timeline.instructions == 4);
  CHECK(timeline.ranks[0].multiplicity == 2);
  REQUIRE(timeline.ranks[0].lanes[0].intervals.size() == 4);
  CHECK(timeline.ranks[0].lanes[0].intervals[3].duration == 200);
}

TEST_CASE("memory is that of each GPU's extents, in the microbatches that are alive together") {
  PlanBuilder b(1);
  const Index weights = b.buffer(100, Scope::run, Category::weights), kept = b.buffer(9);
  b.plan.buffers[weights].dims[0].table = add_table(b.plan, {0}, {30, 100});
  // microbatch  0  1  2 of GPU 0: 1 9 5, of GPU 1: 7 3 2
  b.plan.buffers[kept].dims[0].table = add_table(b.plan, {0}, {1, 7, 9, 3, 5, 2}, true);
  Instruction makes;
  makes.opcode = Opcode::init;  // takes no time
  makes.outputs = {weights, kept};
  const Index forward = b.segment(PassKind::forward, {makes, b.compute(1, {}, {})});
  const Index backward = b.segment(PassKind::backward, {b.compute(1, {}, {}), PlanBuilder::free({kept})});
  for (int m = 0; m < 3; ++m) {
    b.entry(0, forward, m);
    if (m > 0) b.entry(0, backward, m - 1);
  }
  b.entry(0, backward, 2);
  const Timeline timeline = simulate(b.plan, {Detail::passes});
  REQUIRE(timeline.ranks.size() == 2);  // equal times, other peaks
  CHECK(timeline.ranks[0].totals == timeline.ranks[1].totals);
  CHECK(timeline.ranks[0].peak.bytes == 30 + 9 + 5);  // microbatches 1 and 2 together
  CHECK(timeline.ranks[1].peak.bytes == 100 + 7 + 3);
  CHECK(timeline.ranks[1].memory.empty());  // only the first GPU is recorded
  const Program& program = b.plan.programs[0];
  CHECK(walk_memory(b.plan, program, WhichStep::steady, MemoryDetail::peak).peak.bytes == 110);
}

TEST_CASE("a buffer that outlives its microbatch has its largest extent") {
  PlanBuilder b(1);
  const Index sums = b.buffer(9, Scope::step), run = b.buffer(20, Scope::run);
  const std::int32_t by_microbatch = add_table(b.plan, {0}, {1, 7, 9, 3}, true);
  b.plan.buffers[sums].dims[0].table = by_microbatch;
  b.plan.buffers[run].dims[0].table = by_microbatch;
  b.entry(0, b.segment(PassKind::forward, {b.compute(1, {run}, {sums})}), 0);
  const auto peak = [&](std::int64_t gpu) {
    return walk_memory(b.plan, b.plan.programs[0], WhichStep::steady, MemoryDetail::peak, {gpu}).peak.bytes;
  };
  CHECK(peak(0) == 9 + 9);
  CHECK(peak(1) == 7 + 7);
}

namespace {

// Tables on about a third of what instructions are paid for, and on a quarter of the instructions. Times are
// multiples of 24, so that quarters of them and what two to four ranks reduce in are whole.
Plan with_random_tables(Plan plan, unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](unsigned bound) { return static_cast<std::int64_t>(random() % bound); };
  const auto values = [&](std::size_t count, auto value) {
    std::vector<std::int64_t> made;
    for (std::size_t v = 0; v < count; ++v) made.push_back(value());
    return made;
  };
  const auto table = [&](auto value) {
    const bool by_gpu = pick(3) > 0, per_microbatch = pick(2) == 0;
    const auto rows = static_cast<std::size_t>(per_microbatch ? 1 + pick(3) : 1);
    const std::vector<std::uint8_t> axes(by_gpu ? 1 : 0, 0);
    return add_table(plan, axes, values(rows * (by_gpu ? 2 : 1), value), per_microbatch);
  };
  std::vector<std::int32_t> works;
  for (int i = 0; i < 3; ++i) works.push_back(table([&] { return 250'000 * pick(7); }));
  for (Buffer& buffer : plan.buffers)
    for (BufferDim& dim : buffer.dims)
      if (const std::int64_t bound = dim.extent; bound > 0 && pick(3) == 0)
        dim.table = table([&] { return 24 * pick(static_cast<unsigned>(bound / 24) + 1); });
  for (Segment& segment : plan.segments)
    for (Instruction& instruction : segment.instructions)
      if (pick(4) == 0) instruction.work_table = works[static_cast<std::size_t>(pick(3))];
  return plan;
}

// How many GPUs of the rank a timeline has these totals of.
std::int64_t gpus_with(const Timeline& timeline, std::size_t rank, const RankTotals& totals) {
  std::int64_t gpus = 0;
  for (const RankTimeline& of : timeline.ranks)
    if (of.pipeline_rank == static_cast<std::int32_t>(rank) && of.totals == totals) gpus += of.multiplicity;
  return gpus;
}

}  // namespace

TEST_CASE("with random tables the fast engine agrees with the reference engine to the picosecond", "[long]") {
  int uneven = 0;
  for (unsigned seed = 0; seed < 250; ++seed) {
    CAPTURE(seed);
    const Plan plan = with_random_tables(random_plan(seed, {.unit = 24}), seed);
    const ReferenceRun reference = reference_run(plan);
    const Timeline timeline = simulate(plan, {Detail::instructions});
    REQUIRE(timeline.step == reference.step);
    for (const RankTimeline& rank : timeline.ranks)
      for (const Lane& lane : rank.lanes)
        for (const Interval& i : lane.intervals) {
          CAPTURE(rank.pipeline_rank, i.entry, i.instruction);
          const std::size_t gpu = static_cast<std::size_t>(rank.pipeline_rank) * reference.gpus_per_rank;
          REQUIRE(std::pair(i.start, i.duration) == reference.times.at({gpu, i.entry, i.instruction}));
        }
    for (std::size_t g = 0; g < reference.totals.size(); ++g) {
      const std::size_t rank = g / 2, other = g ^ 1u;
      const bool alike = reference.totals[g] == reference.totals[other];
      REQUIRE(gpus_with(timeline, rank, reference.totals[g]) == (alike ? 2 : 1));
      uneven += alike ? 0 : 1;
    }
    // Recording changes nothing.
    REQUIRE(simulate(plan).step == timeline.step);
  }
  CHECK(uneven > 200);
}

// Nodes of two GPUs with a NIC each: a GPU's NVLink carries its tensor-parallel traffic alone. Both ends of a
// transfer name a size of their own here, so those keep their bounds.
TEST_CASE("with tables SimGrid agrees with the fast engine where nobody shares a link", "[long]") {
  int compared = 0, uneven = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Plan plan = with_random_tables(random_plan(seed, {.unit = 24'000'000, .data_parallel = false}), seed);
    for (Segment& segment : plan.segments)
      for (Instruction& what : segment.instructions) {
        if (what.opcode != Opcode::send && what.opcode != Opcode::recv) continue;
        what.work_table = -1;
        for (const auto* list : {&what.inputs, &what.outputs})
          for (const Index buffer : *list) plan.buffers[buffer].dims[0].table = -1;
      }
    plan.cluster.nodes = static_cast<std::int64_t>(plan.stages.size());
    plan.cluster.gpus_per_node = plan.cluster.nics_per_node = 2;
    const Timeline fast = simulate(plan);
    if (fast.contention_bound > 0) continue;
    const Timeline simgrid = simulate(plan, {Detail::totals, EngineChoice::simgrid});
    REQUIRE(static_cast<double>(simgrid.step) == Approx(static_cast<double>(fast.step)).epsilon(1e-7));
    REQUIRE(simgrid.ranks.size() == fast.ranks.size());
    for (std::size_t r = 0; r < fast.ranks.size(); ++r) {
      REQUIRE(simgrid.ranks[r].totals.compute == fast.ranks[r].totals.compute);
      REQUIRE(simgrid.ranks[r].peak == fast.ranks[r].peak);
    }
    ++compared;
    uneven += fast.ranks.size() > plan.stages.size() ? 1 : 0;
  }
  CHECK(compared >= 20);
  CHECK(uneven >= 15);
}

TEST_CASE("with random tables the memory walk agrees with a set of live buffers") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const int microbatches = 2 + static_cast<int>(seed % 5), window = 1 + static_cast<int>(seed % 3);
    PlanBuilder b(1);
    const Index a = b.buffer(240), c = b.buffer(480), d = b.buffer(120, Scope::pass),
                g = b.buffer(720, Scope::step), w = b.buffer(960, Scope::run);
    const Index forward = b.segment(
        PassKind::forward, {b.compute(1, {w}, {a}), b.compute(1, {a}, {d, c}), PlanBuilder::free({d})});
    const Index backward = b.segment(
        PassKind::backward, {b.compute(1, {c}, {g, d}), PlanBuilder::free({c, a}), PlanBuilder::free({d})});
    for (int m = 0; m < microbatches + window; ++m) {
      if (m < microbatches) b.entry(0, forward, m);
      if (m >= window) b.entry(0, backward, m - window);
    }
    b.entry(0, b.segment(PassKind::step, {b.compute(1, {g}, {}), PlanBuilder::free({g})}));
    const Plan plan = with_random_tables(b.plan, seed);
    for (std::size_t gpu = 0; gpu < 2; ++gpu)
      CHECK(walk_memory(plan, plan.programs[0], WhichStep::steady, MemoryDetail::peak,
                        {static_cast<std::int64_t>(gpu)})
                .peak.bytes == reference_peak(plan, 0, gpu));
  }
}

}  // namespace simrun
