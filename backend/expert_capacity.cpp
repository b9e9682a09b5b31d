#include "backend/expert_capacity.h"

namespace simrun {

ExpertCapacity::ExpertCapacity(const std::vector<double>& constants, std::int64_t sequence, std::int64_t rows)
    : part_of_place_(1, 1, sequence), rows_(rows) {
  if (constants.empty()) return;
  parts_ = static_cast<std::int64_t>(constants.at(0));
  part_of_place_ = {parts_, static_cast<std::int64_t>(constants.at(1)), sequence};
  const bool has_groups = constants.size() > 3;
  if (has_groups) group_tokens_ = static_cast<std::int64_t>(constants[2]);
  room_ = has_groups ? static_cast<std::int64_t>(constants[3]) : rows / parts_;
  if (!has_groups) rows_ = parts_ * room_;
  tokens_.assign(static_cast<std::size_t>(parts_), 0);
}

void ExpertCapacity::begin_token(std::int64_t in_sequence) {
  if (!is_limited()) return;
  part_ = part_of_place_(in_sequence);
  const std::int64_t before = tokens_[static_cast<std::size_t>(part_)]++;
  group_ = group_tokens_ > 0 ? before / group_tokens_ : 0;
}

std::optional<std::int64_t> ExpertCapacity::take(std::int32_t expert) {
  if (!is_limited()) return 0;
  std::int64_t& taken = taken_[{expert, part_, group_}];
  if (taken == room_) return std::nullopt;
  return taken++;
}

std::int64_t ExpertCapacity::empty_rows(std::int32_t expert) const {
  std::int64_t empty = rows_;
  for (auto at = taken_.lower_bound({expert, 0, 0}); at != taken_.end() && std::get<0>(at->first) == expert;
       ++at)
    empty -= at->second;
  return empty;
}

}  // namespace simrun
