#include "cli/plan_refusals.h"

#include <algorithm>
#include <utility>

#include "cli/refusal_position.h"
#include "configs/diagnostics.h"

namespace simrun {

void refuse_unsearched(const LoadedJob& job, const std::string& file, std::vector<Unsearched> of_job,
                       const std::vector<Unsearched>& of_limits) {
  of_job.insert(of_job.end(), of_limits.begin(), of_limits.end());
  std::vector<Diagnostic> problems;
  problems.reserve(of_job.size());
  for (const Unsearched& of : of_job) problems.push_back({key_position(job, file, of.key), of.why, of.hint});
  std::ranges::stable_sort(problems, {}, &Diagnostic::position);
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

}  // namespace simrun
