#include "schedules/device_mesh.h"

#include <catch2/catch.hpp>
#include <set>

#include "schedules/layout.h"

namespace simrun {
namespace {

using Axes = std::vector<AxisId>;

TEST_CASE("device mesh: DeepSeek-V3 on 1,024 GPUs: 64 expert-parallel ranks span tp 2 x dp 32") {
  const DeviceMesh mesh = device_mesh({.tp = 2, .dp = 32, .ep = 64});
  REQUIRE(mesh.mesh.axes.size() == 3);
  CHECK(mesh.axes("tp") == Axes{0});
  CHECK(mesh.axes("dp") == Axes{2});
  CHECK(mesh.axes("ep") == Axes{2, 0});
  CHECK(mesh.axes("edp").empty());
  CHECK(mesh.size(mesh.axes("ep")) == 64);
}

TEST_CASE("device mesh: ep 4 over tp 2 x dp 8 cuts dp into pairs and quadruples") {
  const DeviceMesh mesh = device_mesh({.tp = 2, .dp = 8, .ep = 4});
  CHECK(mesh.mesh.axes == std::vector<Axis>{{"tp", 2}, {"cp", 1}, {"dp0", 2}, {"dp1", 4}});
  CHECK(mesh.axes("ep") == Axes{2, 0});
  CHECK(mesh.axes("edp") == Axes{3});
  CHECK(mesh.axes("dp") == Axes{3, 2});
  CHECK(mesh.words({3, 2}) == "dp");
  CHECK(mesh.words({2, 0}) == "ep");
  CHECK(mesh.words({3}) == "edp");
}

TEST_CASE("device mesh: divisions that cut across each other are refused with both sizes") {
  CHECK_THROWS_WITH(device_mesh({.tp = 3, .dp = 2, .ep = 2}),
                    Catch::Contains("groups of 2 and of 3 neighbouring ranks"));
  CHECK_THROWS_WITH(device_mesh({.tp = 2, .dp = 3, .ep = 4}), Catch::Contains("do not divide"));
}

TEST_CASE("device mesh: every logical axis joins just the ranks of its group, for all small shapes") {
  for (const std::int64_t tp : {1, 2, 4})
    for (const std::int64_t cp : {1, 2})
      for (const std::int64_t dp : {1, 2, 4, 6})
        for (const std::int64_t etp : {1, 2})
          for (const std::int64_t ep : {1, 2, 4}) {
            const std::int64_t ranks = tp * cp * dp;
            std::set<std::int64_t> cuts{1, tp, tp * cp, ranks, etp, etp * ep};
            bool nested = ranks % (etp * ep) == 0;
            for (auto cut = std::next(cuts.begin()); nested && cut != cuts.end(); ++cut)
              nested = *cut % *std::prev(cut) == 0;
            if (!nested) continue;
            const DeviceMesh mesh = device_mesh({.tp = tp, .cp = cp, .dp = dp, .etp = etp, .ep = ep});
            CHECK(mesh.size(mesh.axes("tp")) == tp);
            CHECK(mesh.size(mesh.axes("cp")) == cp);
            CHECK(mesh.size(mesh.axes("dp")) == dp);
            CHECK(mesh.size(mesh.axes("etp")) == etp);
            CHECK(mesh.size(mesh.axes("ep")) == ep);
            CHECK(mesh.size(mesh.axes("edp")) * ep * etp == ranks);
          }
}

// Axes: tp 0, cp 1, dp inner 2, dp outer 3. Dimensions: sequence 0, heads 1, experts 2, capacity 3.
std::vector<Opcode> opcodes(const Layout& from, const Layout& to) {
  std::vector<Opcode> result;
  const std::vector<Conversion> steps = conversions(from, to);
  for (const Conversion& step : steps) result.push_back(step.opcode);
  if (!steps.empty()) CHECK(steps.back().result == to);
  return result;
}

TEST_CASE("conversions: a sequence over cp x tp gives up tp by a gather and takes it by a reduce-scatter") {
  const Layout both{{{0, {1, 0}}}, {}, {}};
  const Layout outer{{{0, {1}}}, {}, {}};
  const Layout partial{{{0, {1}}}, {0}, {}};
  CHECK(opcodes(both, outer) == std::vector{Opcode::all_gather});
  CHECK(conversions(both, outer)[0].axes == Axes{0});
  CHECK(opcodes(partial, both) == std::vector{Opcode::reduce_scatter});
  CHECK(conversions(partial, both)[0].axes == Axes{0});
}

TEST_CASE("conversions: Ulysses moves cp from the sequence to the heads behind tp by one all-to-all") {
  const Layout rows{{{0, {1}}, {1, {0}}}, {}, {}};
  const Layout heads{{{1, {0, 1}}}, {}, {}};
  CHECK(opcodes(rows, heads) == std::vector{Opcode::all_to_all});
  CHECK(opcodes(heads, rows) == std::vector{Opcode::all_to_all});
}

TEST_CASE("conversions: tokens go to their experts by one all-to-all, whatever axes those span") {
  const Layout tokens{{{3, {3, 2, 0}}}, {}, {}};
  const Layout experts{{{2, {2, 0}}, {3, {3}}}, {}, {}};
  CHECK(opcodes(tokens, experts) == std::vector{Opcode::all_to_all});
  CHECK(conversions(tokens, experts)[0].axes == Axes{2, 0});
  CHECK(opcodes(experts, tokens) == std::vector{Opcode::all_to_all});
}

TEST_CASE("conversions: expert tensor parallelism gathers behind the all-to-all and scatters before it") {
  const Layout tokens{{{3, {3, 0, 2}}}, {}, {}};  // edp, etp, ep
  const Layout experts{{{2, {2}}, {3, {3}}}, {}, {}};
  const Layout products{{{2, {2}}, {3, {3}}}, {0}, {}};
  CHECK(opcodes(tokens, experts) == std::vector{Opcode::all_to_all, Opcode::all_gather});
  CHECK(opcodes(products, tokens) == std::vector{Opcode::reduce_scatter, Opcode::all_to_all});
}

}  // namespace
}  // namespace simrun
