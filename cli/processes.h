#pragma once

#include <functional>
#include <string>

#include "backend/processes/group.h"

namespace simrun {

// What a command came to: its exit code, and the text of what ended it before it was through, if anything
// did.
struct Ending {
  int code = 0;
  std::string complaint;
};

// Runs a command that may execute a plan as one of several processes, as mpirun or srun started them
// (backend/processes/launch.h): joins the others and hands `attempt` their group, or nullptr where this
// process is alone. Of all processes one complains. Returns the exit code.
int run_among_processes(const std::function<Ending(ProcessGroup* processes)>& attempt);

// For what goes wrong before processes join, in all of them alike: whether this one is to tell of it. The
// others are held until the first has been read.
bool tells_of_mistakes();

// 2, 4 or 1 (see --help).
int exit_code(FailureKind kind);

}  // namespace simrun
