#pragma once

#include "cli/options.h"

namespace simrun {

// Runs one command line; returns the exit code (see --help). Messages go to standard error, results to
// standard output.
int run(const Options& options);

// The program: reads the command line and runs it; returns the exit code.
int run_program(int argc, char** argv);

}  // namespace simrun
