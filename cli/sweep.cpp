#include "cli/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "cli/console.h"
#include "cli/outputs.h"
#include "cli/read_input.h"
#include "cli/sweep_point.h"
#include "cli/sweep_values.h"
#include "schedules/plan_file.h"
#include "sim/worker.h"
#include "visualizer/sweep_page.h"

namespace simrun {
namespace {

LoadOptions load_options_of(const Options& options, const LoadOptions& load, std::size_t point) {
  LoadOptions with = load;
  const std::vector<std::string> values = values_of_point(options.sweep, point);
  for (std::size_t k = 0; k < values.size(); ++k) with.overrides.push_back({options.sweep[k].key, values[k]});
  return with;
}

// What is wrong with a point whatever its values are: the file cannot be read, a key or section does not
// exist.
std::vector<Diagnostic> faults_of_text(const std::string& input, const LoadOptions& load) {
  std::vector<Diagnostic> faults;
  try {
    load_job(input, load);
  } catch (const ConfigError& error) {
    for (const Diagnostic& diagnostic : error.diagnostics())
      for (const char* start : {"unknown key", "unknown section", "the key must be a dotted path",
                                "cannot read this file", "not valid YAML"})
        if (diagnostic.message.starts_with(start)) faults.push_back(diagnostic);
  }
  return faults;
}

// A key may be known to one value of another key only (a model family's): refused is what the first and the
// last point, which differ in every key, both say.
void refuse_unknown_keys(const Options& options, const LoadOptions& load) {
  const std::size_t last = points_of(options.sweep) - 1;
  const std::vector<Diagnostic> at_last = faults_of_text(options.input, load_options_of(options, load, last));
  std::vector<Diagnostic> faults = faults_of_text(options.input, load_options_of(options, load, 0));
  std::erase_if(faults, [&](const Diagnostic& fault) {
    return std::ranges::find(at_last, fault.message, &Diagnostic::message) == at_last.end();
  });
  const std::string flag = "--set ";
  for (Diagnostic& fault : faults)
    for (const SweepKey& key : options.sweep)
      if (fault.position.file.starts_with(flag + key.key + "="))
        fault.position.file = "--sweep " + fault.position.file.substr(flag.size());
  if (!faults.empty()) throw ConfigError(std::move(faults));
}

// Files that the points read, as far as the first one tells: none of them may be overwritten.
std::vector<std::string> files_read(const Options& options, const LoadOptions& load) {
  try {
    return load_job(options.input, load_options_of(options, load, 0)).files;
  } catch (const ConfigError&) {
    return {options.input};
  }
}

Sweep simulated(const Options& options, const LoadOptions& load) {
  const std::size_t points = points_of(options.sweep);
  Sweep sweep{std::filesystem::path(options.input).stem().string(), options.sweep, {}};
  const std::vector<ErrorBand> bands = load_error_bands(load);
  std::vector<std::function<std::string()>> runs;
  for (std::size_t point = 0; point < points; ++point)
    runs.emplace_back([&options, &load, &bands, point] {
      const LoadOptions with = load_options_of(options, load, point);
      return to_bytes(simulate_point(options.input, with, options.engine, bands));
    });
  const std::vector<std::string> results =
      points == 1 ? std::vector<std::string>{runs.front()()} : run_in_workers(runs, 0);
  for (std::size_t point = 0; point < points; ++point) {
    sweep.rows.push_back(row_from_bytes(results[point]));
    sweep.rows.back().values = values_of_point(options.sweep, point);
  }
  return sweep;
}

std::string headline(const Sweep& sweep) {
  std::string keys;
  for (const SweepKey& key : sweep.keys) keys += (keys.empty() ? "" : " x ") + key.key;
  return fmt::format("{}: {}, {} point{}\n", sweep.name, keys, sweep.rows.size(),
                     sweep.rows.size() == 1 ? "" : "s");
}

}  // namespace

int run_sweep(const Options& options, const LoadOptions& load) {
  if (is_plan_file(options.input)) read_input(options.input, options, load);  // refuses it
  refuse_unknown_keys(options, load);
  const std::optional<std::string> page =
      page_path(options, options.placement ? ".placement.html" : ".sweep.html");
  std::vector<std::string> outputs;
  for (const std::optional<std::string>& path : {page, options.csv})
    if (path) outputs.push_back(*path);
  std::vector<std::string> inputs = files_read(options, load);
  probe_outputs(outputs, inputs);

  const Sweep sweep = simulated(options, load);
  std::string wrote;
  if (page) wrote += write_reported(*page, sweep_page(sweep));
  if (options.csv) wrote += write_reported(*options.csv, sweep_csv(sweep));
  if (options.json)
    print(sweep_json(sweep));
  else if (!options.quiet)
    print(headline(sweep) + sweep_table(sweep) + wrote);
  const bool any =
      std::ranges::any_of(sweep.rows, [](const SweepRow& row) { return row.numbers.has_value(); });
  if (!any) complain("simrun: error: no point of the sweep could be simulated\n");
  return any ? 0 : 2;
}

}  // namespace simrun
