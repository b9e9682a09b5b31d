#include "cli/option_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "cli/serve_rules.h"
#include "cli/sweep_values.h"
#include "cli/trace_format.h"
#include "traces/read_trace.h"

namespace simrun {
namespace {

struct GivenFlag {
  const char* name;
  bool is_given;
};

// The first that is given, or null.
const char* first_given(const std::vector<GivenFlag>& flags) {
  for (const GivenFlag& flag : flags)
    if (flag.is_given) return flag.name;
  return nullptr;
}

std::vector<GivenFlag> joined(const std::vector<std::vector<GivenFlag>>& lists) {
  std::vector<GivenFlag> all;
  for (const std::vector<GivenFlag>& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

OptionFault excluded(const char* what, const std::vector<GivenFlag>& flags) {
  const char* flag = first_given(flags);
  return {flag == nullptr ? "" : fmt::format("{} does not go with {}", flag, what), ""};
}

// Flags that print something instead of simulating.
std::vector<GivenFlag> prints(const Options& options) {
  return {{"--check", options.check},
          {"--print-config", options.print_config},
          {"--print-schedule", options.print_schedule},
          {"--print-layout", options.print_layout},
          {"--print-topology", options.print_topology}};
}

// Flags that write something about one simulated plan.
std::vector<GivenFlag> outputs_of_one(const Options& options) {
  return {{"--plan", options.plan.has_value()},
          {"--trace", !options.traces.empty()},
          {"--schedule-csv", options.schedule_csv.has_value()}};
}

// Flags that say how a plan is run.
std::vector<GivenFlag> execute_flags(const ExecuteFlags& flags) {
  return {{"--device", flags.device.has_value()},
          {"--dtype", flags.dtype.has_value()},
          {"--steps", flags.steps.has_value()},
          {"--reference", flags.reference},
          {"--no-reference", flags.no_reference},
          {"--seed", flags.seed.has_value()},
          {"--learning-rate", flags.learning_rate.has_value()},
          {"--data", flags.data.has_value()},
          {"--load", flags.load.has_value()},
          {"--save", flags.save.has_value()},
          {"--save-every", flags.save_every.has_value()}};
}

// A measurement of the machine takes no job.
OptionFault calibrate_fault(const Options& options) {
  if (!options.calibrate && !options.output) return {};
  if (!options.calibrate)
    return {"-o goes with --calibrate, --export, --import and --plan", "--html names the page of a job."};
  if (!options.input.empty())
    return {"--calibrate measures this machine and takes no job",
            "simrun --calibrate -o machine.yaml, then cluster: {from: machine.yaml} in the job."};
  if (options.execute.dtype.value_or("f32") == "bf16")
    return {"--calibrate measures f64 or f32: this CPU has no arithmetic in bf16", ""};
  std::vector<GivenFlag> others = joined({prints(options), outputs_of_one(options)});
  others.insert(others.end(), {{"--execute", options.execute.execute},
                               {"--set", !options.overrides.empty()},
                               {"--sweep", !options.sweep.empty()},
                               {"--schedule", options.schedule_flags.schedule.has_value()},
                               {"--sensitivity", options.sensitivity},
                               {"--html", options.html.has_value()},
                               {"--json", options.json}});
  for (const GivenFlag& flag : execute_flags(options.execute))
    if (std::string_view(flag.name) != "--dtype") others.push_back(flag);
  return excluded("--calibrate", others);
}

OptionFault execute_fault(const Options& options) {
  const ExecuteFlags& flags = options.execute;
  if (!flags.execute) {
    for (const GivenFlag& flag : execute_flags(flags))
      if (flag.is_given) return {fmt::format("{} goes with --execute", flag.name), ""};
    return {};
  }
  std::vector<GivenFlag> others = prints(options);
  others.insert(others.begin(), {{"--sweep", !options.sweep.empty()},
                                 {"--schedule", options.schedule_flags.schedule.has_value()}});
  if (OptionFault fault = excluded("--execute", others); !fault.message.empty()) return fault;
  if (options.other_input) return {"--execute takes one job, not two", ""};
  if (flags.reference && flags.no_reference)
    return {"--reference and --no-reference contradict each other", ""};
  if (flags.learning_rate && !(std::isfinite(*flags.learning_rate) && *flags.learning_rate > 0))
    return {fmt::format("--learning-rate takes a number above 0, not {}", *flags.learning_rate), ""};
  const std::string device = flags.device.value_or("cpu");
  if (device != "cpu" && device != "null" && device != "cuda")
    return {fmt::format("--device is cpu, null or cuda, not '{}'", device), ""};
  if (device == "null")
    return excluded("--device null, which computes nothing",
                    {{"--dtype", flags.dtype.has_value()},
                     {"--reference", flags.reference},
                     {"--seed", flags.seed.has_value()},
                     {"--learning-rate", flags.learning_rate.has_value()},
                     {"--data", flags.data.has_value()},
                     {"--load", flags.load.has_value()},
                     {"--save", flags.save.has_value()}});
  if (flags.save_every && !flags.save) return {"--save-every goes with --save", ""};
  if (flags.load && flags.seed)
    return {"--seed does not go with --load",
            "a run goes on with the seed that its checkpoint was made with."};
  return {};
}

// A measured step takes its job by name, and is written, not run.
OptionFault import_fault(const Options& options) {
  const ImportFlags& flags = options.import;
  if (flags.traces.empty()) {
    if (const char* flag =
            first_given({{"--against", flags.against.has_value()}, {"--profile", flags.profile.has_value()}}))
      return {fmt::format("{} goes with --import-trace", flag), "--import-trace FILE names the trace."};
    return {};
  }
  if (is_trace_name(options.input))
    return {"--import-trace is given once for each trace", "--import-trace " + options.input};
  if (!options.input.empty())
    return {"--import-trace takes its job with --against", "--against " + options.input};
  if (!flags.against)
    if (const char* flag = first_given({{"--profile", flags.profile.has_value()},
                                        {"--html", options.html.has_value()},
                                        {"--set", !options.overrides.empty()},
                                        {"--engine", options.engine != EngineChoice::automatic}}))
      return {fmt::format("{} goes with --against: a trace alone is no job", flag),
              "--against CONFIG names the job that was profiled."};
  std::vector<GivenFlag> others = joined({prints(options), execute_flags(options.execute)});
  others.insert(others.end(), {{"--plan", options.plan.has_value()},
                               {"--schedule-csv", options.schedule_csv.has_value()},
                               {"--execute", options.execute.execute},
                               {"--sweep", !options.sweep.empty()},
                               {"--placement", options.placement},
                               {"--schedule", options.schedule_flags.schedule.has_value()},
                               {"--collective", options.collective.collective.has_value()},
                               {"--calibrate", options.calibrate},
                               {"--sensitivity", options.sensitivity},
                               {"--plan", options.plan_flags.search.has_value()},
                               {"--resume", options.plan_flags.resume},
                               {"--export", options.convert.to.has_value()},
                               {"-o", options.output.has_value()},
                               {"--csv", options.csv.has_value()}});
  return excluded("--import-trace", others);
}

OptionFault doctor_fault(const Options& options) {
  if (!options.input.empty()) return {"--doctor takes no job: it is about this machine", ""};
  std::vector<GivenFlag> others =
      joined({prints(options), outputs_of_one(options), execute_flags(options.execute)});
  others.insert(others.end(), {{"--execute", options.execute.execute},
                               {"--set", !options.overrides.empty()},
                               {"--sweep", !options.sweep.empty()},
                               {"--schedule", options.schedule_flags.schedule.has_value()},
                               {"--sensitivity", options.sensitivity},
                               {"--html", options.html.has_value()},
                               {"--csv", options.csv.has_value()}});
  return excluded("--doctor", others);
}

// A schedule alone takes none of what needs a model.
OptionFault schedule_fault(const Options& options) {
  const ScheduleFlags& flags = options.schedule_flags;
  if (!flags.schedule) {
    for (const GivenFlag& flag :
         {GivenFlag{"--ranks", flags.ranks.has_value()},
          GivenFlag{"--microbatches", flags.microbatches.has_value()},
          GivenFlag{"--virtual", flags.virtual_stages.has_value()},
          GivenFlag{"--slices", flags.slices.has_value()},
          GivenFlag{"--group-size", flags.group_size.has_value()},
          GivenFlag{"--costs", flags.costs.has_value()}, GivenFlag{"--comm", flags.communication.has_value()},
          GivenFlag{"--memory-limit", flags.memory_limit.has_value()},
          GivenFlag{"--search-effort", flags.search_effort.has_value()}, GivenFlag{"--dry", flags.dry}})
      if (flag.is_given) return {fmt::format("{} goes with --schedule", flag.name), ""};
    return {};
  }
  if (!options.input.empty())
    return {"--schedule draws a schedule without a job",
            fmt::format("a job's own: --set parallelism.pipeline_schedule={}", *flags.schedule)};
  std::vector<GivenFlag> others = prints(options);
  others.insert(others.end(), {{"--set", !options.overrides.empty()},
                               {"--sweep", !options.sweep.empty()},
                               {"--sensitivity", options.sensitivity},
                               {"--engine", options.engine != EngineChoice::automatic},
                               {"--plan", options.plan.has_value()},
                               {"--trace", !options.traces.empty()},
                               {"--csv", options.csv.has_value()}});
  if (*flags.schedule == "all") others.push_back({"--schedule-csv", options.schedule_csv.has_value()});
  if (flags.dry) others.push_back({"--html", options.html.has_value()});
  return excluded(flags.dry ? "--dry" : *flags.schedule == "all" ? "--schedule all" : "--schedule", others);
}

// A collective alone takes none of what needs a job, but --set, --json, --html and -q.
OptionFault collective_fault(const Options& options) {
  const CollectiveFlags& flags = options.collective;
  if (!flags.collective) {
    for (const GivenFlag& flag :
         {GivenFlag{"--bytes", flags.bytes.has_value()}, GivenFlag{"--cluster", flags.cluster.has_value()},
          GivenFlag{"--nodes", flags.nodes.has_value()},
          GivenFlag{"--gpus-per-node", flags.gpus_per_node.has_value()},
          GivenFlag{"--algorithm", flags.algorithm.has_value()},
          GivenFlag{"--protocol", flags.protocol.has_value()}})
      if (flag.is_given)
        return {fmt::format("{} goes with --collective", flag.name),
                "in a job: --set cluster.nodes=..., --set cluster.collectives.algorithm=..."};
    return {};
  }
  if (!options.input.empty())
    return {"--collective takes no job: it is about a cluster", "name it with --cluster."};
  std::vector<GivenFlag> others =
      joined({prints(options), outputs_of_one(options), execute_flags(options.execute)});
  others.insert(others.end(), {{"--execute", options.execute.execute},
                               {"--sweep", !options.sweep.empty()},
                               {"--schedule", options.schedule_flags.schedule.has_value()},
                               {"--sensitivity", options.sensitivity},
                               {"--calibrate", options.calibrate},
                               {"--engine", options.engine != EngineChoice::automatic},
                               {"--csv", options.csv.has_value()}});
  return excluded("--collective", others);
}

// Measurements are jobs of their own: no other one, and --set holds for all of them.
OptionFault measured_rows_fault(const Options& options, const char* mode) {
  if (!options.input.empty())
    return {fmt::format("{} takes no job: its rows are", mode), "--set changes a value of every row's job."};
  std::vector<GivenFlag> others = joined({prints(options), outputs_of_one(options)});
  for (const GivenFlag& flag : execute_flags(options.execute))
    if (!options.validate.fit || flag.name != std::string_view("--device")) others.push_back(flag);
  others.insert(others.end(), {{"--execute", options.execute.execute},
                               {"--sweep", !options.sweep.empty()},
                               {"--placement", options.placement},
                               {"--schedule", options.schedule_flags.schedule.has_value()},
                               {"--collective", options.collective.collective.has_value()},
                               {"--sensitivity", options.sensitivity},
                               {"--calibrate", options.calibrate}});
  return excluded(mode, others);
}

OptionFault fit_fault(const Options& options) {
  if (options.validate.rows) return {"--fit and --validate exclude each other", ""};
  if (!options.execute.device) return {"--fit needs --device NAME", "for example --device a100_sxm_80gb."};
  for (const GivenFlag& flag :
       {GivenFlag{"--bands", options.validate.bands.has_value()},
        GivenFlag{"--html", options.html.has_value()}, GivenFlag{"--csv", options.csv.has_value()},
        GivenFlag{"--json", options.json}})
    if (flag.is_given) return {fmt::format("{} does not go with --fit", flag.name), ""};
  return measured_rows_fault(options, "--fit");
}

OptionFault validate_fault(const Options& options) {
  if (options.validate.fit) return fit_fault(options);
  if (options.validate.coefficients) return {"--coefficients goes with --fit", ""};
  if (options.validate.rows) return measured_rows_fault(options, "--validate");
  if (!options.validate.filters.empty()) return {"--filter goes with --validate or --fit", ""};
  if (options.validate.bands) return {"--bands goes with --validate", ""};
  return {};
}

// A job in other words is neither simulated nor run.
OptionFault convert_fault(const Options& options) {
  const ConvertFlags& flags = options.convert;
  if (flags.to && flags.from) return {"--export and --import exclude each other", "one after the other."};
  const char* what = flags.to ? "--export" : "--import";
  if (options.other_input)
    return {fmt::format("{} takes one file, not two", what), "others in commands of their own."};
  std::vector<GivenFlag> others =
      joined({prints(options), outputs_of_one(options), execute_flags(options.execute)});
  others.insert(others.end(), {{"--execute", options.execute.execute},
                               {"--sweep", !options.sweep.empty()},
                               {"--placement", options.placement},
                               {"--sensitivity", options.sensitivity},
                               {"--schedule", options.schedule_flags.schedule.has_value()},
                               {"--calibrate", options.calibrate},
                               {"--html", options.html.has_value()},
                               {"--csv", options.csv.has_value()},
                               {"--json", options.json}});
  return excluded(what, others);
}

OptionFault search_fault(const Options& options) {
  if (!options.plan_flags.search) {
    if (options.plan_flags.resume) return {"--resume goes with --plan", "simrun --plan CONFIG --resume"};
    return {};
  }
  if (options.other_input) return {"--plan takes one job, not two", ""};
  std::vector<GivenFlag> others =
      joined({prints(options), outputs_of_one(options), execute_flags(options.execute)});
  others.insert(others.end(), {{"--execute", options.execute.execute},
                               {"--sweep", !options.sweep.empty()},
                               {"--placement", options.placement},
                               {"--sensitivity", options.sensitivity},
                               {"--html", options.html.has_value()},
                               {"--csv", options.csv.has_value()}});
  return excluded("a search (--plan)", others);
}

OptionFault mode_fault(const Options& options) {
  std::vector<GivenFlag> others = joined({prints(options), outputs_of_one(options)});
  if (options.placement) {
    if (options.other_input) return {"--placement takes one job, not two", ""};
    const auto is_order = [](const Override& given) { return given.key == "parallelism.rank_order"; };
    if (std::ranges::any_of(options.overrides, is_order))
      return {"--placement auto tries values of parallelism.rank_order, which --set gives", ""};
    others.push_back({"--sweep", !options.sweep.empty()});
    others.push_back({"--sensitivity", options.sensitivity});
    return excluded("--placement", others);
  }
  if (!options.sweep.empty()) {
    if (options.other_input) return {"--sweep takes one job, not two", ""};
    others.push_back({"--sensitivity", options.sensitivity});
    return excluded("--sweep", others);
  }
  if (options.csv)
    return {"--csv writes the table of a --sweep, or the rows of --validate",
            "--schedule-csv writes the pipeline schedule."};
  if (options.other_input) {
    others.push_back({"--sensitivity", options.sensitivity});
    return excluded("a comparison of two jobs", others);
  }
  if (options.sensitivity) return excluded("--sensitivity", prints(options));
  for (const GivenFlag& print : prints(options))
    if (print.is_given) return excluded(print.name, outputs_of_one(options));
  return {};
}

OptionFault sweep_fault(const Options& options) {
  for (std::size_t k = 0; k < options.sweep.size(); ++k) {
    const std::string& key = options.sweep[k].key;
    const auto is_key = [&](const auto& other) { return other.key == key; };
    const auto before = options.sweep.begin() + static_cast<std::ptrdiff_t>(k);
    if (std::any_of(options.sweep.begin(), before, is_key))
      return {fmt::format("--sweep names '{}' twice", key), "list all its values after one '='."};
    if (std::ranges::any_of(options.overrides, is_key))
      return {fmt::format("'{}' is given by --set and by --sweep", key), ""};
  }
  if (!is_small_enough(options.sweep))
    return {fmt::format("the sweep has more than {} points", most_sweep_points),
            "sweep fewer values at a time."};
  return {};
}

}  // namespace

OptionFault fault_of(const Options& options) {
  if (options.html && options.no_html) return {"--html and --no-html contradict each other", ""};
  const bool json = options.json && !options.print_layout && !options.print_topology;
  const int printed = int{json} + int{options.check} + int{options.print_config} +
                      int{options.print_schedule} + int{options.print_layout} + int{options.print_topology};
  if (printed > 1)
    return {
        "--json, --check, --print-config, --print-schedule, --print-layout and --print-topology exclude "
        "one another",
        ""};
  if (options.quiet && options.verbose) return {"-q and -v contradict each other", ""};
  for (const std::string& path : options.traces)
    if (!trace_format(path))
      return {fmt::format("--trace cannot tell the format of '{}' from its name", path),
              "end it in .json or .json.gz (Chrome's trace format) or .perfetto-trace."};
  if (OptionFault fault = serve_fault(options); !fault.message.empty() || options.serve.serve) return fault;
  if (options.doctor) return doctor_fault(options);
  if (OptionFault fault = validate_fault(options);
      !fault.message.empty() || options.validate.rows || options.validate.fit)
    return fault;
  if (OptionFault fault = import_fault(options); !fault.message.empty() || !options.import.traces.empty())
    return fault;
  if (OptionFault fault = collective_fault(options); !fault.message.empty() || options.collective.collective)
    return fault;
  if (options.convert.to || options.convert.from) return convert_fault(options);
  if (OptionFault fault = search_fault(options); !fault.message.empty() || options.plan_flags.search)
    return fault;
  if (OptionFault fault = calibrate_fault(options); !fault.message.empty() || options.calibrate) return fault;
  if (OptionFault fault = execute_fault(options); !fault.message.empty()) return fault;
  OptionFault alone = schedule_fault(options);
  if (!alone.message.empty() || options.schedule_flags.schedule) return alone;
  const OptionFault fault = mode_fault(options);
  return fault.message.empty() ? sweep_fault(options) : fault;
}

}  // namespace simrun
