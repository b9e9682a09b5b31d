#pragma once

#include "cli/interrupt_note.h"
#include "cli/options.h"
#include "planner/plan_progress.h"

namespace simrun {

// While it lives, a search's progress is a line on the terminal that is written over, unless the command is
// quiet or standard error is no terminal, and Ctrl-C stops the search.
class PlanProgressLine {
 public:
  explicit PlanProgressLine(const Options& options);
  ~PlanProgressLine();
  PlanProgressLine(const PlanProgressLine&) = delete;
  PlanProgressLine& operator=(const PlanProgressLine&) = delete;
  PlanProgress progress() const;  // this must outlive it

 private:
  bool shows_;
  InterruptNote note_;
};

}  // namespace simrun
