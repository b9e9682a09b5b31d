#include "schedules/extent_tables.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "configs/node_groups.h"

namespace simrun {

namespace {

const StageDevices& stage_at(const Plan& plan, std::int32_t pipeline_rank) {
  return plan.stages.at(static_cast<std::size_t>(pipeline_rank));
}

// The number of a GPU's coordinates among the table's.
std::int64_t coordinate_number(const Mesh& mesh, const std::vector<std::uint8_t>& axes,
                               std::int64_t local_gpu) {
  std::int64_t number = 0;
  for (const std::uint8_t axis : axes) {
    std::int64_t stride = 1;
    for (std::size_t faster = 0; faster < axis; ++faster) stride *= mesh.axes[faster].size;
    number = number * mesh.axes[axis].size + local_gpu / stride % mesh.axes[axis].size;
  }
  return number;
}

const ExtentTable* table_of(const Plan& plan, std::int32_t table) {
  if (table < 0) return nullptr;
  const ExtentTable& found = plan.extent_tables[static_cast<std::size_t>(table)];
  return found.values.empty() ? nullptr : &found;
}

// Calls see(table) for every table with values that an instruction looks up; of views also those of what they
// are views of.
template <typename See>
void visit_tables(const Plan& plan, const Instruction& instruction, See see) {
  if (const ExtentTable* work = table_of(plan, instruction.work_table)) see(*work);
  for (const auto* list : {&instruction.inputs, &instruction.outputs})
    for (Index buffer : *list)
      for (; buffer != no_index; buffer = plan.buffers[buffer].parent)
        for (const BufferDim& dim : plan.buffers[buffer].dims)
          if (const ExtentTable* table = table_of(plan, dim.table)) see(*table);
}

std::vector<bool> segments_run(const Plan& plan, const Program& program) {
  std::vector<bool> run(plan.segments.size(), false);
  for (const Entry& entry : program.entries) run[entry.segment] = true;
  return run;
}

}  // namespace

std::int64_t table_coordinates(const Plan& plan, const ExtentTable& table, std::int32_t pipeline_rank) {
  const StageDevices& stage = stage_at(plan, pipeline_rank);
  if (table.mesh >= stage.meshes.size()) return 0;
  const Mesh& mesh = stage.meshes[table.mesh];
  std::vector<bool> used(mesh.axes.size(), false);
  std::int64_t coordinates = 1;
  for (const std::uint8_t axis : table.axes) {
    if (axis >= mesh.axes.size() || used[axis]) return 0;
    used[axis] = true;
    coordinates *= mesh.axes[axis].size;
  }
  return coordinates;
}

std::int64_t table_rows(const Plan& plan, const ExtentTable& table, std::int32_t pipeline_rank) {
  if (!table.per_microbatch) return 1;
  const std::int64_t coordinates = std::max<std::int64_t>(table_coordinates(plan, table, pipeline_rank), 1);
  return static_cast<std::int64_t>(table.values.size()) / coordinates;
}

std::int64_t most_rows(const Plan& plan, const Instruction& instruction, std::int32_t pipeline_rank) {
  std::int64_t most = 1;
  visit_tables(plan, instruction, [&](const ExtentTable& table) {
    most = std::max(most, table_rows(plan, table, pipeline_rank));
  });
  return most;
}

std::int64_t table_value(const Plan& plan, const ExtentTable& table, const TablePlace& place) {
  const Mesh& mesh = stage_at(plan, place.pipeline_rank).meshes.at(table.mesh);
  const std::int64_t coordinates = table_coordinates(plan, table, place.pipeline_rank);
  const std::int64_t rows = std::max<std::int64_t>(table_rows(plan, table, place.pipeline_rank), 1);
  const std::int64_t row = place.microbatch % rows;
  return table.values.at(
      static_cast<std::size_t>(row * coordinates + coordinate_number(mesh, table.axes, place.local_gpu)));
}

double mean_value(const ExtentTable& table) {
  double sum = 0;
  for (const std::int64_t value : table.values) sum += static_cast<double>(value);
  return sum / static_cast<double>(table.values.size());
}

std::int64_t extent_at(const Plan& plan, const BufferDim& dim, const TablePlace& place) {
  const ExtentTable* table = table_of(plan, dim.table);
  return table == nullptr ? dim.extent : table_value(plan, *table, place);
}

std::int64_t largest_extent(const Plan& plan, const BufferDim& dim, TablePlace place) {
  const ExtentTable* table = table_of(plan, dim.table);
  if (table == nullptr) return dim.extent;
  std::int64_t largest = 0;
  const std::int64_t rows = table_rows(plan, *table, place.pipeline_rank);
  for (place.microbatch = 0; place.microbatch < rows; ++place.microbatch)
    largest = std::max(largest, table_value(plan, *table, place));
  return largest;
}

double mean_extent(const Plan& plan, const BufferDim& dim) {
  const ExtentTable* table = table_of(plan, dim.table);
  return table == nullptr ? static_cast<double>(dim.extent) : mean_value(*table);
}

std::int64_t work_at(const Plan& plan, const Instruction& instruction, const TablePlace& place) {
  const ExtentTable* table = table_of(plan, instruction.work_table);
  return table == nullptr ? whole_work : table_value(plan, *table, place);
}

std::int32_t table_of_work(Plan& plan, std::int64_t work, const std::string& origin) {
  ExtentTable table;
  table.values = {work};
  table.origin = origin;
  const auto known = std::find(plan.extent_tables.begin(), plan.extent_tables.end(), table);
  const auto number = static_cast<std::int32_t>(known - plan.extent_tables.begin());
  if (known == plan.extent_tables.end()) plan.extent_tables.push_back(std::move(table));
  return number;
}

bool has_table(const Plan& plan, const Buffer& buffer) {
  return std::any_of(buffer.dims.begin(), buffer.dims.end(),
                     [&](const BufferDim& dim) { return table_of(plan, dim.table) != nullptr; });
}

bool has_table(const Plan& plan, const Instruction& instruction) {
  if (table_of(plan, instruction.work_table) != nullptr) return true;
  const auto varies = [&](Index buffer) { return has_table(plan, plan.buffers[buffer]); };
  return std::any_of(instruction.inputs.begin(), instruction.inputs.end(), varies) ||
         std::any_of(instruction.outputs.begin(), instruction.outputs.end(), varies);
}

namespace {

using TableSet = std::set<const ExtentTable*>;  // in the plan's order

TableSet tables_of(const Plan& plan, const Program& program) {
  TableSet tables;
  if (plan.extent_tables.empty()) return tables;
  const std::vector<bool> run = segments_run(plan, program);
  for (std::size_t s = 0; s < run.size(); ++s)
    if (run[s])
      for (const Instruction& instruction : plan.segments[s].instructions)
        visit_tables(plan, instruction, [&](const ExtentTable& table) { tables.insert(&table); });
  return tables;
}

// All values that a GPU can look up.
std::vector<std::int64_t> column_of(const Plan& plan, const TableSet& tables, TablePlace place) {
  std::vector<std::int64_t> column;
  for (const ExtentTable* table : tables) {
    const std::int64_t rows = table_rows(plan, *table, place.pipeline_rank);
    for (place.microbatch = 0; place.microbatch < rows; ++place.microbatch)
      column.push_back(table_value(plan, *table, place));
  }
  return column;
}

}  // namespace

// The kind of each GPU of a stage, by local index; empty where the cluster has but one.
static std::vector<std::int64_t> kinds_of(const Cluster& cluster, const StageDevices& stage) {
  std::vector<std::int64_t> kinds;
  const GpuKinds known(cluster);
  if (known.count() == 1) return kinds;
  for (const DeviceRange& range : stage.devices)
    for (std::int64_t i = 0; i < range.count; ++i)
      kinds.push_back(static_cast<std::int64_t>(known.of(range.first + i)));
  return kinds;
}

TableClasses table_classes(const Plan& plan, const Program& program) {
  const TableSet tables = tables_of(plan, program);
  const StageDevices& stage = stage_at(plan, program.pipeline_rank);
  std::int64_t gpus = 0;
  for (const DeviceRange& range : stage.devices) gpus += range.count;
  const std::vector<std::int64_t> kinds = kinds_of(plan.cluster, stage);
  if (tables.empty() && kinds.empty()) return {std::vector<Index>(static_cast<std::size_t>(gpus), 0), {0}};
  std::set<std::pair<std::uint8_t, std::vector<std::uint8_t>>> lookups;  // mesh and axes
  for (const ExtentTable* table : tables) lookups.emplace(table->mesh, table->axes);
  TableClasses classes;
  std::map<std::vector<std::int64_t>, Index> by_coordinates, by_column;
  for (std::int64_t gpu = 0; gpu < gpus; ++gpu) {
    std::vector<std::int64_t> coordinates;
    coordinates.reserve(lookups.size() + 1);
    const std::int64_t kind = kinds.empty() ? 0 : kinds[static_cast<std::size_t>(gpu)];
    coordinates.push_back(kind);
    for (const auto& [mesh, axes] : lookups)
      coordinates.push_back(coordinate_number(stage.meshes.at(mesh), axes, gpu));
    const auto [known, fresh] = by_coordinates.try_emplace(coordinates, 0);
    if (fresh) {
      std::vector<std::int64_t> column = column_of(plan, tables, {program.pipeline_rank, gpu, 0});
      column.push_back(kind);
      const auto [alike, is_new] = by_column.try_emplace(column, static_cast<Index>(by_column.size()));
      if (is_new) classes.first_gpu.push_back(gpu);
      known->second = alike->second;
    }
    classes.of_gpu.push_back(known->second);
  }
  return classes;
}

MicrobatchRows::MicrobatchRows(const Plan& plan, const Program& program) : program_(program) {
  if (std::none_of(plan.extent_tables.begin(), plan.extent_tables.end(),
                   [](const ExtentTable& table) { return table.per_microbatch; }))
    return;
  lookups_.resize(plan.segments.size());
  const std::vector<bool> run = segments_run(plan, program);
  for (std::size_t s = 0; s < run.size(); ++s) {
    if (!run[s]) continue;
    for (const Instruction& instruction : plan.segments[s].instructions)
      visit_tables(plan, instruction, [&](const ExtentTable& table) {
        const Lookup lookup{instruction.binding, table_rows(plan, table, program.pipeline_rank)};
        std::vector<Lookup>& of = lookups_[s];
        if (lookup.rows > 1 && std::find(of.begin(), of.end(), lookup) == of.end()) of.push_back(lookup);
      });
  }
}

std::vector<std::int64_t> MicrobatchRows::of(const Entry& entry) const {
  std::vector<std::int64_t> rows;
  if (lookups_.empty()) return rows;
  for (const Lookup& lookup : lookups_[entry.segment])
    if (lookup.binding < entry.binding_count)
      rows.push_back(program_.bindings[entry.first_binding + lookup.binding].microbatch % lookup.rows);
  return rows;
}

namespace {

constexpr std::string_view zigzag_mark = ":zigzag";
constexpr std::string_view ranks_mark = "pp:";

}  // namespace

std::vector<std::uint8_t> axes_of_split(const std::string& names, const Mesh& mesh) {
  std::vector<std::uint8_t> axes;
  for (std::size_t begin = 0; begin < names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    std::string_view name = std::string_view(names).substr(begin, end - begin);
    if (name.ends_with(zigzag_mark)) name.remove_suffix(zigzag_mark.size());
    for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis)
      if (mesh.axes[axis].name == name) axes.push_back(static_cast<std::uint8_t>(axis));
    begin = end + 1;
  }
  return axes;
}

std::vector<std::int32_t> ranks_of_split(const std::string& names) {
  std::vector<std::int32_t> ranks;
  if (!names.starts_with(ranks_mark)) return ranks;
  const std::size_t end = std::min(names.find(','), names.size());
  for (std::size_t at = ranks_mark.size(); at < end;) {
    const std::size_t next = std::min(names.find('+', at), end);
    std::int32_t rank = -1;  // of no pipeline rank: lint says so
    std::from_chars(names.data() + at, names.data() + next, rank);
    ranks.push_back(rank);
    at = next + 1;
  }
  return ranks;
}

std::string split_over_ranks(const std::vector<std::int32_t>& pipeline_ranks) {
  std::string text;
  for (const std::int32_t rank : pipeline_ranks)
    text += (text.empty() ? std::string(ranks_mark) : "+") + std::to_string(rank);
  return text;
}

std::size_t zigzag_axes(const std::string& names) {
  std::size_t count = 0;
  for (std::size_t at = names.find(zigzag_mark); at != std::string::npos;
       at = names.find(zigzag_mark, at + zigzag_mark.size()))
    ++count;
  return count;
}

}  // namespace simrun
