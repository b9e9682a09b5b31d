#include "pair_run.h"

#include <algorithm>
#include <string>

#include "schedules/compile.h"
#include "tests/jobs.h"

namespace simrun {

namespace {

constexpr Picoseconds us = 1'000'000, second = 1'000'000'000'000;

RankTimeline run_program(const Plan& plan, const Program& program) {
  RankTimeline rank;
  rank.pipeline_rank = program.pipeline_rank;
  for (std::size_t s = 0; s < plan.streams.size(); ++s)
    rank.lanes.push_back({static_cast<std::uint8_t>(s), {}});
  Picoseconds now = 0;
  for (Index e = 0; e < program.entries.size(); ++e) {
    const Segment& segment = plan.segments[program.entries[e].segment];
    const Picoseconds start = now;
    for (Index i = 0; i < segment.instructions.size(); ++i) {
      const Instruction& timed = segment.instructions[i];
      if (timed.opcode == Opcode::free || timed.opcode == Opcode::init) continue;
      const Picoseconds from = now + (timed.opcode == Opcode::recv ? second : 0);
      rank.lanes[timed.stream].intervals.push_back({from, us, 0, e, i});
      now += us;
    }
    if (segment.kind != PassKind::communication) rank.passes.push_back({start, now - start, e});
  }
  return rank;
}

}  // namespace

PairRun pair_run(const char* schedule) {
  const std::string stages_per_rank = std::string(schedule) == "dualpipe_v" ? "2" : "1";
  PairRun run;
  run.plan = compile(
      job_from(small_gpt(8, 2, 4, 1), {{"parallelism.pipeline_schedule", schedule},
                                       {"parallelism.virtual_pipeline_model_parallel_size", stages_per_rank},
                                       {"parallelism.sequence_parallel", "true"},
                                       {"model.untie_embeddings_and_output_weights", "true"},
                                       {"training.global_batch_size", "16"}}));
  for (const Program& program : run.plan.programs)
    run.timeline.ranks.push_back(run_program(run.plan, program));
  run.timeline.step = 2 * second;
  return run;
}

}  // namespace simrun
