#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/option_fault.h"
#include "cli/options.h"

namespace simrun {

// What a command line asks for and which flags are read then. Every other flag is refused, so that none is
// silently ignored: a new flag is read nowhere until it stands here.
struct CommandMode {
  struct Jobs {
    int least, most;
  };
  std::string_view name;                // the flag that asks for it, if one does: "--sweep"
  Jobs jobs;                            // that it takes
  std::vector<std::string_view> reads;  // flags beside its own and what is read everywhere
};

// In order: who asks for two of them is answered by the first. The last one simulates a job.
const std::vector<CommandMode>& command_modes();

// What is asked for.
const CommandMode& mode_of(const Options& options);

// A flag of `given` ("--json", "-o") that the mode does not read, and where it is read. No message: none.
OptionFault unread_flag(const CommandMode& mode, const std::vector<std::string>& given);

}  // namespace simrun
