#include "planner/contradiction.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <set>
#include <string>

#include "planner/candidate.h"

namespace simrun {
namespace {

// Its value of a key of plan.fix.
std::int64_t value_of(const Candidate& of, const std::string& key) {
  if (key == "tensor_model_parallel_size") return of.tensor;
  if (key == "pipeline_model_parallel_size") return of.pipeline;
  if (key == "virtual_pipeline_model_parallel_size") return of.virtual_stages;
  if (key == "context_parallel_size") return of.context;
  if (key == "expert_model_parallel_size") return of.expert;
  if (key == "expert_tensor_parallel_size") return of.expert_tensor;
  if (key == "data_parallel_size") return of.data;
  if (key == "micro_batch_size") return of.micro_batch;
  return of.zero_stage;
}

}  // namespace

ConfigError contradiction_of_limits(const LoadedJob& loaded) {
  const auto position_of = [&](const std::string& path) {
    const auto found = loaded.positions.find(path);
    if (found != loaded.positions.end()) return found->second;
    return SourcePosition{loaded.files.empty() ? "" : loaded.files.front(), 0, 0};
  };
  const std::string text = fmt::format("no way to split {} GPUs keeps plan.fix", loaded.job.world_size());
  for (const auto& [fixed, values] : loaded.plan.fixed_numbers) {
    const std::string& key = fixed;  // lambdas of clang 14 take no structured bindings
    PlanConfig without = loaded.plan;
    without.fixed_numbers.erase(key);
    std::set<std::int64_t> possible;
    for_each_candidate(loaded.job, without,
                       [&](const Candidate& candidate) { possible.insert(value_of(candidate, key)); });
    if (!possible.empty())
      return ConfigError({{position_of("plan.fix." + key),
                           fmt::format("{}: {} is not {}", text, key, fmt::join(values, " or ")),
                           fmt::format("with the other limits it can be {}.", fmt::join(possible, ", "))}});
  }
  const bool are_several = loaded.plan.fixed_numbers.size() > 1;
  return ConfigError({{position_of("plan.fix"), text,
                       are_several ? "no single key of it is to blame: leave out some." : ""}});
}

}  // namespace simrun
