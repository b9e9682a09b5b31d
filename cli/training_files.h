#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/checkpoint.h"
#include "backend/execute.h"
#include "backend/text_data.h"
#include "cli/execute_flags.h"
#include "cli/read_input.h"
#include "schedules/plan.h"

namespace simrun {

// What a training run reads besides the job: the text of --data and the checkpoint of --load; none if not
// asked for.
struct TrainingFiles {
  std::unique_ptr<const TextData> text;
  std::unique_ptr<const Checkpoint> start;
};

// Throws ConfigError with what is wrong with either: it cannot be read, or the plan cannot be trained on or
// go on from it, for a reason that names a key of the job.
TrainingFiles read_training_files(const ExecuteFlags& flags, const Input& input);

// Runs all steps; with --save writes the checkpoint behind the last one, with --save-every N also behind
// every Nth (then each N steps are a run of their own that goes on from the last). `report` is told of each
// ("step 100  loss 2.345678  wrote run.ckpt (1.50 MB)\n"). A run that fails writes nothing more. Of several
// processes the first writes. Throws OutputError; the file that was there is then as it was.
Execution execute_and_save(const Plan& plan, const ExecuteOptions& options, const ExecuteFlags& flags,
                           const std::function<void(const std::string&)>& report);

// Steps of the longest part in which execute_and_save() runs them.
int steps_at_once(const ExecuteOptions& options, const ExecuteFlags& flags);

}  // namespace simrun
