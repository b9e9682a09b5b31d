#include "planner/other_schedules.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

namespace simrun {
namespace {

constexpr const char* hides_exchanges = "interleaved_1f1b_overlap";

bool is_other(const std::string& schedule) {
  return std::ranges::find(other_schedules(), schedule) != other_schedules().end();
}

// Of a rank under the schedule; loops of stages keep what the candidate has.
std::int64_t virtual_stages(const std::string& schedule, const Candidate& of) {
  if (of.pipeline == 1 || schedule == "zb_h2" || schedule == "dualpipe") return 1;
  const bool loops = schedule == "interleaved_zb" || schedule == hides_exchanges;
  return loops ? std::max<std::int64_t>(of.virtual_stages, 2) : 2;
}

bool may_have_stages(const Job& job, const PlanConfig& limits, const Candidate& of) {
  const auto fixed = limits.fixed_numbers.find("virtual_pipeline_model_parallel_size");
  return of.virtual_stages * of.pipeline <= job.model.num_layers &&
         (fixed == limits.fixed_numbers.end() ||
          std::ranges::find(fixed->second, of.virtual_stages) != fixed->second.end());
}

Candidate under(Candidate of, const std::string& schedule, std::int64_t stages) {
  of.schedule = schedule;
  of.virtual_stages = stages;
  of.balance = {};
  return of;
}

std::set<std::pair<std::string, std::int64_t>> searched_orders(std::int64_t virtual_stages) {
  return {{"zb_auto", 1}, {"v_auto", 2}, {"auto", 1}, {"auto", 2}, {"auto", virtual_stages}};
}

}  // namespace

const std::vector<std::string>& other_schedules() {
  static const std::vector<std::string> names = {"zb_h2",    "interleaved_zb", "v_half",       "v_min",
                                                 "dualpipe", "dualpipe_v",     hides_exchanges};
  return names;
}

std::vector<Candidate> with_other_schedules(const Job& job, const PlanConfig& limits,
                                            const Candidate& candidate) {
  std::vector<Candidate> found;
  if (!limits.schedules.empty() || candidate.is_as_written) return found;
  const bool has_experts = job.model.experts.count > 0;
  for (const std::string& schedule : other_schedules()) {
    const bool hides = schedule == hides_exchanges;
    if ((candidate.pipeline == 1 && !hides) || (hides && !has_experts)) continue;
    const Candidate next = under(candidate, schedule, virtual_stages(schedule, candidate));
    if (next != candidate && may_have_stages(job, limits, next)) found.push_back(next);
  }
  return found;
}

std::vector<Candidate> with_searched_orders(const Job& job, const PlanConfig& limits,
                                            const Candidate& candidate) {
  std::vector<Candidate> found;
  if (!limits.schedules.empty() || candidate.is_as_written || candidate.pipeline == 1) return found;
  for (const auto& [schedule, stages] : searched_orders(candidate.virtual_stages)) {
    Candidate next = under(candidate, schedule, stages);
    if (stages == candidate.virtual_stages) next.balance = candidate.balance;
    if (next != candidate && may_have_stages(job, limits, next)) found.push_back(std::move(next));
  }
  return found;
}

PlanConfig with_schedule_of(PlanConfig limits, const Candidate& candidate) {
  if (limits.schedules.empty() && is_other(candidate.schedule))
    limits.schedules = {"1f1b", "interleaved_1f1b", "zb_h1", "zb_v", candidate.schedule};
  return limits;
}

}  // namespace simrun
