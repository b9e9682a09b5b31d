#include "cli/run.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>

#include "cli/derived_numbers.h"
#include "cli/levers.h"
#include "cli/output_file.h"
#include "cli/version.h"
#include "configs/diagnostics.h"
#include "schedules/compile.h"
#include "schedules/lint.h"
#include "schedules/plan_file.h"
#include "schedules/schedule_grid.h"
#include "schedules/summary.h"
#include "sim/simulate.h"
#include "visualizer/json.h"
#include "visualizer/page.h"
#include "visualizer/terminal.h"

namespace simrun {
namespace {

namespace fs = std::filesystem;

// Above this many instruction instances the page shows passes only: it must stay small enough to open.
constexpr std::int64_t page_instruction_limit = 400'000;

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw OutputError(std::string("cannot write to standard output: ") + std::strerror(errno));
}
void complain(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stderr); }

LoadOptions load_options(const Options& options) {
  LoadOptions load;
  load.overrides = options.overrides;
  if (const char* directory = std::getenv("SIMRUN_CONFIGS"); directory != nullptr && *directory != '\0')
    load.preset_directories.emplace_back(directory);
  // Installed presets lie beside the program; a program in its build folder uses the source tree's.
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  for (const fs::path& candidate : {program.parent_path() / "../share/simrun/configs",
                                    fs::path(SIMRUN_INSTALLED_PRESETS), fs::path(SIMRUN_PRESETS)})
    if (fs::is_directory(candidate, ignored))
      load.preset_directories.push_back(candidate.lexically_normal().string());
  return load;
}

struct Input {
  std::optional<LoadedJob> job;  // unset: a Plan file
  Plan plan;
};

[[noreturn]] void refuse(const std::string& file, std::string message, std::string hint = "") {
  throw ConfigError({{{file, 0, 0}, std::move(message), std::move(hint)}});
}

Plan compile_checked(const Job& job, const std::string& file) {
  Plan plan;
  try {
    plan = compile(job);
  } catch (const std::invalid_argument& error) {
    refuse(file, error.what());
  }
  plan.job.simrun_version = version();
  const std::vector<std::string> faults = lint(plan);
  if (!faults.empty())
    throw std::logic_error(fmt::format("the compiled plan is not valid: {}", fmt::join(faults, "; ")));
  return plan;
}

Input read_input(const Options& options, const LoadOptions& load) {
  Input input;
  if (is_plan_file(options.input)) {
    if (!options.overrides.empty())
      refuse(options.input, "--set cannot change a Plan file", "change the job and compile it again.");
    if (options.print_config) refuse(options.input, "--print-config needs a job, this is a Plan file");
    input.plan = read_plan(options.input);
    return input;
  }
  input.job = load_job(options.input, load);
  if (!options.print_config) input.plan = compile_checked(input.job->job, options.input);
  return input;
}

// Compute passes as the plan's programs hold them.
Schedule schedule_of(const Plan& plan) {
  Schedule schedule;
  for (const Program& program : plan.programs) {
    RankOps ops;
    for (const Entry& entry : program.entries) {
      const PassKind kind = plan.segments[entry.segment].kind;
      if (kind == PassKind::communication || kind == PassKind::step) continue;
      for (std::size_t b = 0; b < entry.binding_count; ++b) {
        const Binding& binding = program.bindings[entry.first_binding + b];
        const OpKind op = kind == PassKind::forward          ? OpKind::forward
                          : kind == PassKind::backward       ? OpKind::backward
                          : kind == PassKind::backward_input ? OpKind::backward_input
                                                             : OpKind::backward_weight;
        ops.push_back({op, plan.chunks[binding.chunk].stage, binding.microbatch});
      }
    }
    schedule.push_back(std::move(ops));
  }
  return schedule;
}

std::int64_t instruction_instances(const Plan& plan) {
  std::int64_t total = 0;
  for (const Program& program : plan.programs)
    for (const Entry& entry : program.entries)
      total += static_cast<std::int64_t>(plan.segments[entry.segment].instructions.size());
  return total;
}

