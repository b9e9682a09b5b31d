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

bool has_any(const Job& job, const PlanConfig& limits) {
  bool found = false;
  for_each_candidate(job, limits, [&](const Candidate&) { found = true; });
  return found;
}

// The batch nearest to the job's with which the limits leave a candidate; 0: none within 1,024 sequences.
std::int64_t nearest_batch(const LoadedJob& loaded) {
  Job job = loaded.job;
  constexpr std::int64_t most = 1024;
  const std::int64_t batch = job.training.global_batch_size;
  for (std::int64_t away = 1; away <= most; ++away)
    for (const std::int64_t next : {batch + away, batch - away}) {
      job.training.global_batch_size = next;
      if (next > 0 && has_any(job, loaded.plan)) return next;
    }
  return 0;
}

std::set<std::string> possible_schedules(const LoadedJob& loaded) {
  PlanConfig without = loaded.plan;
  without.schedules.clear();
  std::set<std::string> possible;
  if (!loaded.plan.schedules.empty())
    for_each_candidate(loaded.job, without, [&](const Candidate& of) {
      possible.insert(of.schedule.empty() ? "1f1b" : of.schedule);
    });
  return possible;
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
  if (const std::set<std::string> possible = possible_schedules(loaded); !possible.empty())
    return ConfigError(
        {{position_of("plan.fix.pipeline_schedule"),
          fmt::format("{}: pipeline_schedule is not {}", text, fmt::join(loaded.plan.schedules, " or ")),
          fmt::format("with the other limits it can be {}.", fmt::join(possible, ", "))}});
  if (const std::int64_t batch = nearest_batch(loaded); batch > 0)
    return ConfigError(
        {{position_of("training.global_batch_size"),
          fmt::format("{}: {} sequences do not divide so", text, loaded.job.training.global_batch_size),
          fmt::format("{} do.", batch)}});
  const bool are_several = loaded.plan.fixed_numbers.size() > 1;
  return ConfigError({{position_of("plan.fix"), text,
                       are_several ? "no single key of it is to blame: leave out some." : ""}});
}

}  // namespace simrun
