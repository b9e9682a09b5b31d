#include "backend/expert_rows.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "backend/expert_capacity.h"
#include "schedules/extent_tables.h"

namespace simrun {
namespace {

bool comes_before(const ExpertRow& a, const ExpertRow& b) {
  return std::tie(a.expert, a.token, a.source, a.slot) < std::tie(b.expert, b.token, b.source, b.slot);
}

using Axes = std::vector<std::uint8_t>;

bool contains(const Axes& axes, std::uint8_t axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

const Mesh& mesh_at(const Plan& plan, const RankPlace& place) {
  return plan.stages[static_cast<std::size_t>(place.pipeline_rank)].meshes.front();
}

// Axes of the mesh that split no dimension of a buffer.
Axes axes_of_copies(const Plan& plan, const Buffer& buffer, const RankPlace& place) {
  const Mesh& mesh = mesh_at(plan, place);
  Axes split, copied;
  for (const std::string& names : buffer.split)
    for (const std::uint8_t axis : axes_of_split(names, mesh)) split.push_back(axis);
  for (std::uint8_t axis = 0; axis < mesh.axes.size(); ++axis)
    if (!contains(split, axis)) copied.push_back(axis);
  return copied;
}

// The axes that split a buffer's rows: by who dispatched them, or, where all did, in turn.
struct RowAxes {
  Axes by_source, in_turn;
};
RowAxes row_axes(const ExpertRows& rows, const Plan& plan, const Buffer& buffer, const RankPlace& place) {
  RowAxes axes;
  if (buffer.split.size() < 2) return axes;
  for (const std::uint8_t axis : axes_of_split(buffer.split[1], mesh_at(plan, place)))
    (contains(rows.copied_over(), axis) ? axes.in_turn : axes.by_source).push_back(axis);
  return axes;
}

}  // namespace

DimPart experts_of(const Plan& plan, const Buffer& buffer, const RankPlace& place) {
  return part_of(plan, buffer, place, 0).front();
}

ExpertRows::ExpertRows(const DimPart& experts, std::vector<ExpertRow> choices,
                       std::vector<std::uint8_t> copied_over, std::int64_t experts_of_row)
    : experts_(experts),
      experts_of_row_(experts_of_row),
      choices_(std::move(choices)),
      copied_over_(std::move(copied_over)) {
  std::sort(choices_.begin(), choices_.end(), comes_before);
  group_choices();
  std::size_t row = 0;
  for (std::int64_t expert = experts.first; expert < experts.first + experts.extent; ++expert) {
    begins_.push_back(static_cast<std::int64_t>(row));
    while (row < rows_.size() && rows_[row].expert <= expert) ++row;
  }
  begins_.push_back(static_cast<std::int64_t>(row));
}

void ExpertRows::group_choices() {
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::int64_t> known;
  row_of_choice_.reserve(choices_.size());
  for (const ExpertRow& choice : choices_) {
    const auto next = static_cast<std::int64_t>(rows_.size());
    std::int64_t row = next;
    if (experts_of_row_ > 1)
      row = known.try_emplace({choice.expert / experts_of_row_, choice.token, choice.source}, next)
                .first->second;
    if (row == next) rows_.push_back(choice);
    row_of_choice_.push_back(row);
  }
}

bool has_expert_rows(const Plan& plan, const Buffer& buffer) {
  if (buffer.dims.size() < 2 || plan.dimension_names[buffer.dims[0].name] != "experts") return false;
  const std::string_view rows = plan.dimension_names[buffer.dims[1].name];
  return rows == "capacity" || rows == "node_rows" || rows == "gpu_rows";
}

std::int64_t experts_of_row(const Plan& plan, const Buffer& buffer, const RankPlace& place) {
  if (plan.dimension_names[buffer.dims[1].name] == "capacity") return 1;
  // Behind their exchange such rows are where their experts are.
  std::int64_t fewest = experts_of(plan, buffer, place).whole;
  for (const Buffer& other : plan.buffers)
    if (other.dims.size() > 1 && other.dims[0].name == buffer.dims[0].name &&
        other.dims[1].name == buffer.dims[1].name)
      fewest = std::min(fewest, other.dims[0].extent);
  return fewest;
}

SharedRows rows_as_in(const SharedRows& rows, const Plan& plan, const Buffer& buffer,
                      const RankPlace& place) {
  const std::int64_t of_row = experts_of_row(plan, buffer, place);
  if (rows->experts_of_row() == of_row) return rows;
  return std::make_shared<const ExpertRows>(rows->experts(), rows->choices(), rows->copied_over(), of_row);
}

ExpertRows dispatched_rows(const Dispatch& dispatch, std::int32_t microbatch) {
  const Buffer& out = dispatch.plan.buffers[dispatch.what.outputs.front()];
  const DimPart experts = experts_of(dispatch.plan, out, dispatch.place);
  const DimPart &batch = dispatch.tokens[0], &sequence = dispatch.tokens[1], &slots = dispatch.tokens[2];
  ExpertCapacity capacity(dispatch.what.constants, sequence.extent,
                          part_of(dispatch.plan, out, dispatch.place, microbatch)[1].extent);
  std::vector<ExpertRow> rows;
  auto chosen = dispatch.chosen.begin();
  for (std::int64_t b = 0; b < batch.extent; ++b)
    for (std::int64_t s = 0; s < sequence.extent; ++s) {
      capacity.begin_token(s);
      for (std::int32_t slot = 0; slot < slots.extent; ++slot) {
        const auto expert = static_cast<std::int32_t>(*chosen++);
        if (expert < experts.first || expert >= experts.first + experts.extent) continue;
        const std::int64_t token = batch.at(b) * sequence.whole + sequence.at(s);
        if (capacity.take(expert)) rows.push_back({token, dispatch.place.local, expert, slot});
      }
    }
  if (capacity.is_limited())
    for (auto e = static_cast<std::int32_t>(experts.first); e < experts.first + experts.extent; ++e)
      for (std::int32_t i = 0; i < capacity.empty_rows(e); ++i)
        rows.push_back({no_token, dispatch.place.local, e, i});
  const Buffer& indices = dispatch.plan.buffers[dispatch.what.inputs.at(1)];
  return {experts, std::move(rows), axes_of_copies(dispatch.plan, indices, dispatch.place),
          experts_of_row(dispatch.plan, out, dispatch.place)};
}

std::vector<std::int64_t> rows_of_part(const ExpertRows& rows, const Plan& plan, const Buffer& buffer,
                                       const RankPlace& place) {
  const Mesh& mesh = mesh_at(plan, place);
  const DimPart experts = experts_of(plan, buffer, place);
  const RowAxes axes = row_axes(rows, plan, buffer, place);
  const std::int64_t source = place_along(mesh, axes.by_source, place.local).index;
  const AxesPlace turn = place_along(mesh, axes.in_turn, place.local);
  std::vector<std::int64_t> numbers;
  for (std::int64_t expert = 0; expert < rows.experts().extent; ++expert) {
    const std::int64_t begin = rows.begin(expert);
    for (std::int64_t i = begin; i < rows.begin(expert + 1); ++i) {
      const ExpertRow& row = rows.rows()[static_cast<std::size_t>(i)];
      if (row.expert >= experts.first && row.expert < experts.first + experts.extent &&
          (i - begin) % turn.count == turn.index &&
          place_along(mesh, axes.by_source, row.source).index == source)
        numbers.push_back(i);
    }
  }
  return numbers;
}

ExpertRows part_of_rows(const ExpertRows& rows, const Plan& plan, const Buffer& buffer,
                        const RankPlace& place) {
  std::vector<bool> has(rows.rows().size(), false);
  for (const std::int64_t number : rows_of_part(rows, plan, buffer, place))
    has[static_cast<std::size_t>(number)] = true;
  std::vector<ExpertRow> part;
  const RowAxes axes = row_axes(rows, plan, buffer, place);
  const Mesh& mesh = mesh_at(plan, place);
  const std::int64_t turn = place_along(mesh, axes.in_turn, place.local).index;
  for (std::size_t i = 0; i < rows.choices().size(); ++i) {
    if (!has[static_cast<std::size_t>(rows.row_of_choice()[i])]) continue;
    part.push_back(rows.choices()[i]);
    // From here on the row is the one's who had its copy, wherever this one is from.
    part.back().source = moved_along(mesh, axes.in_turn, part.back().source, turn);
  }
  std::vector<std::uint8_t> still_copied = rows.copied_over();
  std::erase_if(still_copied, [&](std::uint8_t axis) { return contains(axes.in_turn, axis); });
  return {experts_of(plan, buffer, place), std::move(part), std::move(still_copied), rows.experts_of_row()};
}

}  // namespace simrun
