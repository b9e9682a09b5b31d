#include <fmt/format.h>

#include "schedules/lint_checks.h"

// Every (chunk, microbatch) runs forward once and backward once, on the chunk's pipeline rank and in causal
// order.
namespace simrun {
namespace {

enum Done : std::uint8_t { forward_done = 1, input_done = 2, weight_done = 4, all_done = 7 };

struct PassRule {
  std::uint8_t does = 0;
  std::uint8_t needs = 0;
};
PassRule rule(PassKind kind) {
  switch (kind) {
    case PassKind::forward: return {forward_done, 0};
    case PassKind::backward: return {input_done | weight_done, forward_done};
    case PassKind::backward_input: return {input_done, forward_done};
    case PassKind::backward_weight: return {weight_done, input_done};
    case PassKind::communication:
    case PassKind::step: break;
  }
  return {};
}

// Fused passes (several bindings in one entry) do not say by their kind what they run for each.
bool has_fused_passes(const Plan& plan) {
  for (const Program& program : plan.programs)
    for (const Entry& entry : program.entries)
      if (entry.binding_count > 1 && rule(plan.segments[entry.segment].kind).does != 0) return true;
  return false;
}

std::int64_t passes(const Plan& plan) {
  std::int64_t count = 0;
  for (const Program& program : plan.programs)
    for (const Entry& entry : program.entries) count += rule(plan.segments[entry.segment].kind).does != 0;
  return count;
}

}  // namespace

void check_passes(const Plan& plan, StepOf step, Findings& findings) {
  if (has_fused_passes(plan)) return;
  const auto chunks = static_cast<std::int64_t>(plan.chunks.size());
  // Also bounds the table below by what the plan really lists.
  if (const std::int64_t count = passes(plan); chunks > 0 && plan.job.microbatches > count / chunks)
    return findings.add(fmt::format("{} passes cannot run {} microbatches forward and backward on {} chunks",
                                    count, plan.job.microbatches, chunks));
  const auto microbatches = static_cast<std::size_t>(plan.job.microbatches);
  std::vector<std::uint8_t> done(plan.chunks.size() * microbatches, 0);
  for (const Program& program : plan.programs)
    for (std::size_t i = 0; i < program.entries.size() && !findings.full(); ++i) {
      const Entry& entry = program.entries[i];
      const Segment& segment = plan.segments[entry.segment];
      const PassRule what = rule(segment.kind);
      if (what.does == 0 || !runs_in(entry, step)) continue;
      const Binding& binding = program.bindings[entry.first_binding];
      if (binding.chunk == no_index || segment.chunk != binding.chunk ||
          plan.chunks[binding.chunk].pipeline_rank != program.pipeline_rank ||
          static_cast<std::size_t>(binding.microbatch) >= microbatches) {
        findings.add(place(plan, program, i) +
                     " runs a pass of a chunk that is not its segment's or not its rank's");
        continue;
      }
      std::uint8_t& state = done[binding.chunk * microbatches + static_cast<std::size_t>(binding.microbatch)];
      if (state & what.does)
        findings.add(fmt::format("{} repeats the {} of chunk {}", place(plan, program, i),
                                 to_string(segment.kind), binding.chunk));
      else if ((state & what.needs) != what.needs)
        findings.add(fmt::format("{} runs the {} of chunk {} before the {} that it needs",
                                 place(plan, program, i), to_string(segment.kind), binding.chunk,
                                 what.needs == forward_done ? "forward" : "backward_input"));
      state = static_cast<std::uint8_t>(state | what.does);
    }
  for (std::size_t i = 0; i < done.size() && !findings.full(); ++i)
    if (done[i] != all_done)
      findings.add(fmt::format("chunk {} never runs the {} of microbatch {}", i / microbatches,
                               done[i] & forward_done ? "whole backward" : "forward", i % microbatches));
}

}  // namespace simrun
