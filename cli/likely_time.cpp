#include "cli/likely_time.h"

#include <utility>

#include "configs/node_groups.h"

namespace simrun {

std::optional<LikelyTime> likely_time(const Plan& plan, const LoadOptions& load, double step_time_s) {
  return likely_time(plan, load_error_bands(load), step_time_s);
}

std::optional<LikelyTime> likely_time(const Plan& plan, const std::vector<ErrorBand>& bands,
                                      double step_time_s) {
  if (GpuKinds(plan.cluster).count() > 1) return {};  // no run on several kinds of GPU was measured
  const RunKind kind = run_kind(plan);
  const std::optional<ErrorBand> band = band_of(bands, kind, false);
  if (!band || band->low <= 0) return {};
  const LikelyRange range = likely_range(*band, step_time_s);
  LikelyTime likely{range.from, range.to, band->runs, "", band->sources, kind.framework != no_framework};
  for (const std::string* word : {&band->kind.gpu, &band->kind.framework, &band->kind.parallelism})
    if (!word->empty())
      likely.kind +=
          (likely.kind.empty() ? "" : ", ") + (*word == no_framework ? "no framework named" : *word);
  return likely;
}

}  // namespace simrun
