#include "schedules/bpipe.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <utility>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "tests/jobs.h"

// BPipe's exchange of activations: the moves between the passes of 1F1B, and what they are in a plan.
namespace simrun {
namespace {

std::string spell_moves(const std::vector<ActivationMove>& moves, std::int32_t rank) {
  std::string text;
  for (const ActivationMove& move : moves)
    if (move.rank == rank)
      text += (text.empty() ? "" : ", ") + std::to_string(move.after) +
              (move.returns ? " gets " : " lends ") + std::to_string(move.microbatch);
  return text;
}

}  // namespace

TEST_CASE("the first of four ranks keeps three activations and its partner the fourth") {
  const std::vector<ActivationMove> moves = bpipe_moves(bpipe(4, 6));
  // F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5: a limit of 3.
  CHECK(spell_moves(moves, 0) == "2 lends 2, 4 gets 2, 4 lends 3, 6 gets 3, 6 lends 4, 8 gets 4");
  for (const ActivationMove& move : moves) CHECK((move.rank == 0 && move.keeper == 3));
}

TEST_CASE("with bpipe no rank holds more than the limit, and every backward finds its activations") {
  for (int ranks = 2; ranks <= 16; ranks += 2)
    for (const int microbatches : {1, 2, 3, 5, 8, 13, 21, 34, 48}) {
      CAPTURE(ranks, microbatches);
      const Schedule schedule = bpipe(ranks, microbatches);
      std::map<std::pair<int, std::size_t>, std::vector<ActivationMove>> moves;  // by rank and op
      for (const ActivationMove& move : bpipe_moves(schedule)) moves[{move.rank, move.after}].push_back(move);
      for (int rank = 0; rank < ranks; ++rank) {
        const RankOps& ops = schedule[static_cast<std::size_t>(rank)];
        std::set<std::int32_t> held, lent;
        std::size_t most_held = 0, most_lent = 0;
        for (std::size_t i = 0; i < ops.size(); ++i) {
          if (ops[i].kind == OpKind::forward) held.insert(ops[i].microbatch);
          most_held = std::max(most_held, held.size());
          if (ops[i].kind == OpKind::backward) REQUIRE(held.erase(ops[i].microbatch) == 1);
          for (const ActivationMove& move : moves[{rank, i}]) {
            REQUIRE(move.keeper == ranks - 1 - rank);
            REQUIRE((move.returns ? lent : held).erase(move.microbatch) == 1);
            (move.returns ? held : lent).insert(move.microbatch);
            most_lent = std::max(most_lent, lent.size());
          }
        }
        REQUIRE(lent.empty());
        // ceil((ranks + 2) / 2), of which the partner's own activations leave room for the lent ones.
        const auto limit = static_cast<std::size_t>((ranks + 3) / 2);
        REQUIRE(most_held <= limit);
        const auto of_partner = static_cast<std::size_t>(std::min(microbatches, rank + 1));
        REQUIRE((most_lent == 0 || most_lent + of_partner <= limit));
        REQUIRE(static_cast<int>(most_held) +
                    static_cast<int>(std::max<std::ptrdiff_t>(
                        0, std::min(microbatches, rank + 1) - static_cast<std::ptrdiff_t>(limit))) ==
                bpipe_resident_peak(ranks, microbatches, rank));
      }
    }
}

TEST_CASE("a bpipe plan moves every kept activation to the partner and back, and is valid") {
  const Plan plan = compile(job_from(small_gpt(8, 1, 4, 1), {{"parallelism.pipeline_schedule", "bpipe"},
                                                             {"training.global_batch_size", "24"}}));
  CHECK(lint(plan) == std::vector<std::string>{});
  REQUIRE(plan.streams.size() == 10);
  int sends = 0;
  std::int64_t lent = 0;
  for (const Entry& entry : plan.programs[0].entries)
    for (const Instruction& what : plan.segments[entry.segment].instructions) {
      if (what.label != "lent activations" || what.opcode != Opcode::send) continue;
      CHECK(plan.communications[what.communication].peer.pipeline_rank == 3);
      lent = 0;
      for (const Index buffer : what.inputs) lent += plan.buffers[buffer].bytes();
      ++sends;
    }
  CHECK(sends == 3);  // 6 microbatches: 2, 3 and 4, as above
  std::int64_t kept = 0;
  for (const Segment& segment : plan.segments) {
    if (segment.kind != PassKind::forward || segment.chunk != 0) continue;
    std::set<Index> alive;
    for (const Instruction& what : segment.instructions)
      if (what.opcode == Opcode::free)
        for (const Index buffer : what.inputs) alive.erase(buffer);
      else
        alive.insert(what.outputs.begin(), what.outputs.end());
    for (const Index buffer : alive) kept += plan.buffers[buffer].bytes();
  }
  // What the forward pass leaves, without the output that the next stage gets.
  CHECK(lent == kept - std::int64_t{512} * 2 * 1024 * 2);
}

TEST_CASE("plans of other schedules have no streams for lent activations") {
  CHECK(compile(job_from(small_gpt(8, 1, 4, 1))).streams.size() == 8);
}

}  // namespace simrun
