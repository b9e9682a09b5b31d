#pragma once

#include <optional>
#include <string>
#include <vector>

#include "configs/load_job.h"

namespace simrun {

enum class ColorMode : std::uint8_t { automatic, always, never };

struct Options {
  std::string input;  // a job (YAML) or a Plan file
  std::vector<Override> overrides;
  std::optional<std::string> html;  // path of the page; unset: beside the input
  bool no_html = false;
  std::optional<std::string> plan;  // path of the Plan file to write
  bool json = false;
  bool check = false;
  bool print_config = false;
  bool print_schedule = false;
  ColorMode color = ColorMode::automatic;
  bool quiet = false;
  bool verbose = false;
};

// What the command line asks for, or what to print and exit with instead (help, version, a wrong command
// line: 2).
struct ParsedOptions {
  Options options;
  std::optional<int> exit_code;
  std::string out;    // for standard output
  std::string error;  // for standard error
};
ParsedOptions parse_options(int argc, const char* const* argv);

}  // namespace simrun
