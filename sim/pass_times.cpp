#include "sim/pass_times.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "schedules/overlapped_pair.h"
#include "schedules/timeline.h"
#include "sim/durations.h"
#include "sim/pass_walk.h"

namespace simrun {
namespace {

// When compute is done with the segment.
Picoseconds run_pass(PassWalk& walk, const std::vector<Instruction>& instructions) {
  walk.begin_pass(instructions);
  for (const Instruction& instruction : instructions) walk.step(instruction);
  return walk.computed();
}

// What the same pass adds behind itself, so that a collective at its end counts only if it holds up compute.
Picoseconds time_of(const Plan& plan, Durations& durations, Index chunk,
                    const std::vector<Instruction>& instructions) {
  PassWalk walk(plan, durations, plan.chunks[chunk].pipeline_rank);
  const Picoseconds first = run_pass(walk, instructions);
  return std::max<Picoseconds>(run_pass(walk, instructions) - first, 1);
}

std::vector<std::int64_t> executions(const Plan& plan) {
  std::vector<std::int64_t> count(plan.segments.size(), 0);
  for (const Program& program : plan.programs)
    for (const Entry& entry : program.entries) ++count[entry.segment];
  return count;
}

// The slowest pipeline transfer that a segment sends; 0: it sends none.
Picoseconds sent(const Plan& plan, Durations& durations, const Segment& segment) {
  Picoseconds slowest = 0;
  for (const Instruction& instruction : segment.instructions)
    if (instruction.opcode == Opcode::send)
      slowest = std::max(slowest, durations.of(plan.chunks[segment.chunk].pipeline_rank, instruction));
  return slowest;
}

// By stage and kind of pass: the segment that runs most often, the first of equals.
using StageSegments = std::map<PassKind, std::size_t>;
std::vector<StageSegments> usual_segments(const Plan& plan) {
  const std::vector<std::int64_t> count = executions(plan);
  std::int32_t stages = 0;
  for (const Chunk& chunk : plan.chunks) stages = std::max(stages, chunk.stage + 1);
  std::vector<StageSegments> usual(static_cast<std::size_t>(stages));
  for (std::size_t s = 0; s < plan.segments.size(); ++s) {
    const Segment& segment = plan.segments[s];
    if (segment.kind == PassKind::communication || segment.kind == PassKind::step) continue;
    if (segment.kind == PassKind::overlapped) continue;  // two passes in one
    StageSegments& of_stage = usual[static_cast<std::size_t>(plan.chunks[segment.chunk].stage)];
    const auto [known, is_new] = of_stage.emplace(segment.kind, s);
    if (!is_new && count[s] > count[known->second]) known->second = s;
  }
  return usual;
}

PassTimes times_of(const Plan& plan, Durations& durations, const StageSegments& segments) {
  const auto time = [&](PassKind kind) -> std::int64_t {
    const auto segment = segments.find(kind);
    if (segment == segments.end()) return 0;
    const Segment& pass = plan.segments[segment->second];
    return time_of(plan, durations, pass.chunk, pass.instructions);
  };
  PassTimes times;
  times.forward = time(PassKind::forward);
  times.backward = time(PassKind::backward);
  times.backward_input = time(PassKind::backward_input);
  times.backward_weight = time(PassKind::backward_weight);
  if (times.backward == 0) times.backward = times.backward_input + times.backward_weight;
  if (times.backward_input == 0) times.backward_input = (times.backward + 1) / 2;
  if (times.backward_weight == 0) times.backward_weight = (times.backward + 1) / 2;
  times.overlapped = times.forward + times.backward;
  const auto forward = segments.find(PassKind::forward), backward = segments.find(PassKind::backward);
  if (forward == segments.end() || backward == segments.end()) return times;
  const Segment& pass = plan.segments[forward->second];
  times.overlapped = time_of(plan, durations, pass.chunk,
                             overlap(pass.instructions, plan.segments[backward->second].instructions));
  return times;
}

}  // namespace

std::vector<PassTimes> pass_times(const Plan& plan) {
  Durations durations(plan);
  std::vector<PassTimes> times;
  for (const StageSegments& segments : usual_segments(plan))
    times.push_back(times_of(plan, durations, segments));
  for (const Segment& segment : plan.segments) {
    if (segment.kind != PassKind::communication || segment.instructions.empty()) continue;
    std::int64_t& slowest = times[static_cast<std::size_t>(plan.chunks[segment.chunk].stage)].communication;
    slowest = std::max(slowest, sent(plan, durations, segment));
  }
  return times;
}

}  // namespace simrun
