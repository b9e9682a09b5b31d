#include "schedules/job_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "configs/diagnostics.h"
#include "schedules/schedule_grid.h"
#include "schedules/schedule_search.h"
#include "schedules/timeline.h"

namespace simrun {
namespace {

constexpr const char* searched = "auto";

PipelineShape shape_of(const Job& job, const PassFacts& facts) {
  const Parallelism& parallelism = job.parallelism;
  PipelineShape shape;
  shape.ranks = static_cast<int>(parallelism.pipeline_model_parallel_size);
  shape.virtual_stages = static_cast<int>(parallelism.virtual_pipeline_model_parallel_size);
  shape.microbatches = static_cast<int>(job.microbatches());
  shape.group_size = static_cast<int>(parallelism.microbatch_group_size_per_vp_stage);
  shape.memory_limit = static_cast<int>(parallelism.pipeline_memory_limit);
  shape.stage_times = facts.times;
  return shape;
}

// Its sizes are those of the job.
void require_sizes(const ScheduleFile& file, const PipelineShape& shape, const std::string& name) {
  std::string faults;
  const auto compare = [&](const char* what, int in_file, const char* key, int in_job) {
    if (in_file != in_job)
      faults += fmt::format("{}{} {}, but {} {}", faults.empty() ? "" : "; ", in_file, what, key, in_job);
  };
  compare("ranks", file.shape.ranks, "pipeline_model_parallel_size is", shape.ranks);
  compare("stages per rank", file.shape.virtual_stages, "virtual_pipeline_model_parallel_size is",
          shape.virtual_stages);
  compare("microbatches", file.shape.microbatches, "the job's are", shape.microbatches);
  if (!faults.empty()) throw std::invalid_argument(fmt::format("{} has {}", name, faults));
}

ScheduleFile read_csv(const Job& job, const PipelineShape& shape) {
  const std::string& name = job.parallelism.pipeline_schedule;
  ScheduleFile file =
      read_schedule_csv(job.parallelism.schedule_csv->text, job.parallelism.schedule_csv->path);
  require_sizes(file, shape, name);
  return file;
}

// A wave has the first and the last stage on one rank, where ZeRO-2 and 3 refuse tied embeddings (compile.h).
bool allows_waves(const Job& job) {
  const std::int64_t chunks = job.parallelism.virtual_pipeline_model_parallel_size;
  const bool shares = job.model.tie_word_embeddings && job.parallelism.pipeline_model_parallel_size > 1;
  return chunks % 2 == 0 && (!shares || job.optimizer.zero_stage < 2);
}

// The best order of a loop and, where it may be, of a wave.
SearchResult best_of_placements(const PipelineShape& shape, bool waves, SearchOptions options) {
  options.placement = Placement::loop;
  SearchResult best = search_schedule(shape, options);
  if (!waves) return best;
  options.placement = Placement::wave;
  SearchResult wave = search_schedule(shape, options);
  const std::int64_t bound = std::min(best.lower_bound, wave.lower_bound);
  if (wave.makespan < best.makespan) best = std::move(wave);
  best.lower_bound = bound;
  return best;
}

struct Searched {
  SearchResult result;
  int memory_limit = 0;
};

// Passes of all orders that are tried: for a first look, and so that planning a job takes a second or two.
constexpr std::int64_t few_passes = 100'000, many_passes = 8'000'000;

Searched search(const Job& job, PipelineShape shape, const PassFacts& facts) {
  const bool waves = allows_waves(job);
  SearchOptions options;
  options.named_seeds = !facts.times.empty();
  options.effort = facts.times.empty() ? few_passes : many_passes;
  const bool is_limited = shape.memory_limit > 0;
  if (!is_limited) shape.memory_limit = facts.memory_limit;
  Searched best{best_of_placements(shape, waves, options), shape.memory_limit};
  if (is_limited || facts.whole_memory_limit == facts.memory_limit) return best;
  shape.memory_limit = facts.whole_memory_limit;
  options.split_backward = false;
  Searched whole{best_of_placements(shape, waves, options), shape.memory_limit};
  const std::int64_t bound = std::min(best.result.lower_bound, whole.result.lower_bound);
  if (whole.result.makespan < best.result.makespan) best = std::move(whole);
  best.result.lower_bound = bound;
  return best;
}

// Seconds of picoseconds.

}  // namespace

Schedule JobSchedule::build(const PipelineShape& sized) const {
  return entry_ == nullptr ? order_ : entry_->build(sized);
}

JobSchedule job_schedule(const Job& job, const PassFacts& facts) {
  JobSchedule schedule;
  schedule.name = job.parallelism.pipeline_schedule;
  schedule.shape = shape_of(job, facts);
  schedule.uses_times = uses_times(job);
  if (job.parallelism.schedule_csv) {
    ScheduleFile file = read_csv(job, schedule.shape);
    schedule.placement_ = file.placement;
    schedule.order_ = std::move(file.schedule);
    return schedule;
  }
  if (schedule.name == searched) {
    Searched found = search(job, schedule.shape, facts);
    schedule.placement_ = found.result.placement;
    schedule.order_ = std::move(found.result.schedule);
    if (!facts.times.empty())
      schedule.found = FoundSchedule{found.result.seed, to_seconds(found.result.makespan),
                                     to_seconds(found.result.lower_bound), found.memory_limit};
    return schedule;
  }
  const ScheduleEntry* entry = find_schedule(schedule.name);
  if (entry == nullptr) throw std::invalid_argument("unknown pipeline schedule " + schedule.name);
  const std::string refusal = entry->refusal(schedule.shape);
  if (!refusal.empty()) throw std::invalid_argument(refusal);
  schedule.placement_ = entry->placement;
  if (entry->uses_times && facts.times.empty())
    schedule.entry_ = entry;
  else
    schedule.order_ = entry->build(schedule.shape);
  return schedule;
}

bool uses_times(const Job& job) {
  if (job.parallelism.schedule_csv) return false;
  if (job.parallelism.pipeline_schedule == searched) return true;
  const ScheduleEntry* entry = find_schedule(job.parallelism.pipeline_schedule);
  return entry != nullptr && entry->uses_times;
}

bool splits_backward(const Schedule& schedule) {
  return std::any_of(schedule.begin(), schedule.end(), [](const RankOps& ops) {
    return std::any_of(ops.begin(), ops.end(),
                       [](const Op& op) { return op.kind == OpKind::backward_weight; });
  });
}

}  // namespace simrun
