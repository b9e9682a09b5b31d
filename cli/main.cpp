#include <cstdio>

#include "cli/options.h"
#include "cli/processes.h"
#include "cli/run.h"

int main(int argc, char** argv) {
  const simrun::ParsedOptions parsed = simrun::parse_options(argc, argv);
  if (parsed.exit_code) {
    if (parsed.error.empty() || simrun::tells_of_mistakes()) {
      std::fputs(parsed.out.c_str(), stdout);
      std::fputs(parsed.error.c_str(), stderr);
    }
    return *parsed.exit_code;
  }
  return simrun::run(parsed.options);
}
