#include "cli/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "cli/input_words.h"
#include "cli/option_rules.h"
#include "cli/sweep_values.h"
#include "cli/version.h"
#include "configs/diagnostics.h"

namespace simrun {
namespace {

constexpr const char* footer =
    "CONFIG is a job in YAML or a Plan file written by --plan.\n"
    "exit: 0 ok, 1 a bug of ours or a lost worker process, 2 wrong command line or config (a sweep: no point "
    "ran), "
    "3 the plan does not fit in memory (of two: neither), 4 --execute: what ran is not what was planned\n";

// Values that are read further after the parse.
struct Words {
  std::vector<std::string> inputs;
  std::vector<std::string> sets;
  std::vector<std::string> sweeps;
  std::string placement;
  std::optional<std::string> plan;
  std::string engine = "auto";
  std::string color = "auto";
};

void add_what_to_run(CLI::App& app, Options& options, Words& words) {
  app.add_option("CONFIG", words.inputs, "job file or Plan file; a second one is compared with the first");
  app.add_option("--set", words.sets,
                 "override one value, KEY=VALUE; repeatable: --set training.seq_length=4096")
      ->allow_extra_args(false);
  app.add_option("--engine", words.engine,
                 "auto (fast, and SimGrid where shared links matter), fast or simgrid")
      ->check(CLI::IsMember({"auto", "fast", "simgrid"}));
  app.add_option("--sweep", words.sweeps,
                 "simulate each value, KEY=A,B,C or KEY=1..8 (1, 2, 4, 8); repeatable (every combination): "
                 "--sweep training.micro_batch_size=1,2")
      ->allow_extra_args(false);
  app.add_option("--placement", words.placement,
                 "auto: simulate the job with its ranks placed in each sensible order of axes over the GPUs")
      ->check(CLI::IsMember({"auto"}));
  app.add_flag("--sensitivity", options.sensitivity,
               "also how the step answers to bandwidths, latencies, FLOP/s and memory rate");
}

// Of a pipeline schedule alone, without CONFIG.
void add_schedule(CLI::App& app, ScheduleFlags& flags) {
  const auto add = [&](const char* name, std::optional<std::string>& word, const char* meaning) {
    app.add_option(name, word, meaning)->group("A pipeline schedule alone");
  };
  add("--schedule", flags.schedule,
      "draw a pipeline schedule without a model: its name, auto (search the best order), all (compare "
      "them), or a CSV of PyTorch's ops");
  add("--ranks", flags.ranks, "pipeline ranks");
  add("--microbatches", flags.microbatches, "microbatches of a step (of both directions together)");
  add("--virtual", flags.virtual_stages, "stages per rank (default: as few as the schedule needs)");
  add("--slices", flags.slices, "slices of a sequence (seq1f1b; default 1)");
  add("--group-size", flags.group_size, "interleaved: microbatches before the next stage's turn");
  add("--costs", flags.costs, "times of a stage's passes, F=2,I=3,W=1[,B=4][,FB=6]; default F=1,I=1,W=1");
  add("--comm", flags.communication, "time from a pass to its result on another rank (default 0)");
  add("--memory-limit", flags.memory_limit, "activations (of a stage and microbatch) that a rank may hold");
  add("--search-effort", flags.search_effort,
      "of auto: million passes in the orders that are tried (default 160, some seconds; in all: 4)");
  app.add_flag("--dry", flags.dry, "print the ops of every rank, write no page")
      ->group("A pipeline schedule alone");
}

// Of a search, or where the Plan goes.
void add_plan(CLI::App& app, Options& options, Words& words) {
  app.add_option(
         "--plan", words.plan,
         "without a value (or with jobs): search for the best way to split CONFIG over its cluster; "
         "with alpa: by Alpa's two levels, a layout for every operator; with galvatron: a strategy for every "
         "layer; with whale: balance it over the cluster's kinds of GPU; with a file: write the Plan there")
      ->expected(0, 1)
      ->default_str("");
  app.add_flag("--resume", options.plan_flags.resume,
               "of --plan: do not simulate again what a search that was stopped has");
}

// Of a collective alone, without CONFIG.
void add_collective(CLI::App& app, CollectiveFlags& flags) {
  const auto add = [&](const char* name, std::optional<std::string>& word, const char* meaning) {
    app.add_option(name, word, meaning)->group("A collective alone");
  };
  add("--collective", flags.collective,
      "time and bandwidth as nccl-tests measure them: all_reduce, all_gather, reduce_scatter, broadcast, "
      "all_to_all or send_recv");
  add("--bytes", flags.bytes,
      "sizes: 1M..1G (powers of two; the default), 64k,1M or one; k, M, G are binary");
  add("--cluster", flags.cluster, "a preset or a file; --set cluster.KEY=VALUE changes it");
  add("--nodes", flags.nodes, "numbers of nodes, 1,2,4 (default 1)");
  add("--gpus-per-node", flags.gpus_per_node, "the first so many of each node (default all)");
  add("--algorithm", flags.algorithm, "instead of the fastest: ring, tree, nvls ... (cluster.collectives)");
  add("--protocol", flags.protocol, "instead of the fastest: ll, ll128 or simple");
}

// Of the run of a plan beside its simulation.
void add_execute(CLI::App& app, ExecuteFlags& flags) {
  constexpr const char* group = "Run the plan";
  app.add_flag("--execute", flags.execute,
               "also run the plan, ranks as threads, and compare it with one rank without any parallelism")
      ->group(group);
  app.add_option(
         "--device", flags.device,
         "cpu, cuda, or null, which computes nothing and checks memory and messages (default cpu); with "
         "--fit: a GPU of configs/gpus")
      ->group(group);
  app.add_option("--dtype", flags.dtype, "numbers of the CPU: f64, f32 or bf16 (default f32)")
      ->check(CLI::IsMember({"f64", "f32", "bf16"}))
      ->group(group);
  app.add_option("--steps", flags.steps, "optimizer steps (default 2)")
      ->check(CLI::Range(1, 1'000'000))
      ->group(group);
  app.add_flag("--reference", flags.reference,
               "compare with one rank however long that takes (default: where it takes minutes at most)")
      ->group(group);
  app.add_flag("--no-reference", flags.no_reference, "do not compare with one rank")->group(group);
  app.add_option("--seed", flags.seed, "of parameters, data and dropout (default 0)")
      ->check([](const std::string& text) {
        return text.starts_with('-') ? fmt::format("--seed takes a number of 0 or more, not {}", text) : "";
      })
      ->group(group);
  app.add_option("--learning-rate", flags.learning_rate, "of the optimizer (default optimizer.lr)")
      ->group(group);
  app.add_option("--data", flags.data, "a text to train on, byte by byte (default: random tokens)")
      ->group(group);
  app.add_option("--load", flags.load, "go on from a checkpoint, saved by any layout of the same model")
      ->group(group);
  app.add_option("--save", flags.save, "write a checkpoint here behind the last step")->group(group);
  app.add_option("--save-every", flags.save_every, "and behind every so many steps")
      ->check(CLI::Range(1, 1'000'000))
      ->group(group);
}

// Of predictions against measurements.
void add_validate(CLI::App& app, ValidateFlags& flags) {
  constexpr const char* group = "Predicted against measured";
  app.add_option("--validate", flags.rows,
                 "simulate every row of a CSV of published measurements and print the errors by source")
      ->group(group);
  app.add_option("--filter", flags.filters, "only rows with COLUMN=VALUE; repeatable")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option(
         "--bands", flags.bands,
         "write the spread of the errors by GPU, framework and parallelism, which simrun prints with every "
         "prediction (configs/validation/error_bands.yaml)")
      ->group(group);
  app.add_option(
         "--fit", flags.fit,
         "fit the declared coefficients of --device NAME (configs/validation/coefficients.yaml) to a CSV of "
         "published measurements")
      ->group(group);
  app.add_option("--coefficients", flags.coefficients,
                 "write what --fit finds, as that part of the device's file")
      ->group(group);
}

void add_doctor(CLI::App& app, Options& options) {
  app.add_flag(
         "--doctor", options.doctor,
         "say which devices and transports this machine has and, for each missing one, why (with --json: "
         "as JSON)")
      ->group("Run the plan");
}

void add_serve(CLI::App& app, ServeFlags& flags) {
  constexpr const char* group = "A page to estimate with";
  app.add_flag(
         "--serve", flags.serve,
         "serve a page on http://127.0.0.1 whose form changes a job (CONFIG, or a shipped one) and shows its "
         "numbers and its timeline, until Ctrl-C")
      ->group(group);
  app.add_option("--port", flags.port, "its port (default 8000; 0: any that is free)")
      ->check(CLI::Range(0, 65535))
      ->group(group);
}

void add_calibrate(CLI::App& app, Options& options) {
  constexpr const char* group = "Measure this machine";
  app.add_flag("--calibrate", options.calibrate,
               "measure operators and exchanges of this machine's CPU: a cluster for `cluster: {from: FILE}`")
      ->group(group);
  app.add_option("-o,--output", options.output,
                 "write what was measured, exported, imported or planned here (default: print it)")
      ->group(group);
}

// Of jobs in other programs' words.
void add_convert(CLI::App& app, ConvertFlags& flags) {
  constexpr const char* group = "Other programs' words";
  app.add_option("--export", flags.to,
                 "print CONFIG as a script of Megatron-LM's arguments (megatron) or a recipe of torchtitan "
                 "(torchtitan; with -o also its schedule, as CSV); or write its step as MLCommons' Chakra "
                 "execution traces, one per GPU, into the folder of -o (chakra)")
      ->check(CLI::IsMember({"megatron", "torchtitan", "chakra"}))
      ->group(group);
  app.add_option(
         "--import", flags.from,
         "print a job made of CONFIG: Megatron-LM's arguments in a script, a list or YAML (megatron), or "
         "a DeepSpeed JSON (deepspeed), which is a part of one")
      ->check(CLI::IsMember({"megatron", "deepspeed"}))
      ->group(group);
}

void add_import(CLI::App& app, ImportFlags& flags) {
  constexpr const char* group = "A measured step";
  app.add_option("--import-trace", flags.traces,
                 "read a measured step: a trace of PyTorch's profiler, Chrome or Chakra, or a folder of "
                 "one per rank; repeatable")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--against", flags.against, "set it beside what is predicted for this job or Plan file")
      ->group(group);
  app.add_option("--profile", flags.profile,
                 "write the rates that it had to this YAML, for `gpu: FILE` (with --against)")
      ->group(group);
}

void add_outputs(CLI::App& app, Options& options, Words& words) {
  app.add_option("--html", options.html, "write the page here (default: beside CONFIG)");
  app.add_flag("--no-html", options.no_html, "write no page");
  app.add_option("--trace", options.traces,
                 "write a trace for other viewers: .json, .json.gz or .perfetto-trace; repeatable")
      ->allow_extra_args(false);
  app.add_option("--schedule-csv", options.schedule_csv, "write the pipeline schedule as PyTorch's CSV");
  app.add_option("--csv", options.csv, "write the table of the sweep, or the rows of --validate, as CSV");
  app.add_flag("--json", options.json, "print the summary as JSON (no page unless --html)");
  app.add_flag("--check", options.check, "validate and print every derived number; simulate nothing");
  app.add_flag("--print-config", options.print_config,
               "print the effective config, each value with its origin");
  app.add_flag("--print-schedule", options.print_schedule,
               "print the compute passes of every rank, in PyTorch's spelling");
  app.add_flag("--print-layout", options.print_layout,
               "print how each operator is split, and each collective with its cause (with --json: as JSON)");
  app.add_flag(
      "--print-topology", options.print_topology,
      "print the links and routes of a job's cluster, or of a preset: dgx_h100 (with --json: as JSON)");
  app.add_option("--color", words.color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_flag("-q,--quiet", options.quiet, "print nothing but errors");
  app.add_flag("-v,--verbose", options.verbose, "say what is done and how long it takes");
}

ParsedOptions refusal(const std::string& message, const std::string& hint) {
  ParsedOptions parsed;
  parsed.exit_code = 2;
  parsed.error = "simrun: error: " + message + "\n" + (hint.empty() ? "" : "  hint: " + hint + "\n");
  return parsed;
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// By the names that the modes know them by: the short one where there is one.
std::vector<std::string> flags_given(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    if (option->count() > 0 && option->nonpositional())
      names.push_back(option->get_snames().empty() ? "--" + option->get_lnames().front()
                                                   : "-" + option->get_snames().front());
  return names;
}

ParsedOptions refuse_extras(const CLI::App& app, const std::vector<std::string>& extras) {
  for (const std::string& extra : extras) {
    const std::string flag = extra.substr(0, extra.find('='));
    // Of the design, and not there yet: a script must not run without what it asked for.
    if (flag == "--import-hf" || flag == "--open")
      return refusal(flag + " is not supported yet",
                     flag == "--open" ? "" : "a job's `model: {from: config.json}` reads Hugging Face's.");
    if (!flag.empty() && flag.front() == '-') {
      const std::string near = closest(flag, flag_names(app));
      return refusal("unknown flag '" + flag + "'",
                     near.empty() ? "simrun --help lists the flags." : "did you mean '" + near + "'?");
    }
  }
  return refusal("unexpected argument '" + extras.front() + "'", "simrun --help shows the command line.");
}

std::string read_overrides(const std::vector<std::string>& sets, Options& options) {
  for (const std::string& set : sets) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0) return "--set takes KEY=VALUE, not '" + set + "'";
    options.overrides.push_back({set.substr(0, equals), set.substr(equals + 1)});
  }
  return "";
}

std::string read_sweeps(const std::vector<std::string>& sweeps, Options& options) {
  for (const std::string& sweep : sweeps) {
    const std::size_t equals = sweep.find('=');
    if (equals == std::string::npos || equals == 0) return "--sweep takes KEY=A,B,C, not '" + sweep + "'";
    std::optional<std::vector<std::string>> values = split_values(sweep.substr(equals + 1));
    if (const std::string fault = fault_of(values); !fault.empty()) return "--sweep " + sweep + ": " + fault;
    options.sweep.push_back({sweep.substr(0, equals), std::move(*values)});
  }
  return "";
}

// --plan alone, with a planner, or with a job that no other word names: a search. Else where the Plan goes;
// "" or why not there: `--plan a.yaml b.yaml` means to compare or to search, never to lose a.yaml.
std::string read_plan_word(const Words& words, Options& options) {
  if (!words.plan) return "";
  const std::string& word = *words.plan;
  const std::vector<std::string> searches = {"jobs", "alpa", "galvatron", "whale"};
  if (word.empty() || std::ranges::find(searches, word) != searches.end()) {
    options.plan_flags.search = word.empty() ? "jobs" : word;
  } else if (words.inputs.empty() && is_job_name(word)) {
    options.plan_flags.search = "jobs";
    options.input = word;
  } else {
    const bool has_no_path = word.find_first_of("./") == std::string::npos;
    if (const std::string meant = has_no_path ? closest(word, searches) : ""; !meant.empty())
      return fmt::format("--plan {}: did you mean '{}'? A Plan's name ends in .plan", word, meant);
    options.plan = word;
  }
  std::error_code error;
  if (options.plan && is_job_name(word) && word != options.input && std::filesystem::exists(word, error))
    return "--plan " + word + ": this would overwrite the input of a job; a Plan's name ends in .plan";
  return "";
}

// The rest of the options from the words of the command line; "" or what is wrong with them.
std::string read_words(const Words& words, Options& options) {
  if (std::string bad = fault_of_inputs(words.inputs, options.json, words.plan); !bad.empty()) return bad;
  if (!words.inputs.empty()) options.input = words.inputs.front();
  if (words.inputs.size() == 2) options.other_input = words.inputs.back();
  if (std::string bad_plan = read_plan_word(words, options); !bad_plan.empty()) return bad_plan;
  options.placement = !words.placement.empty();
  options.engine = words.engine == "fast"      ? EngineChoice::fast
                   : words.engine == "simgrid" ? EngineChoice::simgrid
                                               : EngineChoice::automatic;
  options.color = words.color == "always"  ? ColorMode::always
                  : words.color == "never" ? ColorMode::never
                                           : ColorMode::automatic;
  const std::string bad_set = read_overrides(words.sets, options);
  return bad_set.empty() ? read_sweeps(words.sweeps, options) : bad_set;
}

}  // namespace

ParsedOptions parse_options(int argc, const char* const* argv) {
  CLI::App app{
      "simrun simulates a large-model training job: does it fit, how long is a step, where does the time go.",
      "simrun"};
  app.footer(footer);
  app.allow_extras();
  app.set_version_flag("--version", version());
  ParsedOptions parsed;
  Words words;
  add_what_to_run(app, parsed.options, words);
  add_schedule(app, parsed.options.schedule_flags);
  add_collective(app, parsed.options.collective);
  add_validate(app, parsed.options.validate);
  add_execute(app, parsed.options.execute);
  add_doctor(app, parsed.options);
  add_serve(app, parsed.options.serve);
  add_calibrate(app, parsed.options);
  add_convert(app, parsed.options.convert);
  add_import(app, parsed.options.import);
  add_outputs(app, parsed.options, words);
  add_plan(app, parsed.options, words);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed.exit_code = 0;
    parsed.out = app.help();
    return parsed;
  } catch (const CLI::CallForVersion&) {
    parsed.exit_code = 0;
    parsed.out = "simrun " + version() + "\n";
    return parsed;
  } catch (const CLI::ParseError& error) {
    return refusal(error.what(), "simrun --help shows the command line.");
  }
  if (!app.remaining().empty()) return refuse_extras(app, app.remaining());
  if (const std::string wrong = read_words(words, parsed.options); !wrong.empty()) return refusal(wrong, "");
  if (const OptionFault fault = fault_of(parsed.options, flags_given(app)); !fault.message.empty())
    return refusal(fault.message, fault.hint);
  return parsed;
}

}  // namespace simrun
