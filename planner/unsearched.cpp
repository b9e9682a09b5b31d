#include "planner/unsearched.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "configs/node_groups.h"

namespace simrun {
namespace {

constexpr const char* jobs_do = "--plan searches such jobs.";

bool names_layers(const std::vector<ScopePattern>& scopes) {
  return std::ranges::any_of(scopes, [](const ScopePattern& scope) { return !scope.layers.empty(); });
}

class Collected {
 public:
  void add(bool is_unsearched, const char* key, std::string why, std::string hint = jobs_do) {
    if (is_unsearched) found_.push_back({key, std::move(why), std::move(hint)});
  }
  std::vector<Unsearched> take() { return std::move(found_); }

  // What neither Alpa's search nor Galvatron's knows.
  void add_common(const Job& job) {
    add(job.training.documents.has_value(), "training.documents", "packed documents are not searched");
    add(!job.training.replica_micro_batch_sizes.empty(), "training.replica_micro_batch_sizes",
        "replicas with batches of unlike size are not searched",
        GpuKinds(job.cluster).count() > 1 ? "--plan and --plan whale balance them." : "leave it out.");
    add(job.optimizer.parameter_server.has_value(), "optimizer.parameter_server",
        "parameter servers are not searched");
  }

 private:
  std::vector<Unsearched> found_;
};

constexpr const char* stage_tensors = "parallelism.stage_tensor_model_parallel_sizes";
constexpr const char* stage_data = "parallelism.stage_data_parallel_sizes";

// Those with which stages are unlike.
void add_unlike_stages(Collected& found, const Job& job, const char* why, const std::string& hint) {
  const Parallelism& of = job.parallelism;
  if (!of.has_unlike_stages()) return;
  found.add(!of.stage_tensor_sizes.empty(), stage_tensors, why, hint);
  found.add(!of.stage_data_sizes.empty(), stage_data, why, hint);
}

constexpr std::array alpa_numbers = {"pipeline_model_parallel_size", "virtual_pipeline_model_parallel_size",
                                     "zero_stage"};

bool is_known_to_alpa(const std::string& key, const std::vector<std::int64_t>& values) {
  if (std::ranges::find(alpa_numbers, key) != alpa_numbers.end()) return true;
  // Its plans have none of these.
  return (key == "context_parallel_size" || key.starts_with("expert_")) && std::ranges::count(values, 1) > 0;
}

Unsearched not_for_memory(std::string_view mode) {
  return {"plan.minimise", fmt::format("--plan {} makes the step short, within plan.max_memory", mode),
          "--plan searches for the least memory."};
}

// Of modes that keep to plan.max_memory alone. `what`: a clause on the mode, why it has no other limits.
std::vector<Unsearched> all_but_memory(const PlanConfig& limits, std::string_view mode,
                                       std::string_view what) {
  std::vector<Unsearched> found;
  if (limits.minimise == PlanObjective::memory) found.push_back(not_for_memory(mode));
  const auto add = [&](const std::string& key) {
    found.push_back({"plan.fix." + key,
                     fmt::format("plan.fix.{} means nothing to --plan {}, {}", key, mode, what),
                     "--plan and --plan alpa keep to plan.fix; this mode keeps to plan.max_memory."});
  };
  for (const auto& [key, values] : limits.fixed_numbers) add(key);
  if (!limits.recomputes.empty()) add("recompute");
  if (!limits.schedules.empty()) add("pipeline_schedule");
  return found;
}

}  // namespace

std::vector<Unsearched> unsearched_by_alpa(const Job& job) {
  Collected found;
  found.add_common(job);
  found.add(job.training.fp8.has_value(), "training.precision", "fp8 is not searched");
  found.add(job.training.lora.has_value(), "training.lora", "LoRA is not searched");
  found.add(!job.optimizer.zero_3_layers.empty(), "optimizer.zero_3_layers",
            "layers with ZeRO-3 of their own are not searched", "leave it out, or --plan galvatron.");
  found.add(GpuKinds(job.cluster).count() > 1, "cluster.node_groups",
            fmt::format("{}: Alpa's levels take GPUs of one kind", gpus_text(job.cluster)),
            "--plan and --plan whale take several.");
  add_unlike_stages(found, job, "it would fix the sizes of stages, which are searched",
                    "leave stage_tensor_model_parallel_sizes and stage_data_parallel_sizes out.");
  return found.take();
}

std::vector<Unsearched> unsearched_by_galvatron(const Job& job) {
  Collected found;
  found.add_common(job);
  found.add(job.model.family != ModelFamily{}, "model",
            "layers of their own are searched for decoder-only transformers");
  found.add(job.model.num_nextn_predict_layers > 0, "model.num_nextn_predict_layers",
            "multi-token prediction is not searched");
  found.add(!job.model.frozen.empty(), "model.frozen", "frozen parameters are not searched");
  found.add(names_layers(job.recompute.saved), "recompute.saved",
            "what is saved of single layers is not searched");
  found.add(job.offload != Offload{}, "offload", "offload is not searched");
  found.add(job.layout != LayoutConfig{}, "layout", "layouts of one's own are not searched", "leave it out.");
  found.add(GpuKinds(job.cluster).count() > 1, "cluster.node_groups",
            fmt::format("{}: layers of their own are searched for GPUs of one kind", gpus_text(job.cluster)),
            "--plan and --plan whale take several.");
  add_unlike_stages(found, job, "stages of unlike size are not searched",
                    "--plan alpa searches for them; leave both sizes out.");
  return found.take();
}

std::vector<Unsearched> unsearched_by_whale(const Job& job) {
  Collected found;
  found.add(GpuKinds(job.cluster).count() == 1, "cluster",
            fmt::format("all GPUs are {}: there is nothing to balance", gpus_text(job.cluster)),
            "cluster.node_groups says that they are not; --plan searches over the splits of equal ones.");
  return found.take();
}

std::vector<Unsearched> limits_unknown_to_alpa(const PlanConfig& limits) {
  std::vector<Unsearched> found;
  if (limits.minimise == PlanObjective::memory) found.push_back(not_for_memory("alpa"));
  for (const auto& [key, values] : limits.fixed_numbers)
    if (!is_known_to_alpa(key, values))
      found.push_back(
          {"plan.fix." + key,
           fmt::format("plan.fix.{} means nothing to --plan alpa, whose layouts are by operator", key),
           "it keeps to pipeline_model_parallel_size, virtual_pipeline_model_parallel_size, "
           "zero_stage, recompute and pipeline_schedule; --plan to all."});
  return found;
}

std::vector<Unsearched> limits_unknown_to_galvatron(const PlanConfig& limits) {
  return all_but_memory(limits, "galvatron", "which searches over all of its strategies");
}

std::vector<Unsearched> limits_unknown_to_whale(const PlanConfig& limits) {
  return all_but_memory(limits, "whale", "which balances the split that the job has");
}

void require_searched(const std::vector<Unsearched>& unsearched) {
  if (unsearched.empty()) return;
  throw std::invalid_argument(unsearched.front().why);
}

}  // namespace simrun