std::optional<std::string> page_path(const Options& options) {
  if (options.no_html) return std::nullopt;
  if (options.html) return options.html;
  if (options.json) return std::nullopt;
  fs::path path = options.input;
  path.replace_extension(".html");
  return path.string();
}

void probe_outputs(const Options& options, const LoadedJob* job) {
  std::vector<Diagnostic> faults;
  std::set<std::string> taken;
  const auto probe = [&](const std::optional<std::string>& path) {
    if (!path) return;
    std::error_code ignored;
    Diagnostic diagnostic;
    diagnostic.position.file = *path;
    const auto is_same = [&](const std::string& file) { return fs::equivalent(*path, file, ignored); };
    if (is_same(options.input) ||
        (job != nullptr && std::any_of(job->files.begin(), job->files.end(), is_same))) {
      diagnostic.message = "this would overwrite the input";
      diagnostic.hint = "choose another path.";
    } else if (!taken.insert(fs::weakly_canonical(*path, ignored).string()).second) {
      diagnostic.message = "two outputs have this path";
      diagnostic.hint = "choose another path for one of them.";
    } else if (const std::string fault = probe_output(*path); !fault.empty()) {
      diagnostic.message = "cannot write here: " + fault;
    } else {
      return;
    }
    faults.push_back(diagnostic);
  };
  probe(page_path(options));
  probe(options.plan);
  if (!faults.empty()) throw ConfigError(std::move(faults));
}

int terminal_width() {
  struct winsize size {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 60) return size.ws_col;
  return 100;
}

bool use_color(ColorMode mode) {
  if (mode != ColorMode::automatic) return mode == ColorMode::always;
  return ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
}

std::string megabytes(std::size_t bytes) {
  return fmt::format("{:.2f} MB", static_cast<double>(bytes) / 1e6);
}

// Simulates, writes what was asked for and prints the summary.
int simulate_and_report(const Options& options, const LoadOptions& load, const Input& input) {
  const Plan& plan = input.plan;
  const std::optional<std::string> page = page_path(options);
  SimulateOptions simulation;
  if (page)
    simulation.detail =
        instruction_instances(plan) <= page_instruction_limit ? Detail::instructions : Detail::passes;
  const Timeline timeline = simulate(plan, simulation);
  const Summary summary = summarize(plan, timeline);
  std::string wrote;
  if (page) {
    const std::string html = html_page(plan, timeline, summary);
    write_output(*page, html);
    wrote += fmt::format("wrote {} ({})\n", *page, megabytes(html.size()));
  }
  if (options.plan) {
    const std::string bytes = serialize(plan);
    write_output(*options.plan, bytes);
    wrote += fmt::format("wrote {} ({})\n", *options.plan, megabytes(bytes.size()));
  }
  const std::string misfit =
      summary.fits ? "" : explain_misfit(plan, timeline, summary, input.job ? &*input.job : nullptr, load);
  if (options.json) {
    print(summary_json(plan, summary));
    if (!misfit.empty() && !options.quiet) complain("simrun: " + misfit + "\n");
  } else if (!options.quiet) {
    TerminalOptions terminal;
    terminal.color = use_color(options.color);
    terminal.width = terminal_width();
    terminal.does_not_fit = misfit;
    print(terminal_summary(plan, summary, terminal) + wrote);
  } else if (!misfit.empty()) {
    complain("simrun: " + misfit + "\n");
  }
  if (options.verbose)
    complain(
        fmt::format("{} instruction instances simulated, {} of them communication; {} buffers, {} segments\n",
                    timeline.instructions, timeline.communication_instructions, plan.buffers.size(),
                    plan.segments.size()));
  return summary.fits ? 0 : 3;
}

int run_checked(const Options& options) {
  const LoadOptions load = load_options(options);
  const Input input = read_input(options, load);
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
  probe_outputs(options, input.job ? &*input.job : nullptr);
  return simulate_and_report(options, load, input);
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
