#pragma once

#include <string>

#include "schedules/plan.h"
#include "schedules/summary.h"

namespace simrun {

struct TerminalOptions {
  bool color = false;             // ANSI colours
  int width = 100;                // columns of the terminal; the bars take what the text leaves
  std::string does_not_fit = {};  // what to say when the plan does not fit: a paragraph, printed prominently;
                                  // empty: nothing
};

// The summary for people: what runs where, the step's time split into compute, bubble and exposed
// communication (each by cause), one table row per pipeline rank, and the most used link of each kind. More
// than 16 pipeline ranks are folded to the ends, the fullest and the one that waits longest, and the table
// says so. Ends in a newline. Pure: equal inputs give equal bytes.
std::string terminal_summary(const Plan& plan, const Summary& summary, const TerminalOptions& options = {});

}  // namespace simrun
