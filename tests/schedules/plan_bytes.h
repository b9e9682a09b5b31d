#pragma once

#include <map>

#include "schedules/extent_tables.h"
#include "schedules/plan.h"

namespace simrun {

// Bytes per parameter of the buffers that live for ever on a rank, views not counted.
inline std::map<Category, double> kept_bytes_per_parameter(const Plan& plan) {
  std::map<Category, double> bytes;
  for (const Buffer& buffer : plan.buffers)
    if (buffer.scope == Scope::run)
      bytes[buffer.category] +=
          static_cast<double>(buffer.bytes()) / static_cast<double>(plan.job.parameters);
  return bytes;
}

inline double all_kept_bytes_per_parameter(const Plan& plan) {
  double bytes = 0;
  for (const auto& [category, of] : kept_bytes_per_parameter(plan)) bytes += of;
  return bytes;
}

// Bytes that one GPU hands to the collectives of a kind in a step: the whole buffer of each, or its share.
inline double collective_bytes(const Plan& plan, Opcode opcode, const std::string& label) {
  double bytes = 0;
  for (const Program& program : plan.programs)
    for (const Entry& entry : program.entries)
      for (const Instruction& what : plan.segments[entry.segment].instructions) {
        if (what.opcode != opcode || what.label != label) continue;
        const Buffer& whole = plan.buffers[opcode == Opcode::all_gather ? what.outputs[0] : what.inputs[0]];
        const double share =
            what.work_table < 0
                ? 1
                : mean_value(plan.extent_tables[static_cast<std::size_t>(what.work_table)]) / whole_work;
        bytes += share * static_cast<double>(whole.elements() * bytes_of(whole.dtype));
      }
  return bytes;
}

}  // namespace simrun
