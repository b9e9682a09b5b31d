#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "schedules/compile.h"
#include "sim/simulate.h"
#include "sim/topology.h"
#include "sim/worker.h"
#include "tests/jobs.h"
#include "tests/sim/random_plan.h"

namespace simrun {

namespace {

// A random plan whose pipeline ranks are nodes of two GPUs with a NIC each: tensor-parallel traffic goes
// over NVLink, the rest over the network.
Plan on_nodes(unsigned seed, bool data_parallel) {
  constexpr Picoseconds microsecond = 1'000'000;  // and, at 1 byte per picosecond, 1 MB
  Plan plan = random_plan(seed, {microsecond, data_parallel});
  plan.cluster.nodes = static_cast<std::int64_t>(plan.stages.size());
  plan.cluster.gpus_per_node = plan.cluster.nics_per_node = 2;
  plan.cluster.intra_node.latency_s = 0.7e-6;
  plan.cluster.inter_node.latency_s = 1.9e-6;
  if (seed % 3 == 1) plan.cluster.inter_node.flow_bandwidth = 0.4e12;  // of links of 1 byte per picosecond
  return plan;
}

// Links that an instruction of this pipeline rank moves bytes over, all its GPUs together: found here from
// the routes between the GPUs, not from what the engines use.
std::set<LinkIndex> links_of(const Plan& plan, const Topology& topology, std::int32_t rank,
                             const Instruction& instruction) {
  std::set<LinkIndex> links;
  const auto add = [&](std::int64_t from, std::int64_t to) {
    if (from == to) return;
    const Route route = topology.route(from, to);
    links.insert(route.links().begin(), route.links().end());
  };
  const Communication& c = plan.communications[instruction.communication];
  const auto gpu = [&](std::int32_t stage, std::int64_t i) {
    return plan.stages[static_cast<std::size_t>(stage)].devices[0].first + i;
  };
  for (std::int64_t i = 0; i < 2; ++i) {
    if (instruction.opcode == Opcode::send) add(gpu(rank, i), gpu(c.peer.pipeline_rank, i));
    if (instruction.opcode == Opcode::recv) add(gpu(c.peer.pipeline_rank, i), gpu(rank, i));
    if (instruction.opcode != Opcode::all_reduce) continue;
    if (c.group.pipeline_ranks.empty()) add(gpu(rank, i), gpu(rank, 1 - i));
    for (std::size_t s = 0; s < c.group.pipeline_ranks.size(); ++s)
      add(gpu(c.group.pipeline_ranks[s], i),
          gpu(c.group.pipeline_ranks[(s + 1) % c.group.pipeline_ranks.size()], i));
  }
  return links;
}

struct Flying {
  Picoseconds start = 0, end = 0;
  std::set<LinkIndex> links;
  // Both ends of an exchange are the same flight.
  bool same_as(const Flying& other) const {
    return start == other.start && end == other.end && links == other.links;
  }
};

enum class Overlap { none, on_disjoint_links, on_shared_links };

// What the transfers of a timeline have to do with one another.
Overlap overlap_of(const Plan& plan, const Timeline& timeline) {
  const Topology topology(plan.cluster);
  std::vector<Flying> flying;
  for (const RankTimeline& rank : timeline.ranks)
    for (const Lane& lane : rank.lanes)
      for (const Interval& i : lane.intervals) {
        const Program& program = plan.programs[static_cast<std::size_t>(rank.pipeline_rank)];
        const Instruction& instruction =
            plan.segments[program.entries[i.entry].segment].instructions[i.instruction];
        if (!is_communication(instruction.opcode) || i.duration == 0) continue;
        flying.push_back(
            {i.start, i.start + i.duration, links_of(plan, topology, rank.pipeline_rank, instruction)});
      }
  Overlap found = Overlap::none;
  for (std::size_t a = 0; a < flying.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) {
      const Flying &x = flying[a], &y = flying[b];
      if (x.same_as(y) || x.start >= y.end || y.start >= x.end) continue;
      const bool shared =
          std::any_of(x.links.begin(), x.links.end(), [&](LinkIndex link) { return y.links.contains(link); });
      if (shared) return Overlap::on_shared_links;
      found = Overlap::on_disjoint_links;
    }
  return found;
}

Timeline timed(const Plan& plan, EngineChoice engine, Detail detail = Detail::totals) {
  return simulate(plan, {detail, engine});
}

}  // namespace

TEST_CASE("where no transfers share a link at a time, SimGrid agrees with the fast engine", "[long]") {
  int compared = 0, concurrent = 0, shared = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    const Plan plan = on_nodes(seed, /*data_parallel=*/seed % 8 == 0);
    const Timeline fast = timed(plan, EngineChoice::fast, Detail::instructions);
    const Overlap overlap = overlap_of(plan, fast);
    if (overlap == Overlap::on_shared_links) {
      ++shared;
      continue;
    }
    ++compared;
    concurrent += overlap == Overlap::on_disjoint_links ? 1 : 0;
    const Timeline simgrid = timed(plan, EngineChoice::simgrid);
    REQUIRE(simgrid.engine == "simgrid");
    // Far inside 0.1 %: only roundings to picoseconds differ.
    REQUIRE(static_cast<double>(simgrid.step) == Approx(static_cast<double>(fast.step)).epsilon(1e-7));
    for (std::size_t r = 0; r < simgrid.ranks.size(); ++r) {
      const RankTimeline& rank = simgrid.ranks[r];
      REQUIRE(rank.totals.compute + rank.totals.exposed_total() + rank.totals.bubble_total() == simgrid.step);
    }
  }
  CAPTURE(compared, concurrent, shared);
  CHECK(compared >= 60);
  CHECK(3 * concurrent >= compared);
}

