#include "cli/import_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <sstream>
#include <utility>

#include "cli/console.h"
#include "cli/import_profile.h"
#include "cli/import_report.h"
#include "cli/outputs.h"
#include "cli/read_input.h"
#include "cli/refusal_position.h"
#include "cli/written_trace.h"
#include "configs/diagnostics.h"
#include "configs/node_groups.h"
#include "schedules/summary.h"
#include "sim/simulate.h"
#include "traces/imported_timeline.h"
#include "traces/read_trace.h"
#include "validation/hardware_text.h"
#include "visualizer/page.h"

namespace simrun {
namespace {

std::vector<std::string> files_of(const ImportFlags& flags) {
  std::vector<std::string> files;
  for (const std::string& path : flags.traces)
    for (std::string& file : trace_files(path)) files.push_back(std::move(file));
  return files;
}

// Every file is looked at, so that all that cannot be read are told at once.
ImportedRun read_run(const std::vector<std::string>& files) {
  std::vector<RecordedTrace> traces;
  std::vector<Diagnostic> faults;
  for (const std::string& file : files) try {
      traces.push_back(read_trace(file));
    } catch (const ConfigError& error) {
      faults.insert(faults.end(), error.diagnostics().begin(), error.diagnostics().end());
    }
  if (!faults.empty()) throw ConfigError(std::move(faults));
  return imported_run(std::move(traces));
}

struct Predicted {
  Input input;
  Timeline timeline;
  Summary summary;
};

Predicted predict(const Options& options, const LoadOptions& load) {
  Predicted predicted;
  predicted.input = read_input(options.input, options, load);
  predicted.timeline = simulate(predicted.input.plan, {Detail::instructions, options.engine});
  predicted.summary = summarize(predicted.input.plan, predicted.timeline);
  return predicted;
}

// Above so many kernels a page shows passes only: it must stay small enough to open.
constexpr std::size_t most_drawn = 400'000;

Timeline as_drawn(Timeline timeline) {
  std::size_t intervals = 0;
  for (const RankTimeline& rank : timeline.ranks)
    for (const Lane& lane : rank.lanes) intervals += lane.intervals.size();
  if (intervals > most_drawn)
    for (RankTimeline& rank : timeline.ranks) rank.lanes.clear();
  return timeline;
}

std::string write_files(const Options& options, const ImportReport& report,
                        const std::optional<Predicted>& predicted) {
  std::string wrote;
  if (options.import.profile) {
    const Profile profile =
        gpu_profile(*predicted->input.job, {predicted->input.plan, predicted->timeline, report.run});
    wrote += write_reported(*options.import.profile, profile.yaml);
    if (!profile.unrated.empty())
      wrote += fmt::format("  a profile has no rates, or not for all, of {}: these stay as predicted\n",
                           fmt::join(profile.unrated, ", "));
    if (!profile.missing.empty())
      wrote +=
          fmt::format("  the trace has no kernel of these kinds of the job's, which stay as predicted: {}\n",
                      fmt::join(profile.missing, ", "));
  }
  const std::optional<std::string> page = predicted ? page_path(options, ".trace.html") : std::nullopt;
  if (!page && options.traces.empty()) return wrote;
  const ImportedTimeline measured =
      imported_timeline(predicted ? predicted->input.plan : plan_of_ranks(report.run), report.run);
  if (page)
    wrote += write_reported(*page, html_page(predicted->input.plan, as_drawn(predicted->timeline),
                                             {measured.plan, as_drawn(measured.timeline),
                                              import_tables(report), import_notes(report)},
                                             predicted->summary));
  for (const std::string& path : options.traces)
    wrote += write_reported(path, trace_bytes(path, measured.plan, measured.timeline));
  return wrote;
}

// Whether a device that names itself so may be one of the job's GPUs: the word with the model's number in a
// preset's name is one of the device's ("h100" of h100_sxm in "NVIDIA H100 80GB HBM3").
bool may_be(const std::string& device, const Cluster& cluster) {
  const std::string words = hardware_words(device);
  if (words.empty()) return true;
  const GpuKinds kinds(cluster);
  for (std::size_t kind = 0; kind < kinds.count(); ++kind) {
    std::istringstream own(hardware_words(kinds.gpu(kind).name));
    std::string word;
    while (own >> word && word.find_first_of("0123456789") == std::string::npos) continue;
    if (word.empty() || word.find_first_of("0123456789") == std::string::npos ||
        words.find(" " + word + " ") != std::string::npos)
      return true;
  }
  return false;
}

// What the traces tell of their job and is not so of the one that they are set beside.
void note_other_job(const Input& input, ImportedRun& run) {
  const std::int64_t ranks = input.plan.ranks();
  const SourcePosition where{input.path, 0, 0};
  if (run.world_size > 0 && run.world_size != ranks)
    add_note(run.notes,
             fmt::format("the traces are of a job of {} ranks, this one has {}", run.world_size, ranks),
             where);
  if (const Cluster& cluster = input.plan.cluster; !may_be(run.device, cluster))
    add_note(
        run.notes,
        fmt::format("the trace was recorded on '{}', the job runs on {}", run.device, gpus_text(cluster)),
        where);
  if (!run.config_sha256.empty() && run.config_sha256 != input.plan.job.config_sha256)
    add_note(run.notes, "simrun drew the trace for a job that is not this one", where);
}

// A profile is of one GPU, whose keys it repeats.
void check_profiled(const Input& input) {
  if (!input.job)
    throw ConfigError({{{input.path, 0, 0},
                        "--profile needs the job: a Plan file has no keys of its GPU",
                        "--against the job's YAML."}});
  const Cluster& cluster = input.plan.cluster;
  if (GpuKinds(cluster).count() > 1)
    throw ConfigError(
        {{refusal_position(input, "--profile: cluster.node_groups"),
          fmt::format("--profile measures one kind of GPU, and this job runs on {}", gpus_text(cluster)),
          "trace the job on nodes of one kind; cluster.node_groups then takes the profile as the "
          "`gpu` of that group."}});
}

}  // namespace

int import_traces(const Options& given, const LoadOptions& load) {
  Options options = given;
  options.input = given.import.against.value_or("");
  const std::vector<std::string> files = files_of(options.import);
  std::optional<Predicted> predicted;
  if (options.import.against) predicted = predict(options, load);
  std::vector<std::string> outputs = options.traces, inputs = files;
  if (predicted) {
    if (options.import.profile) {
      check_profiled(predicted->input);
      outputs.push_back(*options.import.profile);
    }
    if (const std::optional<std::string> page = page_path(options, ".trace.html")) outputs.push_back(*page);
    for (const std::string& file : predicted->input.files()) inputs.push_back(file);
  }
  probe_outputs(outputs, inputs);
  ImportedRun run = read_run(files);
  if (predicted) note_other_job(predicted->input, run);
  ImportReport report{
      run,
      predicted ? compare_imported(predicted->input.plan, predicted->timeline, run) : tally_imported(run),
      predicted.has_value(), files};
  const std::string wrote = write_files(options, report, predicted);
  if (options.json)
    print(import_json(report));
  else if (!options.quiet)
    print(import_text(report) + wrote);
  return 0;
}

}  // namespace simrun
