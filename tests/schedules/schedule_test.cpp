#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "schedules/gpipe.h"
#include "schedules/interleaved_1f1b.h"
#include "schedules/one_f_one_b.h"
#include "schedules/pipeline_schedule.h"
#include "schedules/schedule_grid.h"

namespace simrun {
namespace {

struct Vector {
  std::string schedule;
  PipelineShape shape;
  std::vector<int> peaks;  // by rank
  std::vector<std::string> ranks;
};

std::vector<Vector> read_vectors() {
  std::ifstream file(SIMRUN_SOURCE_DIR "/tests/data/schedule-vectors.txt");
  std::vector<Vector> vectors;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream header(line);
    Vector vector;
    std::string peaks;
    header >> vector.schedule >> vector.shape.ranks >> vector.shape.microbatches >>
        vector.shape.virtual_stages >> vector.shape.group_size >> peaks;
    std::istringstream list(peaks);
    for (std::string peak; std::getline(list, peak, ',');) vector.peaks.push_back(std::stoi(peak));
    for (int rank = 0; rank < vector.shape.ranks && std::getline(file, line); ++rank)
      vector.ranks.push_back(line);
    vectors.push_back(vector);
  }
  return vectors;
}

int peak_alive(const RankOps& ops) {
  int alive = 0, peak = 0;
  for (const Op& op : ops) {
    alive += op.kind == OpKind::forward ? 1 : -1;
    peak = std::max(peak, alive);
  }
  return peak;
}

bool runs_each_pass_once(const Schedule& schedule, const PipelineShape& shape) {
  std::set<Op> seen;
  for (std::size_t rank = 0; rank < schedule.size(); ++rank)
    for (const Op& op : schedule[rank]) {
      if (op.stage % shape.ranks != static_cast<int>(rank)) return false;
      if (!seen.insert(op).second) return false;
      // Its own forward comes first.
      if (op.kind == OpKind::backward && !seen.contains({OpKind::forward, op.stage, op.microbatch}))
        return false;
    }
  const auto passes = 2 * shape.ranks * shape.virtual_stages * shape.microbatches;
  return seen.size() == static_cast<std::size_t>(passes) && seen.begin()->microbatch == 0 &&
         std::all_of(seen.begin(), seen.end(),
                     [&](const Op& op) { return op.microbatch < shape.microbatches; });
}

// Longest path with free transfers: the end of the last pass, or -1 if the ranks wait for each other for
// ever.
int makespan(const Schedule& schedule, int stages, int forward, int backward) {
  std::map<Op, int> end;
  std::vector<std::size_t> next(schedule.size(), 0);
  std::vector<int> free_at(schedule.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < schedule.size(); ++rank)
      for (; next[rank] < schedule[rank].size(); ++next[rank], moved = true) {
        const Op& op = schedule[rank][next[rank]];
        const bool is_forward = op.kind == OpKind::forward;
        const bool has_input = is_forward ? op.stage > 0 : op.stage + 1 < stages;
        const Op input = {op.kind, is_forward ? op.stage - 1 : op.stage + 1, op.microbatch};
        if (has_input && !end.contains(input)) break;
        free_at[rank] =
            std::max(free_at[rank], has_input ? end[input] : 0) + (is_forward ? forward : backward);
        end[op] = free_at[rank];
      }
  }
  for (std::size_t rank = 0; rank < schedule.size(); ++rank)
    if (next[rank] < schedule[rank].size()) return -1;
  return *std::max_element(free_at.begin(), free_at.end());
}

}  // namespace

TEST_CASE("schedules equal their reference implementations op for op") {
  const std::vector<Vector> vectors = read_vectors();
  REQUIRE(vectors.size() == 42);
  for (const Vector& vector : vectors) {
    CAPTURE(vector.schedule, vector.shape.ranks, vector.shape.microbatches, vector.shape.virtual_stages);
    const ScheduleEntry* entry = find_schedule(vector.schedule);
    REQUIRE(entry);
    const Schedule schedule = entry->build(vector.shape);
    REQUIRE(schedule.size() == vector.ranks.size());
    for (std::size_t rank = 0; rank < schedule.size(); ++rank) {
      CHECK(to_string(schedule[rank]) == vector.ranks[rank]);
      CHECK(peak_alive(schedule[rank]) == vector.peaks[rank]);
    }
  }
}

TEST_CASE("GPipe runs all forwards, then all backwards in increasing order") {
  CHECK(to_text(gpipe(2, 3)) == "0F0 0F1 0F2 0B0 0B1 0B2\n1F0 1F1 1F2 1B0 1B1 1B2\n");
}

TEST_CASE("1F1B: the last rank alternates from its first microbatch") {
  const Schedule schedule = one_f_one_b(/*ranks=*/3, /*microbatches=*/4);
  CHECK(to_string(schedule[0]) == "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3");
  CHECK(to_string(schedule[2]) == "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3");
}

