#include "validation/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <string_view>

#include "sim/in_threads.h"
#include "validation/error_bands.h"
#include "validation/size_guess.h"
#include "validation/text_pattern.h"

namespace simrun {
namespace {

constexpr const char* known_metrics =
    "iter_time_s, tokens_per_s_per_gpu, tokens_per_s, samples_per_s, tflops_per_gpu, mfu, memory_gb";

constexpr std::int64_t max_microbatches = 1 << 20;

// But for the operators that `recompute.saved` may name.
void leave_out_framework(JobText& job) {
  const char* const gate = "framework.kernels.separate_gate";
  const bool is_separate = job.has(gate);
  job.erase("framework");
  if (!is_separate) return;
  job.set("framework.name", no_framework);
  job.set(gate, "true");
}

// The part of a row that says what ran: all but its name and what was measured of it.
std::string configuration_of(const MeasuredRow& row) {
  std::string text;
  for (std::size_t column = 1; column < static_cast<std::size_t>(Column::measured_metric); ++column)
    text += row.cells[column] + '\x1f';
  return text;
}

// Rows with the same configuration are one run, until a metric comes a second time: then that is another.
class RunNames {
 public:
  std::string name(const MeasuredRow& row) {
    const std::string configuration = configuration_of(row);
    const std::size_t run = runs_.emplace(configuration, runs_.size() + 1).first->second;
    const int times =
        ++seen_[configuration + row[Column::measured_metric] + '\x1f' + row[Column::flops_definition]];
    return times == 1 ? fmt::format("r{}", run) : fmt::format("r{}.{}", run, times);
  }

