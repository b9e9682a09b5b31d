#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "cli/version.h"
#include "configs/diagnostics.h"

namespace simrun {
namespace {

constexpr const char* footer =
    "CONFIG is a job in YAML or a Plan file written by --plan.\n"
    "exit: 0 ok, 1 a bug of ours, 2 wrong command line or config, 3 the plan does not fit in memory\n";

// Flags of the design that are not there yet: refused by name, so that a script does not run without what it
// asked for.
constexpr std::array later_flags{
    "--execute",        "--device", "--trace",    "--schedule-csv", "--import-hf", "--export",
    "--open",           "--engine", "--sweep",    "--sensitivity",  "--validate",  "--serve",
    "--calibrate",      "--doctor", "--schedule", "--collective",   "--placement", "--print-layout",
    "--print-topology", "--steps",  "--fit",      "--import-trace"};

void add_flags(CLI::App& app, Options& options, std::vector<std::string>& inputs,
               std::vector<std::string>& sets, std::string& color) {
  app.add_option("CONFIG", inputs, "job file or Plan file")->required();
  app.add_option("--set", sets, "override one value, KEY=VALUE; repeatable: --set training.seq_length=4096")
      ->allow_extra_args(false);
  app.add_option("--html", options.html, "write the page here (default: beside CONFIG)");
  app.add_flag("--no-html", options.no_html, "write no page");
  app.add_option("--plan", options.plan, "write the Plan file here");
  app.add_flag("--json", options.json, "print the summary as JSON (no page unless --html)");
  app.add_flag("--check", options.check, "validate and print every derived number; simulate nothing");
  app.add_flag("--print-config", options.print_config,
               "print the effective config, each value with its origin");
  app.add_flag("--print-schedule", options.print_schedule,
               "print the compute passes of every rank, in PyTorch's spelling");
  app.add_option("--color", color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_flag("-q,--quiet", options.quiet, "print nothing but errors");
  app.add_flag("-v,--verbose", options.verbose, "say what is done and how long it takes");
}

ParsedOptions refusal(const std::string& message, const std::string& hint) {
  ParsedOptions parsed;
  parsed.exit_code = 2;
  parsed.error = "simrun: error: " + message + "\n" + (hint.empty() ? "" : "  hint: " + hint + "\n");
  return parsed;
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

ParsedOptions refuse_extras(const CLI::App& app, const std::vector<std::string>& extras) {
  for (const std::string& extra : extras) {
    const std::string flag = extra.substr(0, extra.find('='));
    if (std::find(later_flags.begin(), later_flags.end(), flag) != later_flags.end())
      return refusal(flag + " is not supported yet", "");
    if (!flag.empty() && flag.front() == '-') {
      const std::string near = closest(flag, flag_names(app));
      return refusal("unknown flag '" + flag + "'",
                     near.empty() ? "simrun --help lists the flags." : "did you mean '" + near + "'?");
    }
  }
  return refusal("unexpected argument '" + extras.front() + "'", "simrun --help shows the command line.");
}

// "" or what is wrong with the combination.
std::string contradiction(const Options& options, const std::vector<std::string>& inputs) {
  if (inputs.size() > 1) return "comparing two configs is not supported yet";
  if (options.html && options.no_html) return "--html and --no-html contradict each other";
  const int prints =
      int{options.json} + int{options.check} + int{options.print_config} + int{options.print_schedule};
  if (prints > 1) return "--json, --check, --print-config and --print-schedule exclude one another";
  if (options.quiet && options.verbose) return "-q and -v contradict each other";
  return "";
}

std::string read_overrides(const std::vector<std::string>& sets, Options& options) {
  for (const std::string& set : sets) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0) return "--set takes KEY=VALUE, not '" + set + "'";
    options.overrides.push_back({set.substr(0, equals), set.substr(equals + 1)});
  }
  return "";
}

}  // namespace

ParsedOptions parse_options(int argc, const char* const* argv) {
  CLI::App app{
      "simrun simulates a large-model training job: does it fit, how long is a step, where does the time go.",
      "simrun"};
  app.footer(footer);
  app.allow_extras();
  app.set_version_flag("--version", version());
  ParsedOptions parsed;
  std::vector<std::string> inputs;
  std::vector<std::string> sets;
  std::string color = "auto";
  add_flags(app, parsed.options, inputs, sets, color);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed.exit_code = 0;
    parsed.out = app.help();
    return parsed;
  } catch (const CLI::CallForVersion&) {
    parsed.exit_code = 0;
    parsed.out = "simrun " + version() + "\n";
    return parsed;
  } catch (const CLI::RequiredError&) {
    const std::vector<std::string> extras = app.remaining();
    if (!extras.empty()) return refuse_extras(app, extras);
    return refusal("no job given", "simrun configs/jobs/llama3-70b-64xh100.yaml");
  } catch (const CLI::ParseError& error) {
    return refusal(error.what(), "simrun --help shows the command line.");
  }
  if (!app.remaining().empty()) return refuse_extras(app, app.remaining());
  const std::string wrong = contradiction(parsed.options, inputs);
  if (!wrong.empty()) return refusal(wrong, "");
  const std::string bad_set = read_overrides(sets, parsed.options);
  if (!bad_set.empty()) return refusal(bad_set, "");
  parsed.options.input = inputs.front();
  parsed.options.color = color == "always"  ? ColorMode::always
                         : color == "never" ? ColorMode::never
                                            : ColorMode::automatic;
  return parsed;
}

}  // namespace simrun