TEST_CASE("interleaved 1F1B: rank 0 of 2 warms up with 2 forwards per hop and one group") {
  // w = min(4, 2 x (2 - 1 - 0) + (2 - 1) x 2) = 4; rank 1: w = 2.
  const Schedule schedule = interleaved_1f1b({.ranks = 2, .virtual_stages = 2, .microbatches = 2});
  CHECK(to_string(schedule[0]) == "0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1");
  CHECK(to_string(schedule[1]) == "1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1");
}

TEST_CASE("the CSV is a row per rank with an op per cell") {
  CHECK(to_csv(one_f_one_b(2, 2)) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
}

TEST_CASE(
    "every small shape is complete, causal, within its memory bound and has the bubble of its closed form") {
  const int forward = 2, backward = 3;
  for (const ScheduleEntry& entry : pipeline_schedules())
    for (int p = 1; p <= 8; ++p)
      for (int m = 1; m <= 16; ++m)
        for (int v = 1; v <= 4; ++v) {
          const PipelineShape shape = {.ranks = p, .virtual_stages = v, .microbatches = m};
          if (!entry.refusal(shape).empty()) continue;
          CAPTURE(entry.name, p, m, v);
          const Schedule schedule = entry.build(shape);
          CHECK(runs_each_pass_once(schedule, shape));
          // Every rank computes m v (F + B) and idles (p - 1)(F + B).
          CHECK(makespan(schedule, p * v, forward, backward) == (m * v + p - 1) * (forward + backward));
          for (int r = 0; r < p; ++r) {
            const int bound = entry.name == "gpipe"  ? m
                              : entry.name == "1f1b" ? std::min(m, p - r)
                                                     : std::min(m * v, (v - 1) * p + 2 * (p - 1 - r) + 1);
            CHECK(peak_alive(schedule[static_cast<std::size_t>(r)]) == bound);
          }
        }
}

TEST_CASE("interleaved 1F1B: every group size that the rule accepts runs") {
  for (int p = 2; p <= 6; ++p)
    for (int m = 1; m <= 16; ++m)
      for (int g = 1; g <= 17; ++g) {
        const PipelineShape shape = {.ranks = p, .virtual_stages = 3, .microbatches = m, .group_size = g};
        CAPTURE(p, m, g);
        const bool accepted = p <= g && g <= m && (m % g == 0 || m % g >= p);
        REQUIRE(interleaved_refusal(shape).empty() == accepted);
        if (!accepted) continue;
        const Schedule schedule = interleaved_1f1b(shape);
        CHECK(runs_each_pass_once(schedule, shape));
        CHECK(makespan(schedule, p * 3, 1, 2) == (m * 3 + p - 1) * 3);
        for (int r = 0; r < p; ++r)
          CHECK(peak_alive(schedule[static_cast<std::size_t>(r)]) ==
                std::min(m * 3, 2 * g + 2 * (p - 1 - r) + 1));
      }
}

TEST_CASE("a refusal names the rule, the numbers and the nearest shapes that work") {
  CHECK(interleaved_refusal({.ranks = 4, .virtual_stages = 2, .microbatches = 9}) ==
        "9 microbatches in groups of 4 leave a last group of 1, which must be empty or at least the 4 "
        "pipeline ranks; "
        "8 and 12 microbatches would do");
  CHECK(interleaved_refusal({.ranks = 4, .virtual_stages = 2, .microbatches = 3}) ==
        "interleaved_1f1b with groups of 4 microbatches needs at least 4 of them, not 3; 4 microbatches "
        "would do");
  CHECK(interleaved_refusal({.ranks = 4, .virtual_stages = 2, .microbatches = 9, .group_size = 5}).empty());
  CHECK(
      interleaved_refusal({.ranks = 4, .virtual_stages = 2, .microbatches = 8, .group_size = 2}) ==
      "interleaved_1f1b needs a microbatch group of at least the 4 pipeline ranks, not 2; 4 is the default");
  CHECK(interleaved_refusal({.ranks = 4, .virtual_stages = 1, .microbatches = 8}) ==
        "interleaved_1f1b needs at least 2 virtual stages per rank, not 1; 1f1b runs 1");
  CHECK(find_schedule("1f1b")->refusal({.ranks = 4, .virtual_stages = 2, .microbatches = 8}) ==
        "this schedule runs 1 virtual stage per rank, not 2; interleaved_1f1b runs several");
  CHECK_FALSE(find_schedule("gpipe")->refusal({.ranks = 4, .microbatches = 0}).empty());
}

TEST_CASE("the registry finds names and aliases") {
  CHECK(find_schedule("afab") == find_schedule("gpipe"));
  CHECK(find_schedule("interleaved_1f1b")->name == "interleaved_1f1b");
  CHECK(find_schedule("zigzag") == nullptr);
}

TEST_CASE("a large interleaved schedule is built in well under half a second") {
  const auto start = std::chrono::steady_clock::now();
  const Schedule schedule = interleaved_1f1b({.ranks = 64, .virtual_stages = 8, .microbatches = 4096});
  CHECK(schedule[63].size() == 2 * 8 * 4096);
  CHECK(std::chrono::steady_clock::now() - start <
        std::chrono::seconds(2));  // ten times what a debug build takes
}

}  // namespace simrun
