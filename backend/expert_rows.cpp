#include "backend/expert_rows.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "backend/sequence_parts.h"
#include "schedules/extent_tables.h"

namespace simrun {
namespace {

bool comes_before(const ExpertRow& a, const ExpertRow& b) {
  return std::tie(a.expert, a.token, a.source, a.slot) < std::tie(b.expert, b.token, b.source, b.slot);
}

// How many rows an expert takes of each part of a rank's tokens, and how full it is.
class Capacity {
 public:
  Capacity(const Dispatch& dispatch, const Buffer& out, std::int32_t microbatch)
      : part_of_place_(1, 1, dispatch.tokens[1].extent) {
    const std::vector<double>& constants = dispatch.what.constants;
    if (constants.empty()) return;
    parts_ = std::int64_t(constants.at(0));
    part_of_place_ = {parts_, std::int64_t(constants.at(1)), dispatch.tokens[1].extent};
    room_ = part_of(dispatch.plan, out, dispatch.place, microbatch)[1].extent / parts_;
  }
  bool is_limited() const { return parts_ > 0; }

  // Whether an expert takes a token whose place in the rank's part of the sequence is given.
  bool takes(std::int32_t expert, std::int64_t in_sequence) {
    if (parts_ == 0) return true;
    std::int64_t& taken = taken_[{expert, part_of_place_(in_sequence)}];
    return taken < room_ && taken++ < room_;
  }
  std::int64_t empty_rows(std::int32_t expert) const {
    std::int64_t empty = parts_ * room_;
    for (std::int64_t part = 0; part < parts_; ++part)
      if (const auto at = taken_.find({expert, part}); at != taken_.end()) empty -= at->second;
    return empty;
  }

 private:
  SequenceParts part_of_place_;
  std::int64_t parts_ = 0, room_ = 0;
  std::map<std::pair<std::int32_t, std::int64_t>, std::int64_t> taken_;  // by expert and part
};

}  // namespace

DimPart experts_of(const Plan& plan, const Buffer& buffer, const RankPlace& place) {
  return part_of(plan, buffer, place, 0).front();
}

ExpertRows::ExpertRows(const DimPart& experts, std::vector<ExpertRow> rows)
    : experts_(experts), rows_(std::move(rows)) {
  std::sort(rows_.begin(), rows_.end(), comes_before);
  std::size_t row = 0;
  for (std::int64_t expert = experts.first; expert < experts.first + experts.extent; ++expert) {
    begins_.push_back(static_cast<std::int64_t>(row));
    while (row < rows_.size() && rows_[row].expert <= expert) ++row;
  }
  begins_.push_back(static_cast<std::int64_t>(row));
}

bool has_expert_rows(const Plan& plan, const Buffer& buffer) {
  if (buffer.dims.size() < 2 || plan.dimension_names[buffer.dims[0].name] != "experts") return false;
  const std::string_view rows = plan.dimension_names[buffer.dims[1].name];
  return rows == "capacity" || rows == "node_rows" || rows == "gpu_rows";
}

ExpertRows dispatched_rows(const Dispatch& dispatch, std::int32_t microbatch) {
  const Buffer& out = dispatch.plan.buffers[dispatch.what.outputs.front()];
  const DimPart experts = experts_of(dispatch.plan, out, dispatch.place);
  const DimPart &batch = dispatch.tokens[0], &sequence = dispatch.tokens[1], &slots = dispatch.tokens[2];
  Capacity capacity(dispatch, out, microbatch);
  std::vector<ExpertRow> rows;
  auto chosen = dispatch.chosen.begin();
  for (std::int64_t b = 0; b < batch.extent; ++b)
    for (std::int64_t s = 0; s < sequence.extent; ++s)
      for (std::int32_t slot = 0; slot < slots.extent; ++slot) {
        const auto expert = static_cast<std::int32_t>(*chosen++);
        if (expert < experts.first || expert >= experts.first + experts.extent) continue;
        const std::int64_t token = batch.at(b) * sequence.whole + sequence.at(s);
        if (capacity.takes(expert, s)) rows.push_back({token, dispatch.place.local, expert, slot});
      }
  if (capacity.is_limited())
    for (auto e = static_cast<std::int32_t>(experts.first); e < experts.first + experts.extent; ++e)
      for (std::int32_t i = 0; i < capacity.empty_rows(e); ++i)
        rows.push_back({no_token, dispatch.place.local, e, i});
  return {experts, std::move(rows)};
}

std::vector<std::int64_t> rows_of_part(const ExpertRows& rows, const Plan& plan, const Buffer& buffer,
                                       const RankPlace& place) {
  const Mesh& mesh = plan.stages[static_cast<std::size_t>(place.pipeline_rank)].meshes.front();
  const DimPart experts = experts_of(plan, buffer, place);
  std::vector<std::uint8_t> axes;
  if (buffer.split.size() > 1) axes = axes_of_split(buffer.split[1], mesh);
  const std::int64_t own = place_along(mesh, axes, place.local).index;
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    const ExpertRow& row = rows.rows()[static_cast<std::size_t>(i)];
    if (row.expert >= experts.first && row.expert < experts.first + experts.extent &&
        place_along(mesh, axes, row.source).index == own)
      numbers.push_back(i);
  }
  return numbers;
}

ExpertRows selected_rows(const ExpertRows& rows, const std::vector<std::int64_t>& numbers,
                         const DimPart& experts) {
  std::vector<ExpertRow> selected;
  selected.reserve(numbers.size());
  for (const std::int64_t number : numbers) selected.push_back(rows.rows()[static_cast<std::size_t>(number)]);
  return {experts, std::move(selected)};
}

}  // namespace simrun
