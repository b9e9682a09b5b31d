#include <catch2/catch.hpp>

#include "schedules/dualpipe.h"
#include "schedules/evaluate_schedule.h"
#include "schedules/one_f_one_b.h"
#include "schedules/zb_v.h"

namespace simrun {
namespace {

// "rank 1 at 2: message" of each fault.
std::vector<std::string> faults(const Schedule& schedule, const PipelineShape& shape) {
  std::vector<std::string> texts;
  for (const ScheduleFault& fault : check_schedule(schedule, shape))
    texts.push_back("rank " + std::to_string(fault.rank) + " at " + std::to_string(fault.op) + ": " +
                    fault.message);
  return texts;
}

using Texts = std::vector<std::string>;
const PipelineShape small = {.ranks = 2, .microbatches = 2};

TEST_CASE("check: 1F1B, ZB-V and DualPipe are complete, causal and free of deadlock") {
  CHECK(faults(one_f_one_b(2, 2), small).empty());
  CHECK(faults(zb_v(4, 8), {.ranks = 4, .virtual_stages = 2, .microbatches = 8}).empty());
  CHECK(faults(dualpipe(4, 8), {.ranks = 4, .microbatches = 8}).empty());
}

TEST_CASE("check: an op that is missing is named behind the end of its rank's list") {
  Schedule schedule = one_f_one_b(2, 2);
  schedule[1].pop_back();
  CHECK(faults(schedule, small) == Texts{"rank 1 at 3: rank 1 never runs 1B1"});
  CHECK(faults({one_f_one_b(2, 2)[0], {}}, small) == Texts{"rank 1 at 0: rank 1 never runs 1F0 1B0 1F1 1B1"});
}

TEST_CASE("check: an op that runs twice, on the wrong rank, or outside the sizes") {
  Schedule schedule = one_f_one_b(2, 2);
  schedule[0].push_back(schedule[0][0]);
  CHECK(faults(schedule, small) == Texts{"rank 0 at 4: 0F0 runs twice"});
  schedule = one_f_one_b(2, 2);
  schedule[0].push_back(schedule[1].back());
  schedule[1].pop_back();
  CHECK(faults(schedule, small) == Texts{"rank 0 at 4: 1B1: stage 1 lives on rank 1"});
  schedule = one_f_one_b(2, 2);
  schedule[0].push_back({OpKind::forward, 2, 0});
  schedule[1].push_back({OpKind::forward, 1, 2});
  CHECK(faults(schedule, small) == Texts{"rank 0 at 4: 2F0: there are stages 0 to 1",
                                         "rank 1 at 4: 1F2: there are microbatches 0 to 1"});
}

TEST_CASE("check: a backward is behind its forward, whole or split, and W behind its I") {
  const PipelineShape one = {};
  const Op forward = {OpKind::forward, 0, 0};
  const Op whole = {OpKind::backward, 0, 0};
  const Op input = {OpKind::backward_input, 0, 0};
  const Op weight = {OpKind::backward_weight, 0, 0};
  CHECK(faults({{forward, input, weight}}, one).empty());
  CHECK(faults({{whole, forward}}, one) == Texts{"rank 0 at 0: 0B0 runs before 0F0"});
  CHECK(faults({{forward, weight, input}}, one) == Texts{"rank 0 at 1: 0W0 runs before 0I0"});
  CHECK(faults({{forward, input}}, one) == Texts{"rank 0 at 2: rank 0 never runs 0W0"});
  CHECK(faults({{forward, whole, input, weight}}, one) ==
        Texts{"rank 0 at 2: 0I0 beside 0B0: a backward is whole or split",
              "rank 0 at 3: 0W0 beside the full backward 0B0"});
}

TEST_CASE("check: an overlapped pair is a forward and the full backward behind it") {
  Schedule schedule = {{{OpKind::forward, 0, 0}, {OpKind::backward, 0, 0}}};
  schedule[0][1].overlaps_next = true;
  CHECK(faults(schedule, {}) ==
        Texts{"rank 0 at 1: 0B0: only a forward and the full backward behind it run as one overlapped step"});
  schedule = {{{.kind = OpKind::forward, .overlaps_next = true}, {OpKind::backward, 0, 0}}};
  CHECK(faults(schedule, {}) == Texts{"rank 0 at 0: 0B0 waits for 0F0, which rank 0 does not reach"});
}

TEST_CASE("check: ranks that wait for each other, each with the op at which it stands, marked in the grid") {
  Schedule schedule = one_f_one_b(2, 2);
  std::swap(schedule[0][1], schedule[0][2]);
  std::swap(schedule[1][1], schedule[1][2]);
  CHECK(faults(schedule, small) == Texts{"rank 0 at 1: 0B0 waits for 1B0, which rank 1 does not reach",
                                         "rank 1 at 1: 1F1 waits for 0F1, which rank 0 does not reach"});
  CHECK(marked_grid(schedule, check_schedule(schedule, small)) ==
        "rank 0: 0F0 0B0 <-- ERROR HERE 0F1 0B1\n"
        "rank 1: 1F0 1F1 <-- ERROR HERE 1B0 1B1\n");
}

TEST_CASE("check: a long list is reprinted around its faults, one without any from its start") {
  Schedule schedule = one_f_one_b(2, 40);
  std::swap(schedule[0][40], schedule[0][41]);
  const std::string grid = marked_grid(schedule, {{0, 40, ""}});
  CHECK(grid.find("rank 0: ... ") == 0);
  CHECK(grid.find(" <-- ERROR HERE ") != std::string::npos);
  CHECK(grid.find("\nrank 1: 1F0 1B0 1F1 1B1 ") != std::string::npos);
  CHECK(grid.size() < 300);
}

TEST_CASE("check: sizes far beyond the ops are refused before they take memory") {
  CHECK(faults({{{OpKind::forward, 0, 0}}, {}}, {.ranks = 2, .microbatches = 1'000'000}) ==
        Texts{"rank 0 at 1: 1 ops in all; 2 stages and 1000000 microbatches need at least 4000000"});
  CHECK(faults({{}}, small) == Texts{"rank 0 at 0: 1 lists of ops for 2 pipeline ranks"});
}

}  // namespace
}  // namespace simrun
