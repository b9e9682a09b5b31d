#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/collective_flags.h"
#include "cli/convert_flags.h"
#include "cli/execute_flags.h"
#include "cli/import_flags.h"
#include "cli/plan_flags.h"
#include "cli/schedule_flags.h"
#include "cli/serve_flags.h"
#include "cli/validate_flags.h"
#include "configs/load_job.h"
#include "sim/simulate.h"
#include "visualizer/sweep_tables.h"

namespace simrun {

enum class ColorMode : std::uint8_t { automatic, always, never };

struct Options {
  std::string input;                       // a job (YAML) or a Plan file; empty: a schedule alone
  std::optional<std::string> other_input;  // to compare it with
  std::vector<Override> overrides;
  std::vector<SweepKey> sweep;  // empty: no sweep
  bool placement = false;       // a sweep over the sensible orders of ranks
  bool sensitivity = false;
  bool doctor = false;           // what this machine has, no job
  ScheduleFlags schedule_flags;  // a schedule without a model
  CollectiveFlags collective;    // a collective without a job
  ServeFlags serve;              // the estimator's page
  ValidateFlags validate;        // published measurements instead of a job
  ExecuteFlags execute;
  PlanFlags plan_flags;               // search for the best way to run the job
  ImportFlags import;                 // what was measured elsewhere
  bool calibrate = false;             // measure this machine instead
  ConvertFlags convert;               // to and from other programs' words
  std::optional<std::string> output;  // of the four above, -o: a path; unset: standard output
  EngineChoice engine = EngineChoice::automatic;
  std::optional<std::string> html;  // path of the page; unset: beside the input
  bool no_html = false;
  std::optional<std::string> plan;  // path of the Plan file to write; of a search see plan_flags
  std::vector<std::string> traces;  // .json, .json.gz, .perfetto-trace
  std::optional<std::string> schedule_csv;
  std::optional<std::string> csv;  // of the sweep, or of --validate
  bool json = false;
  bool check = false;
  bool print_config = false;
  bool print_schedule = false;
  bool print_layout = false;
  bool print_topology = false;
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
