#include "cli/read_input.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "cli/version.h"
#include "configs/diagnostics.h"
#include "schedules/lint.h"
#include "schedules/plan_file.h"
#include "sim/plan_job.h"

namespace simrun {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& file, std::string message, std::string hint = "") {
  throw ConfigError({{{file, 0, 0}, std::move(message), std::move(hint)}});
}

// The faults of a schedule's CSV behind the key that names it, which says the first of them. Those of the
// layout section know their place in the job.
std::vector<Diagnostic> with_place(const LoadedJob& job, std::vector<Diagnostic> faults) {
  const SourcePosition& key = job.schedule_position;
  const Diagnostic& first = faults.front();
  const std::optional<ScheduleText>& csv = job.job.parallelism.schedule_csv;
  if (!csv || first.position.file != csv->path) return faults;
  const std::string line = first.position.line > 0 ? fmt::format(", line {}", first.position.line) : "";
  faults.insert(faults.begin(),
                {key,
                 fmt::format("the schedule cannot run: {}{}: {}",
                             fs::path(first.position.file).filename().string(), line, first.message),
                 ""});
  return faults;
}

// A sentence that begins with a key's path ("model.frozen: ...") is about that key; any other is about the
// schedule.
SourcePosition position_of(const LoadedJob& job, const std::string& sentence) {
  const auto key = job.positions.find(sentence.substr(0, sentence.find(':')));
  return key == job.positions.end() ? job.schedule_position : key->second;
}

}  // namespace

std::vector<std::string> Input::files() const {
  std::vector<std::string> files{path};
  if (job) files.insert(files.end(), job->files.begin(), job->files.end());
  return files;
}

LoadOptions load_options(const Options& options) {
  LoadOptions load;
  load.overrides = options.overrides;
  std::error_code ignored;
  if (const char* directory = std::getenv("SIMRUN_CONFIGS"); directory != nullptr && *directory != '\0') {
    if (!fs::is_directory(directory, ignored))
      throw ConfigError({{{"SIMRUN_CONFIGS", 0, 0},
                          fmt::format("'{}' is not a folder", directory),
                          "it names one like configs/, whose files go before those of simrun."}});
    load.preset_directories.emplace_back(directory);
  }
  // Installed presets lie beside the program; a program in its build folder uses the source tree's.
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  for (const fs::path& candidate : {program.parent_path() / "../share/simrun/configs",
                                    fs::path(SIMRUN_INSTALLED_PRESETS), fs::path(SIMRUN_PRESETS)})
    if (fs::is_directory(candidate, ignored))
      load.preset_directories.push_back(candidate.lexically_normal().string());
  return load;
}

// What the loader accepted and the compiler refuses is the schedule (its sizes, or what a CSV holds) unless
// it names another key, or the layout section.
Plan compile_checked(const LoadedJob& job) {
  Plan plan;
  try {
    plan = plan_job(job.job);
    require_links(plan);
  } catch (const std::invalid_argument& error) {
    throw ConfigError({{position_of(job, error.what()), error.what(), ""}});
  } catch (const ConfigError& error) {
    throw ConfigError(with_place(job, error.diagnostics()));
  }
  plan.job.simrun_version = version();
  const std::vector<std::string> faults = lint(plan);
  if (!faults.empty())
    throw std::logic_error(fmt::format("the compiled plan is not valid: {}", fmt::join(faults, "; ")));
  return plan;
}

// The fast engine has no traffic but the plan's.
void require_engine(const std::string& path, const Options& options, const Plan& plan) {
  if (options.engine == EngineChoice::fast && !plan.cluster.imperfections.other_jobs.empty())
    refuse(path, "--engine fast does not know the traffic of imperfections.other_jobs",
           "--engine auto takes SimGrid where they meet the job.");
}

Input read_input(const std::string& path, const Options& options, const LoadOptions& load) {
  Input input;
  input.path = path;
  if (is_plan_file(path)) {
    if (!options.overrides.empty())
      refuse(path, "--set cannot change a Plan file", "change the job and compile it again.");
    if (!options.sweep.empty()) refuse(path, "--sweep needs a job, this is a Plan file");
    if (options.print_config) refuse(path, "--print-config needs a job, this is a Plan file");
    if (options.print_layout) refuse(path, "--print-layout needs a job, this is a Plan file");
    input.plan = read_plan(path);
    try {
      require_links(input.plan);
    } catch (const std::invalid_argument& error) {
      refuse(path, error.what());
    }
    require_engine(path, options, input.plan);
    return input;
  }
  input.job = load_job(path, load);
  if (options.print_config) return input;
  input.plan = compile_checked(*input.job);
  require_engine(path, options, input.plan);
  return input;
}

}  // namespace simrun
