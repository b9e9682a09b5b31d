#include "schedules/bpipe.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedules/accepted_sizes.h"
#include "schedules/one_f_one_b.h"

namespace simrun {

static std::string rule(const PipelineShape& shape) {
  if (std::string broken = one_stage_rule(shape); !broken.empty()) return broken;
  if (shape.ranks % 2 != 0)
    return fmt::format("bpipe pairs ranks, and {} of them is an odd number", shape.ranks);
  return "";
}

std::string bpipe_refusal(const PipelineShape& shape) { return refusal_with_sizes(shape, rule); }

Schedule bpipe(int ranks, int microbatches) { return one_f_one_b(ranks, microbatches); }

int bpipe_resident_peak(int ranks, int microbatches, int rank) {
  const int limit = (ranks + 3) / 2;  // ceil((ranks + 2) / 2)
  const int own = std::min(microbatches, ranks - rank);
  const int partners = std::min(microbatches, rank + 1);
  return std::min(own, limit) + std::max(0, partners - limit);
}

}  // namespace simrun
