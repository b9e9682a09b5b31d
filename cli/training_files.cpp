#include "cli/training_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "backend/processes/group.h"
#include "cli/output_file.h"
#include "cli/outputs.h"
#include "cli/refusal_position.h"
#include "configs/diagnostics.h"
#include "configs/text_file.h"

namespace simrun {
namespace {

// The bytes of a file, or what is wrong with it among the faults.
std::optional<std::string> read_file(const std::string& path, std::vector<Diagnostic>& faults) {
  std::error_code ignored;
  const std::uintmax_t size = std::filesystem::file_size(path, ignored);
  TextFile file = read_text_file(path, ignored ? 0 : static_cast<std::size_t>(size));
  if (!file.text) faults.push_back({{path, 0, 0}, "cannot read: " + file.reason, ""});
  return std::move(file.text);
}

// For a reason that is in the job as much as in the file.
void refuse(std::vector<Diagnostic>& faults, const Input& input, const std::string& path,
            const std::string& why) {
  faults.push_back({refusal_position(input, why), fmt::format("{}: {}", path, why), ""});
}

// Of a run that ended well; its parts one behind the other.
void append(Execution& whole, Execution part) {
  if (whole.loss.empty()) {
    whole = std::move(part);
    return;
  }
  whole.failure = std::move(part.failure);
  whole.failure_kind = part.failure_kind;
  whole.loss.insert(whole.loss.end(), part.loss.begin(), part.loss.end());
  whole.parameters = std::move(part.parameters);
  whole.moments = std::move(part.moments);
  for (std::size_t rank = 0; rank < whole.ranks.size(); ++rank) {
    RankReport& to = whole.ranks[rank];
    const RankReport& from = part.ranks[rank];
    to.instructions += from.instructions;
    if (!whole.expert_rows.of_first_step.empty()) continue;  // memory that is known for the first part alone
    to.planned_peak_bytes = std::max(to.planned_peak_bytes, from.planned_peak_bytes);
    to.allocated_peak_bytes = std::max(to.allocated_peak_bytes, from.allocated_peak_bytes);
  }
}

std::string checkpoint_of(const Plan& plan, const ExecuteOptions& options, const Execution& run,
                          std::int64_t steps) {
  return serialize({steps, options.training.seed, saved_optimizer(plan).name, run.parameters, run.moments},
                   options.device == ExecutionDevice::cpu_f64 || options.device == ExecutionDevice::cuda_f64
                       ? CheckpointElement::f64
                       : CheckpointElement::f32);
}

}  // namespace

TrainingFiles read_training_files(const ExecuteFlags& flags, const Input& input) {
  TrainingFiles files;
  std::vector<Diagnostic> faults;
  if (flags.data)
    if (std::optional<std::string> bytes = read_file(*flags.data, faults)) {
      files.text = std::make_unique<TextData>(std::move(*bytes));
      const std::string why = text_refusal(input.plan, *files.text);
      if (!why.empty()) refuse(faults, input, *flags.data, why);
    }
  const std::string unsaved = saved_optimizer(input.plan).refusal;
  bool is_told = !flags.save || unsaved.empty();
  if (flags.load)
    if (std::optional<std::string> bytes = read_file(*flags.load, faults)) {
      try {
        files.start = std::make_unique<Checkpoint>(std::move(*bytes));
        const ResumedParameters resumed(*files.start, input.plan);
        if (!resumed.mismatch().empty())
          refuse(faults, input, *flags.load, "the checkpoint " + resumed.mismatch());
        is_told = is_told || resumed.mismatch().ends_with(unsaved);
      } catch (const CheckpointError& error) {
        faults.push_back({{*flags.load, 0, 0}, fmt::format("the checkpoint {}", error.what()), ""});
      }
    }
  if (!is_told) refuse(faults, input, *flags.save, unsaved);
  if (!faults.empty()) throw ConfigError(std::move(faults));
  return files;
}

int steps_at_once(const ExecuteOptions& options, const ExecuteFlags& flags) {
  return std::min(options.steps, flags.save_every.value_or(options.steps));
}

Execution execute_and_save(const Plan& plan, const ExecuteOptions& options, const ExecuteFlags& flags,
                           const std::function<void(const std::string&)>& report) {
  if (!flags.save) return execute(plan, options);
  ExecuteOptions part = options;
  std::unique_ptr<const Checkpoint> saved;
  std::int64_t done = options.start == nullptr ? 0 : options.start->steps();
  Execution whole;
  for (int left = options.steps; left > 0; left -= part.steps) {
    part.steps = std::min(left, steps_at_once(options, flags));
    append(whole, execute(plan, part));
    if (!whole.failure.empty()) return whole;
    done += part.steps;
    std::string bytes;
    if (options.processes == nullptr || options.processes->speaks()) {
      bytes = checkpoint_of(plan, options, whole, done);
      write_output(*flags.save, bytes, Durability::synced);
      report(fmt::format("step {}  loss {:.6f}  wrote {} ({})\n", done, whole.loss.back(), *flags.save,
                         file_size_text(bytes.size())));
    }
    if (left > part.steps && options.processes != nullptr) bytes = options.processes->share(bytes);
    if (left > part.steps) saved = std::make_unique<Checkpoint>(std::move(bytes));
    part.start = saved.get();
    part.timed = false;  // the first part's times are the others', too
  }
  return whole;
}

}  // namespace simrun
