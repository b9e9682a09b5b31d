#include "schedules/lint.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedules/lint_checks.h"

namespace simrun {

std::vector<Index> segments_of(const Program& program) {
  Index last = 0;
  for (const Entry& entry : program.entries) last = std::max(last, entry.segment);
  std::vector<bool> used(program.entries.empty() ? 0 : std::size_t{last} + 1, false);
  for (const Entry& entry : program.entries) used[entry.segment] = true;
  std::vector<Index> segments;
  for (std::size_t i = 0; i < used.size(); ++i)
    if (used[i]) segments.push_back(static_cast<Index>(i));
  return segments;
}

std::string place(const Segment& segment, std::size_t instruction) {
  const Instruction& what = segment.instructions[instruction];
  const std::string label = what.label.empty() ? "" : " " + what.label;
  return fmt::format("segment '{}', instruction {} ({}{})", segment.name, instruction, to_string(what.opcode),
                     label);
}

std::string place(const Plan& plan, const Program& program, std::size_t entry) {
  const Entry& what = program.entries[entry];
  return fmt::format("pipeline rank {}, entry {} ({} of microbatch {})", program.pipeline_rank, entry,
                     plan.segments[what.segment].name, program.bindings[what.first_binding].microbatch);
}

static bool first_step_differs(const Plan& plan) {
  for (const Program& program : plan.programs)
    for (const Entry& entry : program.entries)
      if (entry.steps != Steps::every) return true;
  return false;
}

std::vector<std::string> lint(const Plan& plan) {
  Findings findings;
  check_structure(plan, findings);
  if (findings.empty()) check_tables(plan, findings);
  if (findings.empty()) check_cluster(plan, findings);
  if (!findings.empty()) return findings.take();
  check_memory_spaces(plan, findings);
  check_shapes(plan, findings);
  check_rings(plan, findings);
  check_servers(plan, findings);
  std::vector<StepOf> steps = {StepOf::steady};
  if (first_step_differs(plan)) steps.push_back(StepOf::first);
  for (const StepOf step : steps) {
    // What is wrong in both steps is said once.
    if (step == StepOf::first && !findings.empty()) break;
    check_lifetimes(plan, step, findings);
    check_communication(plan, step, findings);
    check_passes(plan, step, findings);
  }
  return findings.take();
}

}  // namespace simrun
