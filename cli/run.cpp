#include "cli/run.h"

#include <fmt/format.h>

#include <cstdio>
#include <new>
#include <stdexcept>

#include "cli/calibrate.h"
#include "cli/collective.h"
#include "cli/compare.h"
#include "cli/console.h"
#include "cli/convert.h"
#include "cli/derived_numbers.h"
#include "cli/doctor.h"
#include "cli/export_chakra.h"
#include "cli/fit.h"
#include "cli/import_trace.h"
#include "cli/output_file.h"
#include "cli/placement_orders.h"
#include "cli/plan_alpa.h"
#include "cli/plan_galvatron.h"
#include "cli/plan_jobs.h"
#include "cli/plan_schedule.h"
#include "cli/plan_whale.h"
#include "cli/playground.h"
#include "cli/print_topology.h"
#include "cli/processes.h"
#include "cli/read_input.h"
#include "cli/serve.h"
#include "cli/simulate_one.h"
#include "cli/sweep.h"
#include "cli/validate.h"
#include "cli/version.h"
#include "configs/diagnostics.h"
#include "planner/starting_split.h"
#include "schedules/layout_report.h"
#include "schedules/schedule_grid.h"
#include "sim/worker.h"
#include "visualizer/layout_text.h"

namespace simrun {
namespace {

// The other searches are one process's work: the first's.
int plan(const Options& options, const LoadOptions& load, ProcessGroup* processes) {
  if (options.plan_flags.search == "jobs") return plan_jobs(options, load, processes);
  if (processes != nullptr && !processes->speaks()) return 0;
  const bool takes_sizes = options.plan_flags.search == "whale";
  const LoadOptions split =
      with_starting_split(options.input, load, takes_sizes ? WrittenSizes::stay : WrittenSizes::give_way);
  if (takes_sizes) return plan_whale(options, split);
  return options.plan_flags.search == "alpa" ? plan_alpa(options, split) : plan_galvatron(options, split);
}

int run_checked(const Options& options, ProcessGroup* processes) {
  if (options.doctor) return run_doctor(options);
  if (options.calibrate) return calibrate(options);
  if (options.schedule_flags.schedule) return run_playground(options);
  const LoadOptions load = load_options(options);
  if (options.serve.serve) return run_serve(options, load);
  if (options.collective.collective) return run_collective(options, load);
  if (options.validate.rows) return run_validate(options, load);
  if (options.validate.fit) return run_fit(options, load);
  if (!options.import.traces.empty()) return import_traces(options, load);
  if (options.convert.from) return import_job(options, load);
  if (options.convert.to == "chakra") return export_chakra(options, read_input(options.input, options, load));
  if (options.convert.to) return export_job(options, load);
  if (options.plan_flags.search) return plan(options, load, processes);
  if (options.placement) return run_sweep(with_rank_orders(options, load), load);
  if (!options.sweep.empty()) return run_sweep(options, load);
  if (options.print_topology) {
    print(topology_report_text(options, load));
    return 0;
  }
  if (options.other_input) return compare(options, load);
  const Input input = read_input(options.input, options, load);
  if (options.print_config) {
    print(input.job->effective_yaml);
    return 0;
  }
  if (options.check) {
    print(derived_numbers(input.plan));
    return 0;
  }
  if (options.print_schedule) {
    print(to_text(schedule_of(input.plan)));
    return 0;
  }
  if (options.print_layout) {
    const LayoutReport report = layout_report(input.job->job);
    print(options.json ? layout_json(report) : layout_text(report));
    return 0;
  }
  return simulate_one(options, load, input, processes);
}

Ending attempt(const Options& options, ProcessGroup* processes) {
  try {
    return {run_checked(options, processes), ""};
  } catch (const ConfigError& error) {
    return {2, render(error.diagnostics())};
  } catch (const OutputError& error) {
    return {2, fmt::format("simrun: error: {}\n", error.what())};
  } catch (const WorkerError& error) {
    const bool is_asked_for = options.engine != EngineChoice::fast;
    return {1, fmt::format("simrun: error: {}\n{}", error.what(),
                           is_asked_for ? "  hint: --engine fast does not need a worker process.\n" : "")};
  } catch (const std::range_error& error) {
    return {2, render({{{options.input, 0, 0},
                        error.what(),
                        "a smaller global_batch_size or a faster device takes less."}})};
  } catch (const std::bad_alloc&) {
    return {2, "simrun: error: out of memory; fewer microbatches or layers need less\n"};
  } catch (const std::exception& error) {
    return {1, fmt::format("simrun: internal error: {}\n  Please report this with the config; simrun {}.\n",
                           error.what(), version())};
  }
}

}  // namespace

int run(const Options& options) {
  const auto once = [&](ProcessGroup* processes) { return attempt(options, processes); };
  if (options.execute.execute || options.plan_flags.search) return run_among_processes(once);
  const Ending ending = once(nullptr);
  complain(ending.complaint);
  return ending.code;
}

int run_program(int argc, char** argv) {
  const ParsedOptions parsed = parse_options(argc, argv);
  if (!parsed.exit_code) return run(parsed.options);
  if (parsed.error.empty() || tells_of_mistakes()) {
    std::fputs(parsed.out.c_str(), stdout);
    std::fputs(parsed.error.c_str(), stderr);
  }
  return *parsed.exit_code;
}

}  // namespace simrun
