#include "cli/levers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <vector>

#include "cli/derived_numbers.h"
#include "configs/node_groups.h"
#include "sim/memory.h"
#include "sim/plan_job.h"

namespace simrun {
namespace {

struct Lever {
  std::string words;
  std::vector<Override> overrides;
};

// Changes that leave model, batch and cluster as they are.
std::vector<Lever> candidate_levers(const Job& job) {
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  std::vector<Lever> levers;
  const std::int64_t tp = job.parallelism.tensor_model_parallel_size;
  const std::int64_t pp = job.parallelism.pipeline_model_parallel_size;
  const bool searched = job.recompute.granularity == RecomputeGranularity::automatic;
  if (job.recompute.granularity == RecomputeGranularity::none)
    levers.push_back({"recompute: {granularity: selective}", {{"recompute", "{granularity: selective}"}}});
  if (job.recompute.granularity != RecomputeGranularity::full && !searched)
    levers.push_back({"recompute: {granularity: full}", {{"recompute", "{granularity: full}"}}});
  if (job.optimizer.zero_stage == 0 && job.parallelism.data_parallel_size > 1)
    levers.push_back({"optimizer.zero_stage: 1", {{"optimizer.zero_stage", "1"}}});
  if (!job.parallelism.sequence_parallel && tp > 1)
    levers.push_back({"parallelism.sequence_parallel: true", {{"parallelism.sequence_parallel", "true"}}});
  if (job.training.attention == AttentionKernel::unfused)
    levers.push_back({"training.attention: flash", {{"training.attention", "flash"}}});
  if (job.training.micro_batch_size > 1)
    levers.push_back({"training.micro_batch_size: 1", {{"training.micro_batch_size", "1"}}});
  if (2 * tp <= job.cluster.gpus_per_node)
    levers.push_back({fmt::format("parallelism.tensor_model_parallel_size: {}", 2 * tp),
                      {{"parallelism.tensor_model_parallel_size", number(2 * tp)}}});
  levers.push_back({fmt::format("parallelism.pipeline_model_parallel_size: {}", 2 * pp),
                    {{"parallelism.pipeline_model_parallel_size", number(2 * pp)}}});
  return levers;
}

// Worst rank's peak of the job with the lever pulled; nothing if the loader or compiler refuses it.
std::optional<std::int64_t> peak_with(const Lever& lever, const LoadedJob& job, LoadOptions options) {
  options.overrides = lever.overrides;
  try {
    LoadedJob changed = load_job_text(job.effective_yaml, job.job.name + ".yaml", options);
    // Not searched again for every lever: the most that `auto` could do.
    if (changed.job.recompute.granularity == RecomputeGranularity::automatic) {
      changed.job.recompute = {};
      changed.job.recompute.granularity = RecomputeGranularity::full;
    }
    const Plan plan = plan_job(changed.job);
    std::int64_t worst = 0;
    for (const Program& program : plan.programs)
      worst = std::max(worst, walk_memory(plan, program, WhichStep::steady, MemoryDetail::peak).peak.bytes);
    return worst;
  } catch (const ConfigError&) {
    return std::nullopt;
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

std::string best_lever(const Summary& summary, const LoadedJob& job, const LoadOptions& options) {
  std::string best;
  std::int64_t lowest = summary.peak_memory_bytes;
  for (const Lever& lever : candidate_levers(job.job)) {
    const std::optional<std::int64_t> peak = peak_with(lever, job, options);
    if (!peak || *peak >= lowest) continue;
    lowest = *peak;
    best = lever.words;
  }
  if (best.empty())
    return "No single change of recompute, ZeRO stage, sequence, tensor or pipeline parallelism lowers it.";
  return fmt::format("Largest lever: {} brings the peak to {:.1f} GiB{}.", best, gib(lowest),
                     lowest <= summary.memory_limit_bytes ? ", which fits" : ", which still does not fit");
}

std::string moment_of(const Plan& plan, const RankTimeline& rank) {
  const Program& program = plan.programs[static_cast<std::size_t>(rank.pipeline_rank)];
  if (program.entries.empty()) return "at the start";
  const Entry& entry = program.entries[std::min<std::size_t>(rank.peak.entry, program.entries.size() - 1)];
  const Segment& segment = plan.segments[entry.segment];
  const Binding& binding = program.bindings[entry.first_binding];
  std::string text = segment.kind == PassKind::step
                         ? fmt::format("during {}", segment.name)
                         : fmt::format("during {} of microbatch {}", segment.name, binding.microbatch);
  if (rank.peak.instruction < segment.instructions.size()) {
    const Instruction& at = segment.instructions[rank.peak.instruction];
    if (!at.label.empty())
      text += fmt::format(", at {}{}", at.label, at.layer >= 0 ? fmt::format(" of layer {}", at.layer) : "");
  }
  return text;
}

}  // namespace

std::string explain_recompute_misfit(const FoundRecompute& found) {
  return fmt::format(
      "no recompute that fits the {:.1f} GiB which are left for the plan was found: the best, {}, needs "
      "{:.1f} GiB, {:.1f} GiB too much. ",
      gib(found.memory_limit), found.section, gib(found.peak_bytes),
      gib(found.peak_bytes - found.memory_limit));
}

// The GPU that the summary's peak is of.
static const RankTimeline& tightest_gpu(const Plan& plan, const Timeline& timeline, const Summary& summary) {
  for (const RankTimeline& rank : timeline.ranks)
    if (rank.pipeline_rank == summary.peak_pipeline_rank && rank.peak.bytes == summary.peak_memory_bytes &&
        gpu_at(plan.cluster, rank.device).name == summary.peak_gpu)
      return rank;
  return fullest_gpu(timeline, summary.peak_pipeline_rank);
}

std::string explain_misfit(const Plan& plan, const Timeline& timeline, const Summary& summary,
                           const LoadedJob* job, const LoadOptions& options) {
  const RankTimeline& rank = tightest_gpu(plan, timeline, summary);
  const Gpu& gpu = gpu_at(plan.cluster, rank.device);
  const auto largest = std::max_element(rank.peak.live.begin(), rank.peak.live.end());
  const auto category = static_cast<Category>(largest - rank.peak.live.begin());
  const bool has_framework = plan.framework.memory.allocator != AllocatorKind::none;
  const std::string room =
      has_framework
          ? fmt::format("the {:.1f} GiB of a {}'s {:.1f} that the framework leaves for it",
                        gib(summary.memory_limit_bytes), gpu.name, gib(gpu.memory_bytes))
          : fmt::format("the {:.1f} GiB of a {} less the {:.1f} GiB reserved for context and communication",
                        gib(gpu.memory_bytes), gpu.name, gib(plan.cluster.reserved_bytes));
  std::string text = fmt::format(
      "does not fit: pp rank {} needs {:.1f} GiB, {:.1f} GiB more than {}, {}; {:.1f} GiB of it are {}.",
      rank.pipeline_rank, gib(summary.peak_memory_bytes),
      gib(summary.peak_memory_bytes - summary.memory_limit_bytes), room, moment_of(plan, rank), gib(*largest),
      to_string(category));
  if (job != nullptr) text += " " + best_lever(summary, *job, options);
  return text;
}

}  // namespace simrun
