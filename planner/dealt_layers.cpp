#include "planner/dealt_layers.h"

#include <stdexcept>

#include "configs/diagnostics.h"
#include "configs/node_groups.h"
#include "configs/pipeline_layout.h"
#include "planner/layer_shares.h"
#include "planner/pass_costs.h"

namespace simrun {
namespace {

std::vector<Candidate> dealt(const PlanBase& base, const Candidate& of) {
  const Job job = load_candidate(base, of);
  PassProbes probes;
  const PassCosts costs = probes.costs(job, of);
  const auto ranks = static_cast<std::size_t>(of.pipeline);
  // Memory is looked at where the plan is simulated.
  const std::vector<StageContent> stages =
      stages_by_time(job, of, std::vector(ranks, &costs), std::vector(ranks, job.model.num_layers));
  if (stages.empty() || stages == job.parallelism.stages) return {};
  Candidate next = of;
  next.balance.layout = pipeline_layout_text(stages);
  return {next};
}

}  // namespace

std::vector<Candidate> with_dealt_layers(const PlanBase& base, const Candidate& of) {
  if (of.pipeline == 1 || of.is_as_written || !of.balance.empty() || !has_layer_kinds(base.job.job))
    return {};
  try {
    return dealt(base, of);
  } catch (const ConfigError&) {
    return {};
  } catch (const std::invalid_argument&) {
    return {};
  } catch (const std::range_error&) {
    return {};
  }
}

void add_dealt_layers(const PlanBase& base, const std::vector<RankedCandidate>& of,
                      std::vector<Candidate>& dealt) {
  for (const RankedCandidate& one : of)
    for (Candidate& with : with_dealt_layers(base, one.candidate)) dealt.push_back(std::move(with));
}

bool fixes_nothing(const PlanConfig& limits) {
  return limits.fixed_numbers.empty() && limits.schedules.empty() && limits.recomputes.empty();
}

std::vector<Candidate> written_layout(const PlanBase& base) {
  const ConfigNode* parallelism = base.root.find("parallelism");
  if (!fixes_nothing(base.job.plan) || parallelism == nullptr ||
      parallelism->find("pipeline_model_parallel_layout") == nullptr)
    return {};
  Candidate written;
  written.is_as_written = true;
  return {written};
}

}  // namespace simrun
