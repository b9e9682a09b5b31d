#include "planner/alpa_search.h"

#include "planner/alpa_proposals.h"
#include "planner/unsearched.h"

namespace simrun {

std::vector<AlpaPlan> alpa_plans(const std::vector<AlpaVariant>& variants, const AlpaOptions& options,
                                 CollectivePrices& collectives, const PlanProgress& progress) {
  for (const AlpaVariant& variant : variants) require_searched(unsearched_by_alpa(variant.job));
  return AlpaProposals(variants, options, collectives, progress).best();
}

std::vector<AlpaPlan> alpa_plans(const Job& job, const AlpaOptions& options) {
  CollectivePrices collectives(job.cluster);
  return alpa_plans({{"", job}}, options, collectives, {});
}

}  // namespace simrun
