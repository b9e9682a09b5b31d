#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

// Four layers over two pipeline ranks, and a ring of cp ranks in each attention.
Plan ring_plan(const char* schedule, const char* virtual_stages, int cp) {
  return compile(
      job_from(small_gpt(4, 1, 2, 1), {{"parallelism.pipeline_schedule", schedule},
                                       {"parallelism.virtual_pipeline_model_parallel_size", virtual_stages},
                                       {"parallelism.context_parallel_size", std::to_string(cp)},
                                       {"parallelism.cp_comm_type", "p2p"},
                                       {"training.attention", "flash"}}));
}

}  // namespace

// The GPU at the other end runs the same pair. Were another SEND between a SEND and its RECV, each stream
// would come to the two passes in another order, and the streams of the ring would wait for each other for
// ever.
TEST_CASE(
    "an overlapped pair runs the steps of its two passes' rings one after the other, none inside another") {
  int steps = 0;
  for (const auto& [schedule, virtual_stages] :
       {std::pair{"dualpipe", "1"}, std::pair{"dualpipe_v", "2"}, std::pair{"interleaved_1f1b_overlap", "2"}})
    for (const int cp : {2, 4}) {
      CAPTURE(schedule, cp);
      const Plan plan = ring_plan(schedule, virtual_stages, cp);
      CHECK(lint(plan) == std::vector<std::string>{});
      for (const Segment& segment : plan.segments) {
        if (segment.kind != PassKind::overlapped) continue;
        const Instruction* sent = nullptr;  // and not yet received
        for (const Instruction& what : segment.instructions) {
          if (what.opcode == Opcode::send) {
            CHECK(sent == nullptr);
            sent = &what;
          } else if (what.opcode == Opcode::recv) {
            REQUIRE(sent != nullptr);
            CHECK(sent->binding == what.binding);
            sent = nullptr;
            ++steps;
          }
        }
      }
    }
  CHECK(steps > 0);
}

}  // namespace simrun
