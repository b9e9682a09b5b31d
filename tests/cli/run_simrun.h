#pragma once

#include <string>

#include "tests/cli/run_program.h"

namespace simrun {

// As run_simrun_in_shell(), in a copy of this process where nothing is for the shell: no library is loaded
// once more, which takes most of the time of a small job. What the copy starts with (heap, addresses) is this
// process's: whether two processes print the same is for run_simrun_in_shell().
Ran run_simrun(const std::string& arguments);

}  // namespace simrun
