// The rules of configs/job_rules.h that are about pipeline stages.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "configs/job_rules.h"
#include "configs/limits.h"
#include "configs/pipeline_layout.h"

namespace simrun {
namespace {

constexpr const char* layout_path = "parallelism.pipeline_model_parallel_layout";

std::vector<StageContent> even_stages(std::int64_t layers, std::int64_t stages) {
  std::vector<StageContent> split(static_cast<std::size_t>(stages));
  for (StageContent& stage : split) stage.layers = layers / stages;
  split.front().embedding = true;
  split.back().loss = true;
  return split;
}

std::string split_hint(std::int64_t layers, std::int64_t stages) {
  const std::int64_t below = layers / stages * stages;
  return fmt::format(
      "{} and {} layers do, or give each stage its layers with pipeline_model_parallel_layout.", below,
      below + stages);
}

void report_layout(Reading& reading, const PipelineLayout& layout) {
  SourcePosition position = reading.position_of(layout_path);
  if (position.line > 0) position.column += layout.column - 1;
  reading.problems.push_back({position, layout.problem, layout.hint});
}

void read_layout(const std::string& text, std::int64_t stages, Reading& reading, Job& job) {
  const PipelineLayout layout = parse_pipeline_layout(text);
  if (!layout.problem.empty()) return report_layout(reading, layout);
  std::int64_t layers = 0;
  for (const StageContent& stage : layout.stages) layers += stage.layers;
  const Parallelism& parallelism = job.parallelism;
  if (static_cast<std::int64_t>(layout.stages.size()) != stages)
    reading.problem(layout_path, fmt::format("the layout has {} stages; pipeline {} x virtual {} needs {}",
                                             layout.stages.size(), parallelism.pipeline_model_parallel_size,
                                             parallelism.virtual_pipeline_model_parallel_size, stages));
  if (job.model.num_layers > 0 && layers != job.model.num_layers)
    reading.problem(layout_path, fmt::format("the layout has {} decoder layers; the model has {}", layers,
                                             job.model.num_layers));
  const std::int64_t further = layout.stages.back().mtp_layers;
  if (job.model.num_layers > 0 && further != job.model.num_nextn_predict_layers)
    reading.problem(layout_path,
                    fmt::format("the layout has {} layers of multi-token prediction ('m'); the model has {}",
                                further, job.model.num_nextn_predict_layers));
  job.parallelism.stages = layout.stages;
}

// Megatron-LM's condition on microbatches m in groups of g: every group is full or at least a pipeline long.
bool groups_work(std::int64_t microbatches, std::int64_t group, std::int64_t pipeline) {
  if (microbatches < group) return false;
  const std::int64_t rest = microbatches % group;
  return rest == 0 || rest >= pipeline;
}

// The nearest microbatch counts that work, as global batch sizes.
std::string group_hint(std::int64_t microbatches, std::int64_t group, std::int64_t pipeline,
                       std::int64_t step) {
  std::optional<std::int64_t> below;
  for (std::int64_t m = microbatches - 1; m >= group && m > microbatches - 2 * group && !below; --m)
    if (groups_work(m, group, pipeline)) below = m;
  std::int64_t above = std::max(microbatches + 1, group);
  while (!groups_work(above, group, pipeline)) ++above;  // at the latest the next multiple of the group
  if (!below) return fmt::format("{} microbatches do: global_batch_size {}.", above, above * step);
  return fmt::format("{} and {} microbatches do: global_batch_size {} or {}.", *below, above, *below * step,
                     above * step);
}

void check_groups(Reading& reading, const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  const Training& training = job.training;
  const std::int64_t group = parallelism.microbatch_group_size_per_vp_stage;
  const std::int64_t pipeline = parallelism.pipeline_model_parallel_size;
  if (parallelism.pipeline_schedule != "interleaved_1f1b" || group == 0 || pipeline == 0) return;
  if (group < pipeline)
    return reading.problem(
        "parallelism.microbatch_group_size_per_vp_stage",
        fmt::format("microbatch_group_size_per_vp_stage {} is below pipeline_model_parallel_size {}", group,
                    pipeline));
  if (parallelism.data_parallel_size == 0 || training.micro_batch_size == 0) return;
  const std::int64_t step = training.micro_batch_size * parallelism.data_parallel_size;
  if (training.global_batch_size == 0 || training.global_batch_size % step != 0) return;
  const std::int64_t microbatches = job.microbatches();
  if (microbatches > limits::microbatches || groups_work(microbatches, group, pipeline)) return;
  reading.problem(
      "training.global_batch_size",
      fmt::format("interleaved_1f1b runs groups of {} microbatches, the last one full or at least {} (the "
                  "pipeline size); {} microbatches do not split so",
                  group, pipeline, microbatches),
      group_hint(microbatches, group, pipeline, step));
}

}  // namespace

void apply_pipeline_rules(const std::string& layout, Reading& reading, Job& job) {
  const std::int64_t pipeline = job.parallelism.pipeline_model_parallel_size;
  const std::int64_t chunks = job.parallelism.virtual_pipeline_model_parallel_size;
  if (pipeline == 0 || chunks == 0) return;
  check_groups(reading, job);
  const std::int64_t stages = pipeline * chunks;  // at most 1e11
  const std::int64_t layers = job.model.num_layers;
  if (!layout.empty()) return read_layout(layout, stages, reading, job);
  if (layers == 0) return;
  const std::string shape =
      chunks > 1 ? fmt::format("pipeline {} x virtual {} = {} stages", pipeline, chunks, stages)
                 : fmt::format("pipeline {}", pipeline);
  const char* path = chunks > 1 ? "parallelism.virtual_pipeline_model_parallel_size"
                                : "parallelism.pipeline_model_parallel_size";
  if (stages > layers)
    return reading.problem(path, fmt::format("{} layers are fewer than {}", layers, shape));
  if (layers % stages != 0)
    return reading.problem(path, fmt::format("{} layers do not split into {}", layers, shape),
                           split_hint(layers, stages));
  job.parallelism.stages = even_stages(layers, stages);
  job.parallelism.stages.back().mtp_layers = job.model.num_nextn_predict_layers;
}

}  // namespace simrun
