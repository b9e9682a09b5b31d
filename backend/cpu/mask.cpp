#include "backend/cpu/mask.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "models/packed_documents.h"

namespace simrun::cpu {

ScoreMask mask_of(const KernelCall& call, std::int64_t sample, std::int64_t length) {
  ScoreMask mask{call.what.causal};
  if (!call.plan.job.documents) return mask;
  const DocumentConfig& config = call.plan.job.documents->config;
  for (const std::int64_t tokens : documents_of_sequence(config, length, sample))
    mask.document_begin.insert(mask.document_begin.end(), static_cast<std::size_t>(tokens),
                               static_cast<std::int64_t>(mask.document_begin.size()));
  return mask;
}

double alibi_slope(std::int64_t head, std::int64_t heads, double bias_max) {
  const auto power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(heads)));
  std::int64_t number = head + 1;
  if (power != heads) number = head < power / 2 ? 2 * (head + 1) : 2 * (head - power / 2) + 1;
  return std::exp2(-bias_max * static_cast<double>(number) / static_cast<double>(power));
}

std::int64_t RelativeBuckets::row(std::int64_t distance) const {
  const std::int64_t side = both_sides ? rows / 2 : rows, near = side / 2;
  const std::int64_t begin = both_sides && distance > 0 ? side : 0;
  const std::int64_t far = both_sides ? std::abs(distance) : std::max<std::int64_t>(-distance, 0);
  if (far < near) return begin + far;
  if (near == 0 || farthest <= static_cast<double>(near)) return begin + std::max<std::int64_t>(side - 1, 0);
  const auto first = static_cast<double>(near);
  const double share = std::log(static_cast<double>(far) / first) / std::log(farthest / first);
  const auto grown = static_cast<std::int64_t>(share * static_cast<double>(side - near));
  return begin + std::min(near + grown, side - 1);
}

}  // namespace simrun::cpu
