#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedules/plan.h"

// Reading a Plan's extent tables. A table's values are [microbatch][coordinates of its axes, the last axis
// fastest]; a table that is not per microbatch has one row. All functions need a plan that lint accepts; a
// table without values (data-dependent, unknown before the run) says nothing: the bound counts.
namespace simrun {

// What a table is looked up by: a GPU of a stage, in a microbatch.
struct TablePlace {
  std::int32_t pipeline_rank = 0;
  std::int64_t local_gpu = 0;  // place in the stage's list of devices
  std::int32_t microbatch = 0;
};

// Coordinates that a table has on a pipeline rank: the product of its axes' sizes; 0 where the rank has no
// such mesh or axis, or the table names an axis twice.
std::int64_t table_coordinates(const Plan& plan, const ExtentTable& table, std::int32_t pipeline_rank);

// Rows of a table: after so many microbatches it repeats.
std::int64_t table_rows(const Plan& plan, const ExtentTable& table, std::int32_t pipeline_rank);

// Most rows of any table that an instruction looks up.
std::int64_t most_rows(const Plan& plan, const Instruction& instruction, std::int32_t pipeline_rank);

// Requires a table with values.
std::int64_t table_value(const Plan& plan, const ExtentTable& table, const TablePlace& place);
double mean_value(const ExtentTable& table);  // over coordinates and microbatches

std::int64_t extent_at(const Plan& plan, const BufferDim& dim, const TablePlace& place);
// On one GPU in its largest microbatch, which the place's own stands in for.
std::int64_t largest_extent(const Plan& plan, const BufferDim& dim, TablePlace place);
double mean_extent(const Plan& plan, const BufferDim& dim);

// The axes that Buffer::split names for a dimension, the outermost first.
std::vector<std::uint8_t> axes_of_split(const std::string& names, const Mesh& mesh);
// The pipeline ranks that hold the pieces, outside all axes; none: the ranks of one have them all. And how
// Buffer::split says so.
std::vector<std::int32_t> ranks_of_split(const std::string& names);
std::string split_over_ranks(const std::vector<std::int32_t>& pipeline_ranks);
// How many of the axes, the outermost, deal the dimension out in zigzag blocks.
std::size_t zigzag_axes(const std::string& names);

// Parts per million of an instruction's work.
constexpr std::int64_t whole_work = 1'000'000;
std::int64_t work_at(const Plan& plan, const Instruction& instruction, const TablePlace& place);

// The number of a table that gives every rank this share of an instruction's work, added where the plan has
// none.
std::int32_t table_of_work(Plan& plan, std::int64_t work, const std::string& origin);

// Whether a buffer's extents, or those or the share of an instruction, come from a table with values.
bool has_table(const Plan& plan, const Buffer& buffer);
bool has_table(const Plan& plan, const Instruction& instruction);

// The GPUs of one pipeline rank that are of one kind and find equal values in every table of its program:
// they have equal extents and work in every microbatch, and take equally long for it.
struct TableClasses {
  std::vector<Index> of_gpu;            // by local index
  std::vector<std::int64_t> first_gpu;  // by class: local index of its first GPU; that of class 0 is 0
};
TableClasses table_classes(const Plan& plan, const Program& program);

// Which microbatches are alike for a segment: those of the same rows in every table that its instructions
// look up.
class MicrobatchRows {
 public:
  MicrobatchRows(const Plan& plan, const Program& program);  // both must outlive it

  // Equal for entries that run the segment alike; empty where all do.
  std::vector<std::int64_t> of(const Entry& entry) const;

 private:
  struct Lookup {
    std::uint8_t binding = 0;
    std::int64_t rows = 1;
    bool operator==(const Lookup&) const = default;
  };
  const Program& program_;
  std::vector<std::vector<Lookup>> lookups_;  // by segment; empty: no table is per microbatch
};

}  // namespace simrun
