#include "cli/levers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <vector>

#include "configs/config_node.h"
#include "configs/node_groups.h"
#include "configs/text_file.h"
#include "sim/held_memory.h"
#include "sim/memory.h"
#include "sim/plan_job.h"
#include "sim/simulate.h"
#include "visualizer/quantity.h"

namespace simrun {
namespace {

struct Lever {
  Override change;
  // Keys of the job that say the same in another way, or follow from what is changed: left out.
  std::vector<std::string> replaced = {};
};

// What the job comes to with a lever pulled.
struct Pulled {
  std::string words;       // the change, and what is left out
  std::int64_t peak = 0;   // of the worst GPU
  std::int64_t limit = 0;  // what it may have
  bool is_least = false;   // recompute that is searched: the most it could do
  std::int64_t spare() const { return limit - peak; }
};

constexpr const char* data_parallel = "parallelism.data_parallel_size";

// Changes that leave model, batch and cluster as they are.
std::vector<Lever> candidate_levers(const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  const RecomputeGranularity recompute = job.recompute.granularity;
  std::vector<Lever> levers;
  const auto twice = [&](const char* key, std::int64_t size, std::vector<std::string> replaced) {
    levers.push_back({{key, std::to_string(2 * size)}, std::move(replaced)});
  };
  if (recompute == RecomputeGranularity::none)
    levers.push_back({{"recompute", "{granularity: selective}"}, {"recompute"}});
  if (recompute != RecomputeGranularity::full && recompute != RecomputeGranularity::automatic)
    levers.push_back({{"recompute", "{granularity: full}"}, {"recompute"}});
  for (int stage = job.optimizer.zero_stage + 1; stage <= 3 && parallelism.data_parallel_size > 1; ++stage)
    levers.push_back({{"optimizer.zero_stage", std::to_string(stage)}});
  const std::int64_t tp = parallelism.tensor_model_parallel_size;
  if (!parallelism.sequence_parallel && tp > 1) levers.push_back({{"parallelism.sequence_parallel", "true"}});
  if (job.training.attention == AttentionKernel::unfused) levers.push_back({{"training.attention", "flash"}});
  if (job.training.micro_batch_size > 1) levers.push_back({{"training.micro_batch_size", "1"}});
  if (2 * tp <= job.cluster.gpus_per_node)
    twice("parallelism.tensor_model_parallel_size", tp, {data_parallel});
  twice("parallelism.context_parallel_size", parallelism.context_parallel_size, {data_parallel});
  twice("parallelism.pipeline_model_parallel_size", parallelism.pipeline_model_parallel_size,
        {data_parallel, "parallelism.microbatch_group_size_per_vp_stage",
         "parallelism.pipeline_model_parallel_layout"});
  return levers;
}

bool is_within(const std::string& key, const std::string& path) {
  return key == path || key.starts_with(path + ".");
}

// Names, in `erased`, what was there.
void erase_path(ConfigNode& root, const std::string& path, const std::string& prefix,
                std::vector<std::string>& erased) {
  const std::size_t dot = path.find('.');
  const std::string key = path.substr(0, dot);
  ConfigNode* node = root.find(key);
  if (node == nullptr) return;
  if (dot != std::string::npos) return erase_path(*node, path.substr(dot + 1), prefix + key + ".", erased);
  if (node->kind != ConfigNode::Kind::map)
    erased.push_back(prefix + key);
  else
    for (const ConfigNode& child : node->children)
      if (child.key != "granularity") erased.push_back(prefix + key + "." + child.key);
  std::erase_if(root.children, [&](const ConfigNode& child) { return child.key == key; });
}

// Of several kinds of GPU, and of stages of which the framework holds unequally much, it is the one with
// least to spare that counts, which may be another one then.
void add_peak(const Plan& plan, Pulled& pulled) {
  if (GpuKinds(plan.cluster).count() > 1) {
    const Summary summary =
        summarize(plan, simulate(plan, {.looks_for_contention = false, .times_first_step = false}));
    pulled.peak = summary.peak_memory_bytes;
    pulled.limit = summary.memory_limit_bytes;
    return;
  }
  pulled.limit = std::numeric_limits<std::int64_t>::max();
  for (const Program& program : plan.programs) {
    const std::int64_t peak = walk_memory(plan, program, WhichStep::steady, MemoryDetail::peak).peak.bytes;
    const std::int64_t limit = room_for_plan(plan, program);
    if (limit - peak >= pulled.spare()) continue;
    pulled.peak = peak;
    pulled.limit = limit;
  }
}

// Nothing if the loader or compiler refuses it.
std::optional<Pulled> pull(const Lever& lever, const LoadedJob& job, LoadOptions options) {
  const std::string& file = job.files.front();
  const TextFile text = read_text_file(file);
  if (!text.text) return std::nullopt;
  std::vector<Diagnostic> problems;
  ConfigNode root = read_yaml(*text.text, file, problems);
  std::vector<std::string> erased;
  for (const std::string& path : lever.replaced) {
    erase_path(root, path, "", erased);
    for (const Override& set : options.overrides)
      if (is_within(set.key, path) && set.key != lever.change.key && !set.key.ends_with("granularity"))
        erased.push_back(set.key);
    std::erase_if(options.overrides, [&](const Override& set) { return is_within(set.key, path); });
  }
  options.overrides.push_back(lever.change);
  Pulled pulled{fmt::format("{}: {}", lever.change.key, lever.change.value)};
  if (!erased.empty()) pulled.words += fmt::format(" (without {})", fmt::join(erased, ", "));
  try {
    LoadedJob changed = load_job_tree(root, std::move(problems), file, options);
    // Not searched again for every lever.
    if (changed.job.recompute.granularity == RecomputeGranularity::automatic) {
      changed.job.recompute = {};
      changed.job.recompute.granularity = RecomputeGranularity::full;
      pulled.is_least = true;
    }
    add_peak(plan_job(changed.job), pulled);
    return pulled;
  } catch (const ConfigError&) {
    return std::nullopt;
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

std::string best_lever(const Summary& summary, const LoadedJob& job, const LoadOptions& options) {
  std::optional<Pulled> best;
  std::int64_t most_spare = summary.memory_limit_bytes - summary.peak_memory_bytes;
  for (const Lever& lever : candidate_levers(job.job)) {
    std::optional<Pulled> pulled = pull(lever, job, options);
    if (!pulled || pulled->spare() <= most_spare) continue;
    most_spare = pulled->spare();
    best = std::move(pulled);
  }
  if (!best)
    return "No single change of recompute, ZeRO stage, micro batch, or of sequence, tensor, context or "
           "pipeline parallelism lowers it.";
  return fmt::format("Largest lever: {} brings the peak to {}{}{}.", best->words,
                     best->is_least ? "as little as " : "", memory_text(best->peak),
                     best->spare() >= 0 ? ", which fits" : ", which still does not fit");
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
      "no recompute that fits the {} which are left for the plan was found: the best, {}, needs "
      "{}, {} too much. ",
      memory_text(found.memory_limit), found.section, memory_text(found.peak_bytes),
      memory_text(found.peak_bytes - found.memory_limit));
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
      has_framework && summary.memory_limit_bytes < 0
          ? fmt::format("{}'s {}, of which the framework alone needs {}", gpu.name,
                        memory_text(gpu.memory_bytes),
                        memory_text(gpu.memory_bytes - summary.memory_limit_bytes))
      : has_framework
          ? fmt::format("the {} of {}'s {} that the framework leaves for it",
                        memory_text(summary.memory_limit_bytes), gpu.name, memory_text(gpu.memory_bytes))
          : fmt::format("the {} of {} less the {} reserved for context and communication",
                        memory_text(gpu.memory_bytes), gpu.name, memory_text(plan.cluster.reserved_bytes));
  std::string text = fmt::format("does not fit: pp rank {} needs {}, {} more than {}, {}; {} of it are {}.",
                                 rank.pipeline_rank, memory_text(summary.peak_memory_bytes),
                                 memory_text(summary.peak_memory_bytes - summary.memory_limit_bytes), room,
                                 moment_of(plan, rank), memory_text(*largest), to_string(category));
  if (job != nullptr) text += " " + best_lever(summary, *job, options);
  return text;
}

}  // namespace simrun
