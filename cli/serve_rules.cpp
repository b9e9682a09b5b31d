#include "cli/serve_rules.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace simrun {

OptionFault serve_fault(const Options& options) {
  if (!options.serve.serve)
    return options.serve.port ? OptionFault{"--port goes with --serve", ""} : OptionFault{};
  if (options.other_input) return {"--serve takes one job, not two", ""};
  const auto alone = [&](std::initializer_list<std::pair<const char*, bool>> flags) -> OptionFault {
    for (const auto& [name, is_given] : flags)
      if (is_given) return {fmt::format("{} does not go with --serve", name), ""};
    return {};
  };
  if (!options.overrides.empty()) return {"--set does not go with --serve", "the page's form sets values."};
  return alone({{"--doctor", options.doctor},
                {"--calibrate", options.calibrate},
                {"--execute", options.execute.execute},
                {"--schedule", options.schedule_flags.schedule.has_value()},
                {"--collective", options.collective.collective.has_value()},
                {"--validate", options.validate.rows.has_value()},
                {"--fit", options.validate.fit.has_value()},
                {"--import-trace", !options.import.traces.empty()},
                {"--import", options.convert.from.has_value()},
                {"--export", options.convert.to.has_value()},
                {"--sweep", !options.sweep.empty()},
                {"--placement", options.placement},
                {"--sensitivity", options.sensitivity},
                {"--html", options.html.has_value()},
                {"--plan", options.plan.has_value()},
                {"--trace", !options.traces.empty()},
                {"--schedule-csv", options.schedule_csv.has_value()},
                {"--csv", options.csv.has_value()},
                {"-o", options.output.has_value()},
                {"--json", options.json},
                {"--check", options.check},
                {"--print-config", options.print_config},
                {"--print-schedule", options.print_schedule},
                {"--print-layout", options.print_layout},
                {"--print-topology", options.print_topology}});
}

}  // namespace simrun
