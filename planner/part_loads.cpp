#include "planner/part_loads.h"

#include <algorithm>

#include "schedules/extent_tables.h"
#include "schedules/stage_sizes.h"
#include "schedules/timeline.h"
#include "sim/compiled_program.h"
#include "sim/held_memory.h"
#include "sim/host_step.h"
#include "sim/memory.h"

namespace simrun {

namespace {

PartLoad part_load(const Plan& plan, const CompiledPlan& compiled, std::size_t program, std::int64_t local) {
  const CompiledRank& code = compiled.code(static_cast<Index>(program), static_cast<Index>(local));
  PartLoad load;
  const Program& of = plan.programs[program];
  for (const CompiledEntry& entry : code.entries) {
    load.compute_s += to_seconds(code.segments[entry.segment].compute);
    // What the host does once a step is no work that shares move.
    const Segment& segment = plan.segments[of.entries[entry.entry].segment];
    if (const Index at = host_step_instruction(plan, segment);
        at != no_index && segment.instructions[at].stream == compute_stream)
      load.compute_s -= plan.framework.kernels.host_step_s;
  }
  const MemoryPeak peak = walk_memory(plan, of, WhichStep::steady, MemoryDetail::peak, {local}).peak;
  load.peak_bytes = peak.bytes;
  load.spare_bytes = room_for_plan(plan, of, local) - peak.bytes;
  for (const Category category : {Category::activations, Category::comm, Category::workspace})
    load.activation_bytes += peak.live[static_cast<std::size_t>(category)];
  return load;
}

}  // namespace

PartLoads part_loads(const Plan& plan, std::int64_t max_memory) {
  Durations durations(plan);
  const CompiledPlan compiled = compile_programs(plan, WhichStep::steady, durations);
  PartLoads loads;
  for (std::size_t program = 0; program < plan.programs.size(); ++program) {
    const TableClasses classes = table_classes(plan, plan.programs[program]);
    std::vector<PartLoad> of_class;
    for (const std::int64_t first : classes.first_gpu)
      of_class.push_back(part_load(plan, compiled, program, first));
    const Mesh& mesh =
        plan.stages[static_cast<std::size_t>(plan.programs[program].pipeline_rank)].meshes.front();
    const std::int64_t replicas = ranks_along(mesh, "dp");
    const auto ranks = classes.of_gpu.size() / static_cast<std::size_t>(replicas);
    std::vector<PartLoad>& of = loads.emplace_back(static_cast<std::size_t>(replicas));
    for (std::size_t local = 0; local < classes.of_gpu.size(); ++local) {
      PartLoad& part = of[local / ranks];
      PartLoad own = of_class[classes.of_gpu[local]];
      if (max_memory > 0) own.spare_bytes = std::min(own.spare_bytes, max_memory - own.peak_bytes);
      const bool is_first = part.compute_s == 0 && part.peak_bytes == 0;
      part.compute_s = std::max(part.compute_s, own.compute_s);
      if (!is_first && own.spare_bytes >= part.spare_bytes) continue;
      part.peak_bytes = own.peak_bytes;
      part.spare_bytes = own.spare_bytes;
      part.activation_bytes = own.activation_bytes;
    }
  }
  return loads;
}

}  // namespace simrun
