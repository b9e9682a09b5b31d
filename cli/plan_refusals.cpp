#include "cli/plan_refusals.h"

#include <algorithm>
#include <utility>

#include "cli/refusal_position.h"
#include "configs/diagnostics.h"

namespace simrun {

void refuse_unsearched(const LoadedJob& job, const std::string& file,
                       const std::vector<Unsearched>& unsearched) {
  std::vector<Diagnostic> problems;
  problems.reserve(unsearched.size());
  for (const Unsearched& of : unsearched)
    problems.push_back({key_position(job, file, of.key), of.why, of.hint});
  std::ranges::stable_sort(problems, {}, &Diagnostic::position);
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

}  // namespace simrun