 private:
  std::map<std::string, std::size_t> runs_;
  std::map<std::string, int> seen_;
};

// Of each run the first row with the best metric of its time.
void choose_counted(std::vector<ValidatedRow>& rows) {
  std::map<std::string, ValidatedRow*> best;
  for (ValidatedRow& row : rows) {
    if (row.is_memory()) row.counts = true;
    if (!row.is_time()) continue;
    ValidatedRow*& chosen = best[row.set + row.run];
    const auto rank = [](const ValidatedRow& of) {
      return time_metric_rank(of.row[Column::measured_metric]);
    };
    if (chosen == nullptr || rank(row) < rank(*chosen)) chosen = &row;
  }
  for (const auto& [run, row] : best) row->counts = true;
}

// Without the zeros before and behind them, which rounding leaves too.
bool has_three_digits(const std::string& number) {
  std::string digits;
  for (const char c : number)
    if (std::isdigit(static_cast<unsigned char>(c)) != 0 && (c != '0' || !digits.empty())) digits += c;
  return digits.find_last_not_of('0') != std::string::npos && digits.find_last_not_of('0') >= 2;
}

// A run that two tables of one source print is one: the same job to us, the same metric, and the same
// measured value of three digits or more. Within a table equal values are runs that took equally long.
void count_printed_twice_once(std::vector<ValidatedRow>& rows) {
  std::map<std::vector<std::string>, std::string> table_of;
  for (ValidatedRow& row : rows) {
    const std::string& value = row.row[Column::measured_value];
    if (!row.counts || !row.is_time() || row.yaml.empty() || !has_three_digits(value)) continue;
    const std::string predicted = row.predicted ? fmt::format("{}", *row.predicted) : "";
    const std::string& table = row.row[Column::source];
    const auto [first, is_new] =
        table_of.try_emplace({row.source, row.set, row.yaml, row.row[Column::measured_metric], predicted,
                              fmt::format("{}", row.measured())},
                             table);
    row.counts = is_new || first->second == table;
  }
}

std::string set_of(const RowJob& made) {
  const auto found = made.facts.find("set");
  if (found != made.facts.end()) return found->second;
  return matched("use=caution", made.row[Column::notes]) || matched("use = caution", made.row[Column::notes])
             ? "caution"
             : "";
}

// Whether a row leaves open what is recomputed, and its source recomputes where memory asks for it.
bool recomputes_as_needed(const RowJob& made) {
  const auto found = made.facts.find("recompute");
  return found != made.facts.end() && found->second == "as_needed" &&
         std::ranges::any_of(made.assumed, [](const std::string& what) {
           return what == "recompute=none" || what == "recompute=selective";
         });
}

ValidatedRow prepared(const MeasuredRow& row, const RowJob& made, RunNames& runs) {
  ValidatedRow prepared;
  prepared.row = row;
  prepared.source = made.source;
  prepared.set = set_of(made);
  prepared.run = runs.name(row);
  prepared.assumed = made.assumed;
  const auto unsupported = made.facts.find("unsupported");
  if (!made.row.fault.empty())
    prepared.why = made.row.fault;
  else if (unsupported != made.facts.end())
    prepared.why = "not supported: " + unsupported->second;
  else if (const auto unknown = made.facts.find("unknown"); unknown != made.facts.end())
    prepared.why = "unknown " + unknown->second;
  else
    prepared.yaml = made.job.yaml();
  return prepared;
}

using Simulated = std::map<std::string, std::shared_ptr<const SimulatedJob>>;  // by text

// In as many threads as there are; which job a thread takes is chance, what becomes of it is not.
void simulate_all(Simulated& jobs, const ValidateOptions& options) {
  std::vector<Simulated::iterator> queue;
  for (auto at = jobs.begin(); at != jobs.end(); ++at)
    if (!at->second) queue.push_back(at);
  in_threads(options.threads > 0 ? options.threads : thread_per_processor(), queue.size(),
             [&](unsigned, std::size_t number) {
               queue[number]->second = std::make_shared<const SimulatedJob>(
                   simulate_job(queue[number]->first, options.load, options.engine));
             });
}

// Weights, gradients and the optimizer's state alone do not fit.
bool has_too_much_state(const SimulatedJob& job) {
  if (!job.job) return false;
  return std::ranges::any_of(job.summary.stages, [](const StageSummary& stage) {
    const auto bytes = [&](Category of) { return stage.memory[static_cast<std::size_t>(of)]; };
    return bytes(Category::weights) + bytes(Category::gradients) + bytes(Category::optimizer) >
           stage.memory_limit_bytes;
  });
}

bool fits(const SimulatedJob& job) { return job.summary.fits && job.summary.host_fits; }

// So much of every virtual stage's layers, one at least, is recomputed whole; of four quarters all.
void recompute_quarters(RowJob& made, std::int64_t quarters) {
  made.job.erase("recompute");
  made.job.set("recompute.granularity", "full");
  const auto size = [&](Column column) {
    return std::max<std::int64_t>(made.row.integer(column).value_or(1), 1);
  };
  const std::int64_t layers = size(Column::layers), stages = size(Column::pp) * size(Column::vpp);
  const std::int64_t of_stage = (layers + stages - 1) / stages, some = (of_stage * quarters + 3) / 4;
  std::string assumed = "recompute=full, to fit";
  if (some < of_stage) {
    made.job.set("recompute.method", "block");
    made.job.set("recompute.num_layers", fmt::format("{}", some));
    assumed = fmt::format("recompute={} of {} layers of a stage, to fit", some, of_stage);
  }
  for (std::string& text : made.assumed)
    if (text.starts_with("recompute=")) text = assumed;
}

// Rows that ran and leave sizes open (RowJob::has_guesses) have such as fit, with all recomputed if their
// source does that where memory asks for it.
class GuessedSizes {
 public:
  GuessedSizes(const std::vector<MeasuredRow>& measured, const RowRules& rules, KnownPresets& presets)
      : measured_(measured), rules_(rules), presets_(presets) {}

  void fit(std::vector<RowJob>& made, std::vector<ValidatedRow>& rows, Simulated& jobs,
           const ValidateOptions& options) {
    std::vector<std::size_t> open;
    for (std::size_t r = 0; r < rows.size(); ++r)
      if (!rows[r].yaml.empty() && !rows[r].is_failure() && made[r].has_guesses()) open.push_back(r);
    while (!open.empty()) {
      std::erase_if(open, [&](std::size_t r) {
        const SimulatedJob& tried = *jobs.at(rows[r].yaml);
        return !tried.job || fits(tried);
      });
      for (const std::size_t r : open) jobs.emplace(recomputed_yaml(made[r]), nullptr);
      simulate_all(jobs, options);
      std::erase_if(open, [&](std::size_t r) {
        const SimulatedJob& tried = *jobs.at(recomputed_yaml(made[r]));
        // Where what is kept between steps fits, sharing it is not what made the job fit.
        made[r].guesses_sharding = made[r].guesses_sharding && has_too_much_state(tried);
        return (tried.job && fits(tried)) || !guess_again(r, made[r], rows[r], options);
      });
      for (const std::size_t r : open) jobs.emplace(rows[r].yaml, nullptr);
      simulate_all(jobs, options);
    }
  }

