#pragma once

#include <stdexcept>
#include <string>

#include "backend/run_failure.h"
#include "cli/processes.h"
#include "planner/search.h"

namespace simrun {

// Another process of a search is lost, or searches for something else.
class SearchLost : public std::runtime_error {
 public:
  explicit SearchLost(RunFailure failure) : std::runtime_error(failure.text), failure_(std::move(failure)) {}
  const RunFailure& failure() const { return failure_; }

 private:
  RunFailure failure_;
};

// The processes that mpirun or srun started, for a search that all make together. `agreement`: what they must
// have alike. The group must outlive the result, whose gather() throws SearchLost.
SearchProcesses search_processes(ProcessGroup& group, const std::string& agreement);

}  // namespace simrun
