#pragma once

#include <string>
#include <vector>

#include "configs/job.h"
#include "configs/plan_config.h"

namespace simrun {

// A key of a job that a mode of --plan does not search with.
struct Unsearched {
  std::string key;   // as a config writes it: training.lora
  std::string why;   // a whole sentence without its full stop
  std::string hint;  // one suggestion
  bool operator==(const Unsearched&) const = default;
};

// Everything that keeps --plan alpa, --plan galvatron and --plan whale from a job; empty: nothing does. Pure.
std::vector<Unsearched> unsearched_by_alpa(const Job& job);
std::vector<Unsearched> unsearched_by_galvatron(const Job& job);
std::vector<Unsearched> unsearched_by_whale(const Job& job);

// The limits of a job's plan section that these do not know. Alpa's layouts are by operator, so that of
// plan.fix it keeps what is of stages and of the whole job; the others keep to plan.max_memory alone.
std::vector<Unsearched> limits_unknown_to_alpa(const PlanConfig& limits);
std::vector<Unsearched> limits_unknown_to_galvatron(const PlanConfig& limits);
std::vector<Unsearched> limits_unknown_to_whale(const PlanConfig& limits);

// Throws std::invalid_argument with the first of them.
void require_searched(const std::vector<Unsearched>& unsearched);

}  // namespace simrun