TEST_CASE("where transfers share links, SimGrid is never faster, and within the fast engine's bound",
          "[long]") {
  int slower = 0;
  for (unsigned seed = 0; seed < 120; ++seed) {
    CAPTURE(seed);
    const Plan plan = on_nodes(seed, /*data_parallel=*/true);
    const Timeline fast = timed(plan, EngineChoice::fast, Detail::instructions);
    if (overlap_of(plan, fast) != Overlap::on_shared_links) continue;
    const Timeline simgrid = timed(plan, EngineChoice::simgrid);
    const double excess = static_cast<double>(simgrid.step - fast.step) / static_cast<double>(fast.step);
    CHECK(excess > -1e-7);
    CHECK(excess <= fast.contention_bound + 1e-7);
    slower += excess > 1e-7 ? 1 : 0;
  }
  CHECK(slower > 20);
}

TEST_CASE("two runs with SimGrid give the same timeline to the last bit") {
  const Plan plan = on_nodes(7, /*data_parallel=*/true);
  CHECK(timed(plan, EngineChoice::simgrid, Detail::instructions) ==
        timed(plan, EngineChoice::simgrid, Detail::instructions));
}

// 4 groups of 20 GPUs, 2 of each node: on a DGX-1 those of two corners take another way than those of the
// others, and all share the node's one port.
TEST_CASE("exchanges of unlike ways share a port in both engines: within 0.1 %") {
  const Plan plan = compile(job_from(small_gpt(2, 4, 1, 1), {{"model.hidden_size", "512"},
                                                             {"training.micro_batch_size", "1"},
                                                             {"training.global_batch_size", "20"},
                                                             {"cluster.from", "aws_p3_16xlarge"},
                                                             {"cluster.nodes", "10"}}));
  const Timeline fast = simulate(plan, {.engine = EngineChoice::fast});
  const Timeline simgrid = simulate(plan, {.engine = EngineChoice::simgrid});
  CHECK(static_cast<double>(fast.step) == Approx(static_cast<double>(simgrid.step)).epsilon(1e-3));
}

}  // namespace simrun
