#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/evaluate_candidate.h"
#include "planner/search.h"

namespace simrun {

// A candidate, and what it takes if each transfer has its links for itself, once that is known.
struct Question {
  Candidate candidate;
  std::optional<Evaluation> alone = {};
};

// What some candidates take, or those of them that are one process's.
struct EvaluatedShare {
  bool was_stopped = false;
  std::vector<Evaluation> found;
};

// Simulates candidates on the search's threads and processes, but for those that are known.
class Evaluator {
 public:
  Evaluator(const PlanBase& base, const PlanSearchOptions& options) : base_(base), options_(options) {}

  // Looks whether to go on before it begins.
  EvaluatedShare run(const std::vector<Question>& questions, EngineChoice engine,
                     const PlanSearchProgress& progress) const;

  // For what every process does by itself: one of several is not stopped on its own.
  bool goes_on(const PlanSearchProgress& at) const {
    return options_.among.processes > 1 || !options_.progress || options_.progress(at);
  }

 private:
  static EvaluatedShare joined(const std::vector<std::string>& texts, std::size_t candidates);
  EvaluatedShare run_own(const std::vector<Question>& questions, EngineChoice engine,
                         const PlanSearchProgress& progress) const;

  const PlanBase& base_;
  const PlanSearchOptions& options_;
};

}  // namespace simrun
