#include "cli/run.h"

#include <fmt/format.h>

#include <new>
#include <stdexcept>

#include "cli/calibrate.h"
#include "cli/compare.h"
#include "cli/console.h"
#include "cli/derived_numbers.h"
#include "cli/output_file.h"
#include "cli/plan_schedule.h"
#include "cli/playground.h"
#include "cli/read_input.h"
#include "cli/simulate_one.h"
#include "cli/sweep.h"
#include "cli/version.h"
#include "configs/diagnostics.h"
#include "schedules/layout_report.h"
#include "schedules/schedule_grid.h"
#include "sim/worker.h"
#include "visualizer/layout_text.h"

namespace simrun {
namespace {

int run_checked(const Options& options) {
  if (options.calibrate) return calibrate(options);
  if (options.schedule_flags.schedule) return run_playground(options);
  const LoadOptions load = load_options(options);
  if (!options.sweep.empty()) return run_sweep(options, load);
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
  return simulate_one(options, load, input);
}

}  // namespace

int run(const Options& options) {
  try {
    return run_checked(options);
  } catch (const ConfigError& error) {
    complain(render(error.diagnostics()));
    return 2;
  } catch (const OutputError& error) {
    complain(fmt::format("simrun: error: {}\n", error.what()));
    return 2;
  } catch (const WorkerError& error) {
    complain(fmt::format("simrun: error: {}\n", error.what()));
    if (options.engine != EngineChoice::fast)
      complain("  hint: --engine fast does not need a worker process.\n");
    return 1;
  } catch (const std::range_error& error) {
    complain(render({{{options.input, 0, 0},
                      error.what(),
                      "a smaller global_batch_size or a faster device takes less."}}));
    return 2;
  } catch (const std::bad_alloc&) {
    complain("simrun: error: out of memory; fewer microbatches or layers need less\n");
    return 2;
  } catch (const std::exception& error) {
    complain(fmt::format("simrun: internal error: {}\n  Please report this with the config; simrun {}.\n",
                         error.what(), version()));
    return 1;
  }
}

}  // namespace simrun
