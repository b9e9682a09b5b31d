// Recompute by virtual stage, and the limit under which granularity `auto` chooses.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "configs/job_rules.h"
#include "configs/limits.h"
#include "configs/load_sections.h"
#include "configs/node_groups.h"

namespace simrun {
namespace {

constexpr IntegerRange some_layers = {0, limits::layers.most};

// [4, 2, 0]: one number per virtual stage. Empty after a problem.
std::vector<std::int64_t> read_counts(const ConfigNode& node, const std::string& path, Reading& reading) {
  std::vector<std::int64_t> counts;
  reading.positions[path] = node.position;
  for (const ConfigNode& child : node.children) {
    const bool plain = child.kind == ConfigNode::Kind::scalar && !child.quoted;
    const Parsed<std::int64_t> parsed = parse_integer(plain ? child.text : "", some_layers);
    if (!parsed.value) {
      reading.problems.push_back(
          {child.position,
           fmt::format("'{}' must be a list of whole numbers, not of {}", path, describe(child)), ""});
      return {};
    }
    counts.push_back(*parsed.value);
  }
  if (counts.empty()) reading.problem(path, fmt::format("'{}' is an empty list", path));
  reading.record(path, fmt::format("[{}]", fmt::join(counts, ", ")), origin_of(node.position));
  return counts;
}

void check_counts(const std::string& path, const std::vector<std::int64_t>& counts, Reading& reading,
                  const Job& job) {
  const std::vector<StageContent>& stages = job.parallelism.stages;
  if (counts.empty() || stages.empty()) return;
  if (counts.size() != stages.size())
    return reading.problem(
        path,
        fmt::format("{} numbers for {} virtual stages (pipeline {} x virtual {})", counts.size(),
                    stages.size(), job.parallelism.pipeline_model_parallel_size,
                    job.parallelism.virtual_pipeline_model_parallel_size),
        "one number per virtual stage, in model order.");
  for (std::size_t s = 0; s < counts.size(); ++s)
    if (counts[s] > stages[s].layers)
      reading.problem(path,
                      fmt::format("virtual stage {} has {} layers, not {}", s, stages[s].layers, counts[s]));
}

}  // namespace

void read_recomputed_layers(const RecomputeKeys& keys) {
  const bool block = keys.recompute.method == RecomputeMethod::block;
  const ConfigNode* node = keys.section.has("num_layers") ? keys.section.section("num_layers") : nullptr;
  if (node == nullptr || node->kind != ConfigNode::Kind::sequence) {
    keys.recompute.num_layers = keys.section.integer("num_layers", limits::layers, 1);
    return;
  }
  const std::string path = keys.section.path_of("num_layers");
  keys.recompute.stage_layers = read_counts(*node, path, keys.reading);
  if (!block)
    keys.reading.problem(path, "a number of layers per virtual stage needs method: block",
                         "uniform's num_layers is the length of a checkpoint.");
}

void read_named_layers(const RecomputeKeys& keys) {
  keys.recompute.layers = read_layer_list(keys.section, keys.reading, "layers");
  if (keys.recompute.layers.empty()) return;
  keys.section.ignore({"method", "num_layers", "modules", "module_layers"});
  for (const char* key : {"method", "num_layers", "modules", "module_layers"})
    if (keys.section.has(key))
      keys.reading.problem(
          keys.section.path_of("layers"),
          fmt::format("'recompute.layers' names the layers, and so would 'recompute.{}'", key),
          "leave one of the two out.");
}

void read_module_layers(const RecomputeKeys& keys) {
  const ConfigNode* node = keys.section.section("module_layers");
  if (node == nullptr) return;
  SectionReader modules(keys.reading, node, keys.section.path_of("module_layers"));
  for (const std::string& module : keys.recompute.modules) {
    keys.recompute.module_layers.emplace_back();
    const ConfigNode* counts = modules.section(module);
    if (counts == nullptr) continue;
    if (counts->kind == ConfigNode::Kind::sequence)
      keys.recompute.module_layers.back() = read_counts(*counts, modules.path_of(module), keys.reading);
    else
      keys.reading.problems.push_back({counts->position,
                                       fmt::format("'{}' must be a list of whole numbers, not {}",
                                                   modules.path_of(module), describe(*counts)),
                                       "one number per virtual stage, in model order."});
  }
  modules.finish();
}

void read_saved_operators(const RecomputeKeys& keys) {
  keys.recompute.saved = read_scopes(keys.section, keys.reading, "saved");
  if (keys.recompute.saved.empty()) return;
  keys.section.ignore({"modules", "module_layers"});
  for (const char* key : {"modules", "module_layers"})
    if (keys.section.has(key))
      keys.reading.problem(
          keys.section.path_of("saved"),
          fmt::format("'recompute.saved' says what is kept, and 'recompute.{}' what is not", key),
          "leave one of the two out.");
}

void read_memory_limit(const RecomputeKeys& keys) {
  if (keys.section.has("memory_limit"))
    keys.recompute.memory_limit =
        std::llround(keys.section.quantity("memory_limit", Unit::bytes, limits::memory));
  keys.section.ignore({"memory_limit"});
}

namespace {

// Under a framework the default is what it leaves, which hangs on the plan.
void apply_memory_limit(Reading& reading, Job& job) {
  const bool has_framework = job.framework.memory.allocator != AllocatorKind::none;
  const std::int64_t available =
      job.cluster.gpu.memory_bytes - (has_framework ? 0 : job.cluster.reserved_bytes);
  std::int64_t& limit = job.recompute.memory_limit;
  if (limit == 0 && available > 0 && !has_framework) {
    limit = available;
    reading.record("recompute.memory_limit", fmt::format("{} B", available), "derived");
  }
  if (available > 0 && limit > available)
    reading.problem("recompute.memory_limit",
                    fmt::format("{:.1f} GiB are more than the {:.1f} GiB of {}{}",
                                static_cast<double>(limit) / 0x1p30, static_cast<double>(available) / 0x1p30,
                                job.cluster.gpu.name, has_framework ? "" : " less its reserve"),
                    "leave it out: that is the default.");
}

// Modules that the model does not have, and checkpoints of more layers than it has.
void check_model_has_it(Reading& reading, const Job& job) {
  const ModelConfig& model = job.model;
  if (model.num_layers == 0) return;  // refused
  const bool has_experts = model.experts.count > 0;
  const std::tuple<const char*, bool, const char*> parts[] = {
      {"mamba", model.mamba.on(), "Mamba layers"},
      {"delta_net", model.delta_net.on(), "Gated DeltaNet layers"},
      {"mla_up_proj", model.mla.on(), "latent attention"},
      {"moe", has_experts, "experts"},
      {"moe_act", has_experts, "experts"},
      {"shared_experts", model.experts.shared_ffn_hidden_size > 0, "shared experts"}};
  for (const auto& [module, is_there, what] : parts)
    if (!is_there && std::ranges::find(job.recompute.modules, module) != job.recompute.modules.end())
      reading.problem("recompute.modules",
                      fmt::format("recompute module {} is about {}, and the model has none", module, what),
                      "leave it out.");
  const std::int64_t layers = model.num_layers + model.num_nextn_predict_layers;
  if (job.recompute.granularity == RecomputeGranularity::full &&
      job.recompute.method == RecomputeMethod::uniform && job.recompute.num_layers > layers)
    reading.problem(
        "recompute.num_layers",
        fmt::format("a checkpoint of {} layers, and the model has {}", job.recompute.num_layers, layers),
        fmt::format("{} at most; a checkpoint ends with its stage.", layers));
}

}  // namespace

void apply_recompute_rules(Reading& reading, Job& job) {
  RecomputeConfig& recompute = job.recompute;
  check_model_has_it(reading, job);
  check_scope_layers(recompute.saved, job.model.num_layers + job.model.num_nextn_predict_layers, reading);
  check_counts("recompute.num_layers", recompute.stage_layers, reading, job);
  for (std::size_t m = 0; m < recompute.module_layers.size(); ++m)
    check_counts("recompute.module_layers." + recompute.modules[m], recompute.module_layers[m], reading, job);
  if (recompute.granularity != RecomputeGranularity::automatic) return;
  if (job.parallelism.pipeline_schedule == "auto")
    reading.problem("recompute.granularity",
                    "auto together with pipeline_schedule: auto is not supported yet", "name a schedule.");
  if (GpuKinds(job.cluster).count() > 1)
    return reading.problem("recompute.granularity",
                           fmt::format("auto is not supported on {} yet", gpus_text(job.cluster)),
                           "write none, selective or full.");
  apply_memory_limit(reading, job);
}

}  // namespace simrun
