#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "schedules/extent_tables.h"
#include "schedules/lint_checks.h"

// Extent tables have a value for every coordinate of the stages whose instructions look them up, and no
// buffer outgrows its bound.
namespace simrun {
namespace {

constexpr std::int64_t most_extent = std::int64_t{1} << 50;

void check_table(const Plan& plan, std::size_t number, Findings& findings) {
  const ExtentTable& table = plan.extent_tables[number];
  if (table.values.empty() && table.source == ExtentSource::coordinates)
    return findings.add(fmt::format("extent table {} has no values", number));
  for (const std::int64_t value : table.values)
    if (value < 0 || value > most_extent)
      return findings.add(fmt::format("extent table {} has the value {}", number, value));
}

void check_bounds(const Plan& plan, const Buffer& buffer, Findings& findings) {
  for (const BufferDim& dim : buffer.dims) {
    if (dim.table < 0) continue;
    const std::vector<std::int64_t>& values = plan.extent_tables[static_cast<std::size_t>(dim.table)].values;
    const auto largest = std::max_element(values.begin(), values.end());
    if (largest != values.end() && *largest > dim.extent)
      findings.add(fmt::format("buffer '{}' has an extent of {} in extent table {}, beyond its bound {}",
                               buffer.name, *largest, dim.table, dim.extent));
  }
}

// Of the tables that a program's instructions look up, the numbers.
std::set<std::int32_t> tables_of(const Plan& plan, const Program& program) {
  std::set<std::int32_t> tables;
  for (const Index segment : segments_of(program))
    for (const Instruction& what : plan.segments[segment].instructions) {
      tables.insert(what.work_table);
      for (const auto* list : {&what.inputs, &what.outputs})
        for (Index buffer : *list)
          for (; buffer != no_index; buffer = plan.buffers[buffer].parent)
            for (const BufferDim& dim : plan.buffers[buffer].dims) tables.insert(dim.table);
    }
  tables.erase(-1);
  return tables;
}

void check_sizes(const Plan& plan, const Program& program, Findings& findings) {
  for (const std::int32_t number : tables_of(plan, program)) {
    const ExtentTable& table = plan.extent_tables[static_cast<std::size_t>(number)];
    const std::int64_t coordinates = table_coordinates(plan, table, program.pipeline_rank);
    const auto values = static_cast<std::int64_t>(table.values.size());
    if (coordinates == 0)
      findings.add(fmt::format(
          "extent table {} names a mesh or an axis that pipeline rank {} does not have, or an axis "
          "twice",
          number, program.pipeline_rank));
    else if (table.per_microbatch ? values % coordinates != 0 : values != coordinates && values != 0)
      findings.add(fmt::format("extent table {} has {} values for {} coordinates of pipeline rank {}", number,
                               values, coordinates, program.pipeline_rank));
  }
}

}  // namespace

void check_tables(const Plan& plan, Findings& findings) {
  if (plan.extent_tables.empty()) return;
  for (std::size_t i = 0; i < plan.extent_tables.size(); ++i) check_table(plan, i, findings);
  for (const Buffer& buffer : plan.buffers) check_bounds(plan, buffer, findings);
  for (const Segment& segment : plan.segments)
    for (std::size_t i = 0; i < segment.instructions.size() && !findings.full(); ++i) {
      const std::int32_t work = segment.instructions[i].work_table;
      if (work >= 0 && plan.extent_tables[static_cast<std::size_t>(work)].values.empty())
        findings.add(place(segment, i) +
                     fmt::format(" takes its work from extent table {}, which has no values", work));
    }
  for (const Program& program : plan.programs) check_sizes(plan, program, findings);
}

}  // namespace simrun
