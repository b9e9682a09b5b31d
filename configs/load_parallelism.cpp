// The parallelism section. What it must agree on with the other sections is in configs/job_rules.cpp.
#include <fmt/format.h>

#include "configs/limits.h"
#include "configs/load_sections.h"

namespace simrun {
std::string read_parallelism(const ConfigNode* node, Reading& reading, Job& job) {
  Parallelism& parallelism = job.parallelism;
  SectionReader section(reading, node, "parallelism");
  parallelism.tensor_model_parallel_size = section.integer("tensor_model_parallel_size", limits::parallel, 1);
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
  if (parallelism.sequence_parallel && parallelism.tensor_model_parallel_size == 1) {
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
