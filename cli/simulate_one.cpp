#include "cli/simulate_one.h"

#include <fmt/format.h>

#include "cli/console.h"
#include "cli/execute_one.h"
#include "cli/imperfection_costs.h"
#include "cli/levers.h"
#include "cli/likely_time.h"
#include "cli/outputs.h"
#include "cli/page_detail.h"
#include "cli/plan_schedule.h"
#include "cli/processes.h"
#include "cli/sensitivity.h"
#include "cli/written_trace.h"
#include "schedules/plan_file.h"
#include "schedules/schedule_grid.h"
#include "schedules/summary.h"
#include "sim/choose_collectives.h"
#include "sim/simulate.h"
#include "visualizer/chosen_collectives_table.h"
#include "visualizer/json.h"
#include "visualizer/likely_text.h"
#include "visualizer/page.h"
#include "visualizer/sensitivity_table.h"
#include "visualizer/terminal.h"

namespace simrun {
namespace {

std::vector<std::string> outputs_of(const Options& options) {
  std::vector<std::string> outputs = options.traces;
  for (const std::optional<std::string>& path :
       {page_path(options, ".html"), options.plan, options.schedule_csv, options.execute.save})
    if (path) outputs.push_back(*path);
  return outputs;
}

// --load may name the checkpoint that --save replaces.
std::vector<std::string> files_read(const Options& options, const Input& input) {
  std::vector<std::string> files = input.files();
  if (options.execute.data) files.push_back(*options.execute.data);
  return files;
}

Detail detail_for(const Options& options, const Plan& plan) {
  if (!page_path(options, ".html") && options.traces.empty() && !options.execute.execute)
    return Detail::totals;
  const Detail detail = page_detail(plan);
  if (detail == Detail::passes && !options.traces.empty())
    complain(fmt::format("simrun: {} instruction instances are too many for a trace: it shows passes only\n",
                         instruction_instances(plan)));
  return detail;
}

struct Report {
  const Plan& plan;
  const Summary& summary;
  std::vector<Sensitivity> sensitivities;
  std::optional<ImperfectionCosts> imperfections;
  std::vector<ChosenCollective> collectives;  // where the cluster says what they cost
  std::optional<LikelyTime> likely;
  std::string misfit;  // why it does not fit, or ""
  std::string wrote;
  std::optional<ExecutionReport> execution;
};

// Every file that was asked for; says which.
std::string write_files(const Options& options, const Timeline& timeline, const Report& report) {
  const Plan& plan = report.plan;
  std::string wrote;
  if (const std::optional<std::string> page = page_path(options, ".html")) {
    const std::optional<ExecutionReport>& execution = report.execution;
    const std::string note = report.likely ? likely_line(*report.likely) : "";
    wrote += write_reported(*page, execution && execution->by_instruction
                                       ? html_page(plan, timeline, *execution->measured, report.summary, note)
                                       : html_page(plan, timeline, report.summary, note));
  }
  if (options.plan) wrote += write_reported(*options.plan, serialize(plan));
  for (const std::string& path : options.traces)
    wrote += write_reported(path, trace_bytes(path, plan, timeline));
  if (options.schedule_csv) wrote += write_reported(*options.schedule_csv, to_csv(schedule_of(plan)));
  return wrote;
}

void print_report(const Options& options, const Report& report) {
  const bool is_printed = !options.json && !options.quiet;
  if (options.json) {
    std::string json = summary_json(report.plan, report.summary);
    if (report.likely) json = with_member(json, "likely", likely_json(*report.likely));
    if (options.sensitivity) json = with_member(json, "sensitivity", sensitivity_json(report.sensitivities));
    if (report.imperfections)
      json = with_member(json, "imperfections", imperfection_json(*report.imperfections));
    if (!report.collectives.empty())
      json = with_member(json, "collectives", chosen_collectives_json(report.collectives));
    if (report.execution) json = with_member(json, "execute", execution_json(*report.execution));
    print(json);
  } else if (is_printed) {
    TerminalOptions terminal;
    terminal.color = use_color(options.color);
    terminal.width = terminal_width();
    terminal.does_not_fit = report.misfit;
    std::string text = terminal_summary(report.plan, report.summary, terminal);
    if (report.likely) text += likely_line(*report.likely);
    if (options.sensitivity)
      text += "\n" + sensitivity_table(report.sensitivities, report.summary.step_time_s);
    if (report.imperfections)
      text += "\n" + imperfection_table(*report.imperfections, report.summary.step_time_s);
    if (!report.collectives.empty()) text += "\n" + chosen_collectives_table(report.collectives);
    print(text + report.wrote);
  }
  if (!is_printed && !report.misfit.empty() && !(options.json && options.quiet))
    complain("simrun: " + report.misfit + "\n");
}

// Behind the summary; of JSON it is a part.
void print_execution(const Options& options, const ExecutionReport& execution, const std::string& wrote) {
  const bool is_printed = !options.json && !options.quiet;
  if (is_printed) print("\n" + execution_text(execution) + wrote);
  if (!is_printed && !execution.fault.empty()) complain("simrun: not as planned: " + execution.fault + "\n");
}

}  // namespace

int simulate_one(const Options& options, const LoadOptions& load, const Input& input,
                 ProcessGroup* processes) {
  if (processes != nullptr && !processes->speaks()) return execute_share(options, input, *processes);
  const Plan& plan = input.plan;
  probe_outputs(outputs_of(options), files_read(options, input));
  std::optional<PreparedExecution> prepared;
  if (options.execute.execute) prepared = prepare_execution(options, input, processes);
  const Timeline timeline = simulate(plan, {detail_for(options, plan), options.engine});
  const Summary summary = summarize(plan, timeline);
  Report report{plan, summary, {}, {}, {}, likely_time(plan, load, summary.step_time_s), "", "", {}};
  if (options.sensitivity) report.sensitivities = sensitivities(plan, timeline);
  if (!plan.cluster.imperfections.empty()) report.imperfections = imperfection_costs(plan, timeline);
  if (plan.cluster.collectives != CollectivesConfig{}) report.collectives = choose_collectives(plan);
  // A limit of one's own may be missed by a plan that fits the GPU.
  const std::optional<FoundRecompute>& recompute = plan.job.found_recompute;
  const bool misses = recompute && recompute->peak_bytes > recompute->memory_limit;
  if (misses) report.misfit = explain_recompute_misfit(*recompute);
  if (!summary.fits)
    report.misfit += explain_misfit(plan, timeline, summary, input.job ? &*input.job : nullptr, load);
  if (!prepared) report.wrote = write_files(options, timeline, report);
  if (!options.json) print_report(options, report);
  if (prepared) {
    report.execution = execute_one(options, input, *prepared, timeline);
    report.wrote = write_files(options, timeline, report);
  }
  if (options.json) print_report(options, report);
  if (report.execution) print_execution(options, *report.execution, report.wrote);
  if (options.verbose)
    complain(
        fmt::format("{} instruction instances simulated, {} of them communication; {} buffers, {} segments\n",
                    timeline.instructions, timeline.communication_instructions, plan.buffers.size(),
                    plan.segments.size()));
  if (report.execution && !report.execution->fault.empty()) return exit_code(report.execution->fault_kind);
  return summary.fits && summary.host_fits && !misses ? 0 : 3;
}

}  // namespace simrun