 private:
  // The job itself where that is not for us to say.
  static std::string recomputed_yaml(RowJob made) {
    if (recomputes_as_needed(made)) recompute_quarters(made, 4);
    return made.job.yaml();
  }

  bool guess_again(std::size_t r, RowJob& made, ValidatedRow& row, const ValidateOptions& options) {
    const std::optional<SizeGuess> guess = next_guess(made);
    if (!guess && made.guesses_gpus) {
      row.yaml.clear();
      row.why =
          fmt::format("n_gpus is not stated, and the job fits on no 1 to {} GPUs", made.row[Column::n_gpus]);
    }
    if (!guess) return false;
    made = job_of_row(measured_[r], rules_, presets_, *guess);
    if (options.without_frameworks) leave_out_framework(made.job);
    row.assumed = made.assumed;
    row.yaml = made.job.yaml();
    return true;
  }

  const std::vector<MeasuredRow>& measured_;
  const RowRules& rules_;
  KnownPresets& presets_;
};

// Those that do not fit with nothing recomputed, whether they ran or not, with as many quarters of their
// layers recomputed as make them fit, or all.
void recompute_where_needed(std::vector<RowJob>& made, std::vector<ValidatedRow>& rows, Simulated& jobs,
                            const ValidateOptions& options) {
  std::vector<std::size_t> open;
  for (std::size_t r = 0; r < rows.size(); ++r)
    if (!rows[r].yaml.empty() && recomputes_as_needed(made[r])) open.push_back(r);
  for (std::int64_t quarters = 1; quarters <= 4; ++quarters) {
    std::erase_if(open, [&](std::size_t r) {
      const SimulatedJob& tried = *jobs.at(rows[r].yaml);
      return tried.job ? tried.summary.fits : quarters == 1;
    });
    for (const std::size_t r : open) {
      recompute_quarters(made[r], quarters);
      rows[r].assumed = made[r].assumed;
      rows[r].yaml = made[r].job.yaml();
      jobs.emplace(rows[r].yaml, nullptr);
    }
    simulate_all(jobs, options);
  }
}

// "64..1024"; nothing for other texts.
std::optional<std::pair<std::int64_t, std::int64_t>> range_of(const std::string& text) {
  std::int64_t least = 0, most = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, least);
  if (first.ec != std::errc() || least < 1 || !std::string_view(first.ptr, end).starts_with("..")) return {};
  const auto last = std::from_chars(first.ptr + 2, end, most);
  if (last.ec != std::errc() || last.ptr != end || most > max_microbatches) return {};
  return std::pair{least, most};
}

// Microbatches that a source tried for so many sequences per replica (the fact `microbatches`).
std::vector<std::int64_t> tried_micro_batches(const std::string& fact, std::int64_t sequences) {
  std::vector<std::int64_t> found;
  const auto range = range_of(fact);
  for (std::int64_t number = range ? range->first : 1; range && number <= range->second; number *= 2)
    if (sequences % number == 0) found.push_back(sequences / number);
  for (std::int64_t size = 1; fact == "tuned" && sequences % size == 0; size *= 2) found.push_back(size);
  return found;
}

// The same row with each of them, where it does not say its own.
std::vector<RowJob> tried_microbatches(const RowJob& made) {
  const auto found = made.facts.find("microbatches");
  const auto batch = made.row.integer(Column::global_batch), replicas = made.row.integer(Column::dp);
  if (found == made.facts.end() || !batch || !replicas || *replicas < 1) return {};
  const auto assumed = std::ranges::find_if(
      made.assumed, [](const std::string& text) { return text.starts_with("micro_batch="); });
  if (assumed == made.assumed.end()) return {};
  const auto at = static_cast<std::size_t>(assumed - made.assumed.begin());
  std::vector<RowJob> tried;
  for (const std::int64_t size : tried_micro_batches(found->second, *batch / *replicas)) {
    tried.push_back(made);
    tried.back().job.set("training.micro_batch_size", fmt::format("{}", size));
    tried.back().assumed[at] = fmt::format("micro_batch={}, the fastest", size);
  }
  return tried;
}

// Of those that fit the fastest here; the first of equals.
void take_fastest_microbatches(std::vector<RowJob>& made, std::vector<ValidatedRow>& rows, Simulated& jobs,
                               const ValidateOptions& options) {
  std::map<std::size_t, std::vector<RowJob>> open;
  for (std::size_t r = 0; r < rows.size(); ++r)
    if (!rows[r].yaml.empty()) open.emplace(r, tried_microbatches(made[r]));
  for (const auto& [r, tried] : open)
    for (const RowJob& one : tried) jobs.emplace(one.job.yaml(), nullptr);
  simulate_all(jobs, options);
  for (auto& [r, tried] : open) {
    std::optional<double> shortest;
    for (RowJob& one : tried) {
      const SimulatedJob& simulated = *jobs.at(one.job.yaml());
      if (!simulated.job || !fits(simulated)) continue;
      if (shortest && simulated.summary.step_time_s >= *shortest) continue;
      shortest = simulated.summary.step_time_s;
      rows[r].assumed = one.assumed;
      rows[r].yaml = one.job.yaml();
      made[r] = std::move(one);
    }
  }
}

void score(const RowJob& made, ValidatedRow& row) {
  if (!row.simulated) return;
  if (!row.simulated->job) {
    row.why = row.simulated->error;
    return;
  }
  if (row.is_failure()) {
    row.status = RowStatus::scored;
    return;
  }
  row.predicted = predicted_metric(made, *row.simulated);
  if (!row.predicted && row.set == "per-layer")
    row.why = "the time of one layer is simulated with a model of one layer";
  else if (!row.predicted)
    row.why = fmt::format("the metric '{}' is none of {}", row.row[Column::measured_metric], known_metrics);
  else if (row.measured() <= 0)
    row.why = "what was measured is not above 0";
  else
    row.status = RowStatus::scored;
}

bool has_value(const MeasuredRow& row, Column column, const std::string& value) {
  if (row[column] == value) return true;
  const std::optional<double> cell = row.number(column);
  MeasuredRow wanted;
  wanted[column] = value;
  return cell && cell == wanted.number(column);
}

}  // namespace

