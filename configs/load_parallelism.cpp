// The parallelism section. What it must agree on with the other sections is in configs/job_rules.cpp.
#include <fmt/format.h>

#include "configs/limits.h"
#include "configs/load_sections.h"

namespace simrun {
namespace {

// The first pipeline rank's size stands for the job's where one of all is meant.
void take_first(Reading& reading, const std::string& path, const char* list, std::int64_t first,
                std::int64_t& size) {
  if (reading.positions.contains(path) && size != 0 && size != first)
    return reading.problem(path, fmt::format("{} is {} here, but {} begins with {}", path, size, list, first),
                           "leave it out beside the list.");
  size = first;
  reading.record(path, fmt::format("{}", first), fmt::format("first of {}", list));
}

void read_stage_sizes(SectionReader& section, Reading& reading, Parallelism& parallelism) {
  constexpr const char* tensor = "stage_tensor_model_parallel_sizes";
  constexpr const char* data = "stage_data_parallel_sizes";
  if (section.has(tensor))
    parallelism.stage_tensor_sizes = section.integer_list(tensor, limits::parallel, {});
  if (section.has(data)) parallelism.stage_data_sizes = section.integer_list(data, limits::parallel, {});
  constexpr const char* chunks = "stage_broadcast_chunks";
  if (section.has(chunks)) {
    parallelism.stage_broadcast_chunks = section.integer(chunks, limits::broadcast_chunks);
    if (!section.has(tensor) && !section.has(data))
      reading.problem("parallelism.stage_broadcast_chunks", "nothing is broadcast between stages of one size",
                      fmt::format("leave it out, or give {} or {}.", tensor, data));
  }
  section.ignore({tensor, data, chunks});
  if (!parallelism.stage_tensor_sizes.empty())
    take_first(reading, "parallelism.tensor_model_parallel_size", tensor,
               parallelism.stage_tensor_sizes.front(), parallelism.tensor_model_parallel_size);
}

}  // namespace

std::string read_parallelism(const ConfigNode* node, Reading& reading, Job& job) {
  Parallelism& parallelism = job.parallelism;
  SectionReader section(reading, node, "parallelism");
  parallelism.tensor_model_parallel_size = section.integer("tensor_model_parallel_size", limits::parallel, 1);
  read_stage_sizes(section, reading, parallelism);
  parallelism.context_parallel_size = section.integer("context_parallel_size", limits::parallel, 1);
  read_context_parallel(section, reading, parallelism);
  parallelism.pipeline_model_parallel_size =
      section.integer("pipeline_model_parallel_size", limits::parallel, 1);
  parallelism.virtual_pipeline_model_parallel_size =
      section.integer("virtual_pipeline_model_parallel_size", limits::layers, 1);
  parallelism.expert_model_parallel_size = section.integer("expert_model_parallel_size", limits::parallel, 1);
  const bool has_experts = job.model.experts.count > 0;
  if (has_experts || section.has("expert_tensor_parallel_size"))
    parallelism.expert_tensor_parallel_size =
        section.integer("expert_tensor_parallel_size", limits::parallel,
                        has_experts ? parallelism.tensor_model_parallel_size : 1);
  section.ignore({"expert_tensor_parallel_size"});
  // Derived, so that the section keeps its place in the effective config; what is written is checked against
  // it.
  parallelism.data_parallel_size = 0;
  if (section.has("data_parallel_size"))
    parallelism.data_parallel_size = section.integer("data_parallel_size", limits::parallel);
  else
    reading.record("parallelism.data_parallel_size", "", "derived");
  section.ignore({"data_parallel_size"});

  parallelism.sequence_parallel = section.boolean("sequence_parallel", false);
  if (parallelism.sequence_parallel && parallelism.largest_tensor_size() == 1) {
    parallelism.sequence_parallel = false;  // as Megatron-LM does
    if (const std::optional<EffectiveValue> written = reading.take("parallelism.sequence_parallel"))
      reading.record(written->path, "false",
                     written->origin + ", off because tensor_model_parallel_size is 1");
  }
  read_schedule(section, reading, parallelism);
  read_rank_order(section, reading, parallelism);
  std::string layout = section.text("pipeline_model_parallel_layout");
  section.finish();
  return layout;
}

}  // namespace simrun
