#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "planner/search.h"

namespace simrun {

// Of configs/jobs.
inline PlanBase base_of(const std::string& job, std::vector<Override> overrides = {}) {
  const std::string path = SIMRUN_SOURCE_DIR "/configs/jobs/" + job + ".yaml";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  LoadOptions load;
  load.overrides = std::move(overrides);
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  return plan_base(text.str(), path, load);
}

inline PlanSearchResult found_by(const PlanBase& base, unsigned threads = 1) {
  PlanSearchOptions options;
  options.threads = threads;
  return search_jobs(base, options);
}

// Without what has no estimates and takes the places of what does.
inline PlanSearchResult found_untuned(const PlanBase& base) {
  PlanSearchOptions options;
  options.threads = 2;
  options.tunes = false;
  return search_jobs(base, options);
}

inline const std::vector<Override> few_candidates = {
    {"plan.fix.recompute", "[none, full]"},
    {"plan.fix.virtual_pipeline_model_parallel_size", "[1, 2]"},
    {"plan.fix.micro_batch_size", "[1, 2]"},
    {"plan.fix.zero_stage", "[0, 1]"},
    {"plan.fix.context_parallel_size", "1"}};

// Not a neighbour of the best, nor one with its layers dealt.
inline bool is_estimated(const RankedCandidate& of) { return of.estimate.step_s > 0; }

inline std::vector<Override> with(std::vector<Override> overrides, const Override& more) {
  overrides.push_back(more);
  return overrides;
}

}  // namespace simrun
