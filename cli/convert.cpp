#include "cli/convert.h"

#include <fmt/format.h>

#include <filesystem>

#include "cli/console.h"
#include "cli/outputs.h"
#include "cli/plan_schedule.h"
#include "cli/read_input.h"
#include "cli/version.h"
#include "configs/diagnostics.h"
#include "configs/export_megatron.h"
#include "configs/export_torchtitan.h"
#include "configs/import_deepspeed.h"
#include "configs/import_megatron.h"
#include "configs/text_file.h"
#include "schedules/plan_file.h"
#include "schedules/schedule_grid.h"

namespace simrun {
namespace {

LoadedJob job_to_export(const Options& options, const LoadOptions& load) {
  if (is_plan_file(options.input))
    throw ConfigError({{{options.input, 0, 0},
                        fmt::format("--export {} needs a job, this is a Plan file", *options.convert.to),
                        "name the job that it was compiled from."}});
  return load_job(options.input, load);
}

void put_out(const Options& options, const std::string& text) {
  if (!options.output) return print(text);
  const std::string wrote = write_reported(*options.output, text);
  if (!options.quiet) complain(wrote);
}

// The recipe and, where it is written to a file and the job has a pipeline, the order of passes beside it.
int export_torchtitan(const Options& options, const LoadedJob& loaded) {
  namespace fs = std::filesystem;
  const bool has_order = options.output && loaded.job.parallelism.pipeline_model_parallel_size > 1;
  const std::string csv = fs::path(options.output.value_or("schedule")).replace_extension(".csv").string();
  const std::string recipe = torchtitan_recipe(loaded.job, version(), csv);
  if (!has_order) {
    if (options.output) probe_outputs({*options.output}, loaded.files);
    put_out(options, recipe);
    return 0;
  }
  probe_outputs({*options.output, csv}, loaded.files);
  const std::string order = to_csv(schedule_of(compile_checked(loaded)));
  put_out(options, recipe);
  const std::string wrote = write_reported(csv, order);
  if (!options.quiet) complain(wrote);
  return 0;
}

}  // namespace

int export_job(const Options& options, const LoadOptions& load) {
  const LoadedJob loaded = job_to_export(options, load);
  if (*options.convert.to == "torchtitan") return export_torchtitan(options, loaded);
  if (options.output) probe_outputs({*options.output}, loaded.files);
  put_out(options, megatron_script(loaded.job, version()));
  return 0;
}

int import_job(const Options& options, const LoadOptions& load) {
  const TextFile file = read_text_file(options.input);
  if (!file.text) throw ConfigError({{{options.input, 0, 0}, "cannot read this file: " + file.reason, ""}});
  if (file.text->size() > std::size_t{1} << 20)
    throw ConfigError({{{options.input, 0, 0}, "this file is larger than 1 MiB", ""}});
  if (options.output) probe_outputs({*options.output}, {options.input});
  put_out(options, *options.convert.from == "deepspeed"
                       ? import_deepspeed(*file.text, options.input, load)
                       : import_megatron(*file.text, options.input, load).yaml);
  return 0;
}

}  // namespace simrun
