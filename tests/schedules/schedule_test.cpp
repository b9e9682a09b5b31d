#include <catch2/catch.hpp>
#include <set>

#include "schedules/bpipe.h"
#include "schedules/chimera.h"
#include "schedules/dualpipe.h"
#include "schedules/gpipe.h"
#include "schedules/hanayo.h"
#include "schedules/interleaved_1f1b.h"
#include "schedules/looped_bfs.h"
#include "schedules/one_f_one_b.h"
#include "schedules/pipedream.h"
#include "schedules/schedule_grid.h"
#include "schedules/seq1f1b.h"
#include "schedules/zb_h1.h"
#include "schedules/zb_v.h"

namespace simrun {

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

TEST_CASE("overlapped interleaved 1F1B: one forward more, then forward and backward in pairs") {
  // Rank 1 of 2: w = 0 + 2 + 1 = 3 of n = 4, so one pair.
  const Schedule schedule = interleaved_1f1b_overlap({.ranks = 2, .virtual_stages = 2, .microbatches = 2});
  CHECK(to_string(schedule[1]) == "1F0 1F1 3F0 (3F1;3B0) 3B1 1B0 1B1");
}

TEST_CASE("overlapped interleaved 1F1B on one rank: one stage will do, in a pipeline it will not") {
  const Schedule schedule = interleaved_1f1b_overlap({.ranks = 1, .virtual_stages = 1, .microbatches = 3});
  CHECK(to_string(schedule[0]) == "0F0 (0F1;0B0) (0F2;0B1) 0B2");
  CHECK(interleaved_overlap_refusal({.ranks = 1, .virtual_stages = 1, .microbatches = 3}).empty());
  CHECK_FALSE(interleaved_overlap_refusal({.ranks = 2, .virtual_stages = 1, .microbatches = 4}).empty());
}

TEST_CASE("looped breadth-first: chunk after chunk, the backward in mirror image") {
  const Schedule schedule = looped_bfs({.ranks = 2, .virtual_stages = 2, .microbatches = 2});
  CHECK(to_string(schedule[0]) == "0F0 0F1 2F0 2F1 2B1 2B0 0B1 0B0");
}

TEST_CASE("ZB-H1: rank r runs its W's r backwards late") {
  CHECK(to_text(zb_h1(2, 3)) ==
        "0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2\n"
        "1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2\n");
}

TEST_CASE("ZB-V: the rank at the turn starts with both its stages") {
  // p = 2, m = 3 = 2 p - 1: the least that fills the V. Rank 1: 1 x F0; 1 x [F1, F0]; 1 x [F1, I1, W1]; ...
  const Schedule schedule = zb_v(2, 3);
  CHECK(to_string(schedule[1]) == "1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2 1W1 2W2 1W2");
}

TEST_CASE("DualPipe: both pipelines meet on the middle ranks, unfused the first time") {
  const Schedule schedule = dualpipe(2, 4);
  CHECK(to_string(schedule[0]) == "0F0 1F0 0F1 1B0 (1F1;0B0) 1B1 0I1 0W1");
  CHECK(to_string(schedule[1]) == "0F0 1F0 0F1 1B0 (1F1;0B0) 1B1 0I1 0W1");
  CHECK(schedule[0][0].direction == Direction::down);
  CHECK(schedule[1][0].direction == Direction::up);
  CHECK(schedule[0][1].direction == Direction::up);
}

TEST_CASE("DualPipeV is one half of the DualPipe of twice the ranks and microbatches") {
  const Schedule folded = dualpipe_v(3, 7);
  const Schedule whole = dualpipe(6, 14);
  REQUIRE(folded.size() == 3);
  for (std::size_t rank = 0; rank < folded.size(); ++rank)
    CHECK(to_string(folded[rank]) == to_string(whole[rank]));
}

TEST_CASE("bidirectional schedules: the opposite rank runs the same list with the directions exchanged") {
  for (Schedule schedule : {dualpipe(6, 18), chimera(6, 12)})
    for (std::size_t rank = 0; rank < 3; ++rank) {
      for (Op& op : schedule[rank])
        op.direction = op.direction == Direction::down ? Direction::up : Direction::down;
      CHECK(schedule[rank] == schedule[5 - rank]);
    }
}

TEST_CASE("Chimera: passes of the two pipelines alternate") {
  CHECK(to_text(chimera(2, 2)) == "0F0 1F0 1B0 0B0\n0F0 1F0 1B0 0B0\n");
}

TEST_CASE("Hanayo: two waves run the chunks there, back, there and back") {
  // Ranks 0 and 1 hold stages 0, 3, 4, 7 and 1, 2, 5, 6.
  const Schedule schedule = hanayo({.ranks = 2, .virtual_stages = 4, .microbatches = 2});
  CHECK(to_string(schedule[0]) == "0F0 0F1 3F0 4F0 3F1 4F1 7F0 7B0 7F1 7B1 4B0 3B0 4B1 3B1 0B0 0B1");
  CHECK(to_string(schedule[1]) == "1F0 2F0 1F1 2F1 5F0 6F0 5F1 6F1 6B0 5B0 6B1 5B1 2B0 1B0 2B1 1B1");
}

TEST_CASE("Seq1F1B: backwards start with the last slice") {
  const Schedule schedule = seq1f1b({.ranks = 2, .microbatches = 2, .slices = 2});
  CHECK(to_string(schedule[1]) == "1F0 1F0s1 1B0s1 1F1 1B0 1F1s1 1B1s1 1B1");
}

TEST_CASE("BPipe evens out the activations of a pair of ranks") {
  // 8 ranks: at most ceil(10 / 2) = 5 each. 1F1B leaves 8 on rank 0 and 1 on rank 7; 3 of them move.
  CHECK(bpipe(8, 16) == one_f_one_b(8, 16));
  CHECK(bpipe_resident_peak(8, 16, 0) == 5);
  CHECK(bpipe_resident_peak(8, 16, 7) == 4);
  for (int p = 2; p <= 16; p += 2)
    for (int m = 1; m <= 48; ++m)
      for (int r = 0; r < p; ++r) {
        const int pair = std::min(m, p - r) + std::min(m, r + 1);
        CAPTURE(p, m, r);
        CHECK(bpipe_resident_peak(p, m, r) <= (p + 3) / 2);
        CHECK(bpipe_resident_peak(p, m, r) + bpipe_resident_peak(p, m, p - 1 - r) == pair);
      }
}

TEST_CASE("PipeDream keeps a weight version per microbatch that 1F1B has alive") {
  CHECK(pipedream(4, 8) == one_f_one_b(4, 8));
  CHECK(pipedream_weight_versions(4, 0) == 4);
  CHECK(pipedream_weight_versions(4, 3) == 1);
}

TEST_CASE("placements: the loop returns to rank 0, the wave turns, two pipelines meet head on") {
  CHECK(rank_of(Placement::loop, 4, 6) == 2);
  CHECK(rank_of(Placement::wave, 4, 3) == 3);
  CHECK(rank_of(Placement::wave, 4, 4) == 3);
  CHECK(rank_of(Placement::wave, 4, 7) == 0);
  CHECK(rank_of(Placement::wave, 4, 8) == 0);
  CHECK(rank_of(Placement::bidirectional, 4, 1, Direction::up) == 2);
  CHECK(stage_of(Placement::wave, 4, 1, 3) == 14);
  for (const Placement placement : {Placement::loop, Placement::wave})
    for (int rank = 0; rank < 5; ++rank)
      for (int chunk = 0; chunk < 4; ++chunk)
        CHECK(rank_of(placement, 5, stage_of(placement, 5, rank, chunk)) == rank);
  CHECK(stage_count(Placement::wave, 4, 2) == 8);
  CHECK(stage_count(Placement::bidirectional, 4, 2) == 4);
}

TEST_CASE("the registry finds names and aliases, and none stands for two schedules") {
  CHECK(find_schedule("afab") == find_schedule("gpipe"));
  CHECK(find_schedule("zb1p") == find_schedule("zb_h1"));
  CHECK(find_schedule("zbv") == find_schedule("zb_v"));
  CHECK(find_schedule("dualpipev") == find_schedule("dualpipe_v"));
  CHECK(find_schedule("interleaved_1f1b")->name == "interleaved_1f1b");
  CHECK(find_schedule("zigzag") == nullptr);
  std::set<std::string> names;
  for (const ScheduleEntry& entry : pipeline_schedules()) {
    CHECK(names.insert(entry.name).second);
    for (const std::string& alias : entry.aliases) CHECK(names.insert(alias).second);
    PipelineShape shape = {.ranks = 4, .microbatches = 8};
    shape.virtual_stages = entry.default_virtual_stages;
    CHECK(entry.refusal(shape) == "");
  }
}

}  // namespace simrun
