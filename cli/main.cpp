#include <cstdio>

#include "cli/options.h"
#include "cli/run.h"

int main(int argc, char** argv) {
  const simrun::ParsedOptions parsed = simrun::parse_options(argc, argv);
  std::fputs(parsed.out.c_str(), stdout);
  std::fputs(parsed.error.c_str(), stderr);
  if (parsed.exit_code) return *parsed.exit_code;
  return simrun::run(parsed.options);
}
