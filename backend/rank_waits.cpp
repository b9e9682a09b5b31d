#include "backend/rank_waits.h"

#include <fmt/format.h>

#include <algorithm>

namespace simrun {

std::string who_waits(const RankWaits& ranks) {
  constexpr std::size_t most = 8;
  std::vector<std::string> lines;
  for (const RankWaits::Wait& wait : ranks.waits) {
    if (lines.size() == most) break;
    const bool ended = std::binary_search(ranks.ended.begin(), ranks.ended.end(), wait.from);
    lines.push_back(fmt::format("rank {} waits for rank {}{} in {}", wait.rank, wait.from,
                                ended ? ", which has ended," : "", wait.what));
  }
  const std::size_t others = ranks.waits.size() - lines.size();
  return fmt::format("{}{}", fmt::join(lines, "; "), others == 0 ? "" : fmt::format("; and {} more", others));
}

}  // namespace simrun
