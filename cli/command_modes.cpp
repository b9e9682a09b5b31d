#include "cli/command_modes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace simrun {
namespace {

using Flags = std::vector<std::string_view>;

// Modes that no single flag names.
constexpr std::string_view a_search = "a search (--plan)", a_comparison = "a comparison of two jobs",
                           simulating = "simulating a job";

// Whatever is asked for: how messages look, and not to write what is not written anyway.
const Flags& read_everywhere() {
  static const Flags flags = {"--color", "-q", "-v", "--no-html"};
  return flags;
}

// Of a simulated job.
Flags of_simulation() {
  return {"--set", "--engine", "--html", "--json", "--plan", "--trace", "--schedule-csv"};
}

// Of one that also runs.
Flags of_execution() {
  Flags flags = of_simulation();
  flags.insert(flags.end(),
               {"--sensitivity", "--device", "--dtype", "--steps", "--reference", "--no-reference", "--seed",
                "--learning-rate", "--data", "--load", "--save", "--save-every"});
  return flags;
}

Flags of_many_jobs() { return {"--set", "--engine", "--html", "--json", "--csv"}; }

}  // namespace

const std::vector<CommandMode>& command_modes() {
  static const std::vector<CommandMode> all = {
      {"--serve", {0, 1}, {"--port", "--engine"}},
      {"--doctor", {0, 0}, {"--json"}},
      {"--fit", {0, 0}, {"--device", "--filter", "--coefficients", "--set"}},
      {"--validate", {0, 0}, {"--filter", "--bands", "--csv", "--html", "--json", "--set", "--engine"}},
      {"--import-trace",
       {0, 0},
       {"--against", "--profile", "--html", "--json", "--set", "--engine", "--trace"}},
      {"--collective",
       {0, 0},
       {"--bytes", "--cluster", "--nodes", "--gpus-per-node", "--algorithm", "--protocol", "--set", "--html",
        "--json"}},
      {"--export", {1, 1}, {"-o", "--set", "--engine"}},
      {"--import", {1, 1}, {"-o", "--set"}},
      {a_search, {1, 1}, {"-o", "--set", "--json", "--resume"}},
      {"--calibrate", {0, 0}, {"-o", "--dtype"}},
      {"--execute", {1, 1}, of_execution()},
      {"--schedule",
       {0, 0},
       {"--ranks", "--microbatches", "--virtual", "--slices", "--group-size", "--costs", "--comm",
        "--memory-limit", "--search-effort", "--dry", "--html", "--json", "--schedule-csv"}},
      {"--placement", {1, 1}, of_many_jobs()},
      {"--sweep", {1, 1}, of_many_jobs()},
      {a_comparison, {2, 2}, {"--set", "--engine", "--html", "--json"}},
      {"--sensitivity", {1, 1}, of_simulation()},
      {"--check", {1, 1}, {"--set", "--engine"}},
      {"--print-config", {1, 1}, {"--set"}},
      {"--print-schedule", {1, 1}, {"--set"}},
      {"--print-layout", {1, 1}, {"--set", "--json"}},
      {"--print-topology", {1, 1}, {"--set", "--json", "--html"}},
      {simulating, {1, 1}, of_simulation()},
  };
  return all;
}

namespace {

bool is_asked(std::string_view mode, const Options& of) {
  return mode == "--serve"            ? of.serve.serve
         : mode == "--doctor"         ? of.doctor
         : mode == "--fit"            ? of.validate.fit.has_value()
         : mode == "--validate"       ? of.validate.rows.has_value()
         : mode == "--import-trace"   ? !of.import.traces.empty()
         : mode == "--collective"     ? of.collective.collective.has_value()
         : mode == "--export"         ? of.convert.to.has_value()
         : mode == "--import"         ? of.convert.from.has_value()
         : mode == a_search           ? of.plan_flags.search.has_value()
         : mode == "--calibrate"      ? of.calibrate
         : mode == "--execute"        ? of.execute.execute
         : mode == "--schedule"       ? of.schedule_flags.schedule.has_value()
         : mode == "--placement"      ? of.placement
         : mode == "--sweep"          ? !of.sweep.empty()
         : mode == a_comparison       ? of.other_input.has_value()
         : mode == "--sensitivity"    ? of.sensitivity
         : mode == "--check"          ? of.check
         : mode == "--print-config"   ? of.print_config
         : mode == "--print-schedule" ? of.print_schedule
         : mode == "--print-layout"   ? of.print_layout
         : mode == "--print-topology" ? of.print_topology
                                      : mode == simulating;
}

bool has(const Flags& flags, std::string_view flag) { return std::ranges::find(flags, flag) != flags.end(); }

// "--export, --import or --plan" of the modes that read it; "": too many, or simulating itself.
std::string places_of(std::string_view flag) {
  constexpr std::size_t most = 4;
  std::vector<std::string_view> names;
  for (const CommandMode& mode : command_modes()) {
    if (!has(mode.reads, flag)) continue;
    if (mode.name == simulating) return "";
    names.push_back(mode.name == a_search ? "--plan" : mode.name);
  }
  if (names.empty() || names.size() > most) return "";
  std::string text(names.front());
  for (std::size_t n = 1; n < names.size(); ++n)
    text += fmt::format("{}{}", n + 1 == names.size() ? " or " : ", ", names[n]);
  return text;
}

// What is meant where the flag is not read.
std::string instead_of(std::string_view mode, std::string_view flag) {
  if (mode == "--serve" && flag == "--set") return "the page's form sets values.";
  if (mode != simulating) return "";
  if (flag == "-o") return "--html names the page of a job.";
  if (flag == "--csv") return "--schedule-csv writes the pipeline schedule.";
  if (flag == "--against") return "--import-trace FILE names the trace.";
  if (flag == "--resume") return "simrun --plan CONFIG --resume";
  if (has({"--nodes", "--gpus-per-node", "--algorithm", "--protocol", "--cluster"}, flag))
    return "in a job: --set cluster.nodes=..., --set cluster.collectives.algorithm=...";
  return "";
}

}  // namespace

const CommandMode& mode_of(const Options& options) {
  return *std::ranges::find_if(command_modes(),
                               [&](const CommandMode& mode) { return is_asked(mode.name, options); });
}

OptionFault unread_flag(const CommandMode& mode, const std::vector<std::string>& given) {
  for (const std::string& flag : given) {
    const bool asks = flag == mode.name || (mode.name == a_search && flag == "--plan");
    if (asks || has(mode.reads, flag) || has(read_everywhere(), flag)) continue;
    const std::string places = places_of(flag);
    const std::string hint = instead_of(mode.name, flag);
    if (mode.name == simulating) return {fmt::format("{} goes with {}", flag, places), hint};
    return {fmt::format("{} does not go with {}", flag, mode.name),
            hint.empty() && !places.empty() ? fmt::format("it goes with {}.", places) : hint};
  }
  return {};
}

}  // namespace simrun
