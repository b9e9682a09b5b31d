#include "cli/compare.h"

#include <filesystem>
#include <optional>

#include "cli/config_difference.h"
#include "cli/console.h"
#include "cli/levers.h"
#include "cli/likely_time.h"
#include "cli/outputs.h"
#include "cli/page_detail.h"
#include "cli/read_input.h"
#include "configs/diagnostics.h"
#include "schedules/summary.h"
#include "sim/simulate.h"
#include "visualizer/comparison.h"
#include "visualizer/json.h"
#include "visualizer/likely_text.h"
#include "visualizer/page.h"
#include "visualizer/sensitivity_table.h"

namespace simrun {
namespace {

std::string stem_of(const std::string& path) { return std::filesystem::path(path).stem().string(); }

// Both inputs, or the problems of both.
std::vector<Input> read_both(const Options& options, const LoadOptions& load) {
  std::vector<Input> inputs;
  std::vector<Diagnostic> problems;
  for (const std::string& path : {options.input, *options.other_input}) try {
      inputs.push_back(read_input(path, options, load));
    } catch (const ConfigError& error) {
      problems.insert(problems.end(), error.diagnostics().begin(), error.diagnostics().end());
    }
  if (!problems.empty()) throw ConfigError(std::move(problems));
  return inputs;
}

std::string with_likely(const std::string& json, const std::optional<LikelyTime>& likely) {
  return likely ? with_member(json, "likely", likely_json(*likely)) : json;
}

std::string likely_text(const std::string& name, const std::optional<LikelyTime>& likely) {
  return likely ? name + ": " + likely_line(*likely) : "";
}

}  // namespace

int compare(const Options& options, const LoadOptions& load) {
  const std::vector<Input> inputs = read_both(options, load);
  const Input &a = inputs.front(), &b = inputs.back();
  const bool has_same_stem = stem_of(a.path) == stem_of(b.path);
  const std::optional<std::string> page = page_path(options, "-vs-" + stem_of(b.path) + ".html");
  std::vector<std::string> read = a.files();
  for (const std::string& file : b.files()) read.push_back(file);
  if (page) probe_outputs({*page}, read);

  Comparison comparison;
  comparison.name_a = has_same_stem ? a.path : stem_of(a.path);
  comparison.name_b = has_same_stem ? b.path : stem_of(b.path);
  const auto run = [&](const Plan& plan) {
    return simulate(plan, {page ? page_detail(plan) : Detail::totals, options.engine});
  };
  const Timeline run_a = run(a.plan), run_b = run(b.plan);
  comparison.a = summarize(a.plan, run_a);
  comparison.b = summarize(b.plan, run_b);
  comparison.config = config_differences(a, b);
  const std::optional<LikelyTime> likely_a = likely_time(a.plan, load, comparison.a.step_time_s),
                                  likely_b = likely_time(b.plan, load, comparison.b.step_time_s);
  const auto misfit = [&](const Input& of, const Timeline& timeline, const Summary& summary,
                          const std::string& name) {
    return summary.fits
               ? ""
               : name + ": " + explain_misfit(of.plan, timeline, summary, of.job ? &*of.job : nullptr, load) +
                     "\n";
  };
  const std::string misfits =
      misfit(a, run_a, comparison.a, comparison.name_a) + misfit(b, run_b, comparison.b, comparison.name_b);
  std::string wrote;
  if (page)
    wrote = write_reported(*page, html_page({a.plan, run_a, comparison.a}, {b.plan, run_b, comparison.b},
                                            comparison_text(comparison)));
  if (options.json)
    print(comparison_json(comparison, with_likely(summary_json(a.plan, comparison.a), likely_a),
                          with_likely(summary_json(b.plan, comparison.b), likely_b)));
  else if (!options.quiet)
    print(comparison_table(comparison) + likely_text(comparison.name_a, likely_a) +
          likely_text(comparison.name_b, likely_b) + misfits + wrote);
  if (options.json != options.quiet) complain(misfits);
  return comparison.a.fits || comparison.b.fits ? 0 : 3;
}

}  // namespace simrun