std::vector<MeasuredRow> filtered(std::vector<MeasuredRow> rows,
                                  const std::vector<std::pair<Column, std::string>>& filters,
                                  const RowRules& rules) {
  for (const auto& [column, value] : filters)
    std::erase_if(rows, [&, wanted = column, is = value](const MeasuredRow& row) {
      return !has_value(row, wanted, is) && (wanted != Column::source || group_of(row, rules) != is);
    });
  return rows;
}

std::vector<ValidatedRow> validate_rows(const std::vector<MeasuredRow>& rows,
                                        const ValidateOptions& options) {
  const RowRules rules = load_row_rules(options.load);
  KnownPresets presets(options.load);
  RunNames runs;
  std::vector<RowJob> made;
  std::vector<ValidatedRow> validated;
  Simulated jobs;
  for (const MeasuredRow& row : rows) {
    made.push_back(job_of_row(row, rules, presets));
    if (options.without_frameworks) leave_out_framework(made.back().job);
    validated.push_back(prepared(row, made.back(), runs));
    if (!validated.back().yaml.empty()) jobs[validated.back().yaml] = nullptr;
  }
  simulate_all(jobs, options);
  GuessedSizes(rows, rules, presets).fit(made, validated, jobs, options);
  take_fastest_microbatches(made, validated, jobs, options);
  recompute_where_needed(made, validated, jobs, options);
  for (std::size_t r = 0; r < validated.size(); ++r) {
    if (!validated[r].yaml.empty()) validated[r].simulated = jobs.at(validated[r].yaml);
    score(made[r], validated[r]);
  }
  choose_counted(validated);
  count_printed_twice_once(validated);
  return validated;
}

}  // namespace simrun
