#include "cli/option_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "cli/command_modes.h"
#include "cli/sweep_values.h"
#include "cli/trace_format.h"
#include "traces/read_trace.h"

namespace simrun {
namespace {

bool is_given(const std::vector<std::string>& given, std::string_view flag) {
  return std::ranges::find(given, flag) != given.end();
}

// Flags that say what is printed instead of a summary, or beside one another.
OptionFault printing_fault(const Options& options) {
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
  return {};
}

// A job where none is taken.
OptionFault superfluous_job(const Options& options, std::string_view mode) {
  if (mode == "--doctor") return {"--doctor takes no job: it is about this machine", ""};
  if (mode == "--calibrate")
    return {"--calibrate measures this machine and takes no job",
            "simrun --calibrate -o machine.yaml, then cluster: {from: machine.yaml} in the job."};
  if (mode == "--schedule")
    return {
        "--schedule draws a schedule without a job",
        fmt::format("a job's own: --set parallelism.pipeline_schedule={}", *options.schedule_flags.schedule)};
  if (mode == "--collective")
    return {"--collective takes no job: it is about a cluster", "name it with --cluster."};
  if (mode != "--import-trace")
    return {fmt::format("{} takes no job: its rows are", mode), "--set changes a value of every row's job."};
  if (is_trace_name(options.input))
    return {"--import-trace is given once for each trace", "--import-trace " + options.input};
  return {"--import-trace takes its job with --against", "--against " + options.input};
}

OptionFault job_fault(const Options& options, const CommandMode& mode) {
  const int jobs = int{!options.input.empty()} + int{options.other_input.has_value()};
  if (jobs < mode.jobs.least) return {"no job given", "simrun configs/jobs/llama3-70b-64xh100.yaml"};
  if (jobs <= mode.jobs.most) return {};
  if (mode.jobs.most == 0) return superfluous_job(options, mode.name);
  if (options.convert.to || options.convert.from)
    return {fmt::format("{} takes one file, not two", mode.name), "others in commands of their own."};
  return {fmt::format("{} takes one job, not two", mode.name), ""};
}

// What nothing computes is read of --execute's flags beside --device null.
OptionFault null_device_fault(const std::vector<std::string>& given) {
  for (const char* flag :
       {"--dtype", "--reference", "--seed", "--learning-rate", "--data", "--load", "--save", "--save-every"})
    if (is_given(given, flag))
      return {fmt::format("{} does not go with --device null, which computes nothing", flag), ""};
  return {};
}

OptionFault execute_fault(const ExecuteFlags& flags, const std::vector<std::string>& given) {
  if (flags.reference && flags.no_reference)
    return {"--reference and --no-reference contradict each other", ""};
  if (flags.learning_rate && !(std::isfinite(*flags.learning_rate) && *flags.learning_rate > 0))
    return {fmt::format("--learning-rate takes a number above 0, not {}", *flags.learning_rate), ""};
  const std::string device = flags.device.value_or("cpu");
  if (device != "cpu" && device != "null" && device != "cuda")
    return {fmt::format("--device is cpu, null or cuda, not '{}'", device), ""};
  if (device == "null") return null_device_fault(given);
  if (flags.save_every && !flags.save) return {"--save-every goes with --save", ""};
  if (flags.load && flags.seed)
    return {"--seed does not go with --load",
            "a run goes on with the seed that its checkpoint was made with."};
  return {};
}

// A measured step takes its job by name; without one it is only shown.
OptionFault import_fault(const Options& options, const std::vector<std::string>& given) {
  if (options.import.against) return {};
  for (const char* flag : {"--profile", "--html", "--set", "--engine"})
    if (is_given(given, flag))
      return {fmt::format("{} goes with --against: a trace alone is no job", flag),
              "--against CONFIG names the job that was profiled."};
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

// What a mode says of the flags that it reads.
OptionFault fault_in(const CommandMode& mode, const Options& options, const std::vector<std::string>& given) {
  if (mode.name == "--fit" && !options.execute.device)
    return {"--fit needs --device NAME", "for example --device a100_sxm_80gb."};
  if (mode.name == "--import-trace") return import_fault(options, given);
  if (mode.name == "--export" && options.convert.to != "chakra" && is_given(given, "--engine"))
    return {fmt::format("--engine does not go with --export {}", *options.convert.to),
            "it goes with --export chakra, whose traces have times."};
  if (mode.name == "--calibrate" && options.execute.dtype == "bf16")
    return {"--calibrate measures f64 or f32: this CPU has no arithmetic in bf16", ""};
  if (mode.name == "--execute") return execute_fault(options.execute, given);
  if (mode.name == "--schedule" && options.schedule_flags.dry && options.html)
    return {"--html does not go with --dry", ""};
  if (mode.name == "--schedule" && options.schedule_flags.schedule == "all" && options.schedule_csv)
    return {"--schedule-csv does not go with --schedule all", ""};
  if (mode.name == "--placement" && std::ranges::any_of(options.overrides, [](const Override& set) {
        return set.key == "parallelism.rank_order";
      }))
    return {"--placement auto tries values of parallelism.rank_order, which --set gives", ""};
  return mode.name == "--sweep" ? sweep_fault(options) : OptionFault{};
}

}  // namespace

OptionFault fault_of(const Options& options, const std::vector<std::string>& given) {
  if (OptionFault fault = printing_fault(options); !fault.message.empty()) return fault;
  const CommandMode& mode = mode_of(options);
  if (mode.jobs.least == 0)
    if (OptionFault fault = job_fault(options, mode); !fault.message.empty()) return fault;
  if (OptionFault fault = unread_flag(mode, given); !fault.message.empty()) return fault;
  if (OptionFault fault = job_fault(options, mode); !fault.message.empty()) return fault;
  return fault_in(mode, options, given);
}

}  // namespace simrun
