// The parallelism section. What it must agree on with the other sections is in configs/job_rules.cpp.
#include <fmt/format.h>

#include "configs/limits.h"
#include "configs/load_sections.h"

namespace simrun {
namespace {

std::int64_t only_one_yet(SectionReader& section, Reading& reading, const std::string& key) {
  const std::int64_t size = section.integer(key, limits::parallel, 1);
  if (size > 1)
    reading.problem(section.path_of(key), fmt::format("{} {} is not supported yet", key, size), "1 is.");
  return 1;
}

std::string read_schedule(SectionReader& section, Reading& reading, const Parallelism& parallelism) {
  const bool has_chunks = parallelism.virtual_pipeline_model_parallel_size > 1;
  const WordRule rule = {
      {"gpipe", "1f1b", "interleaved_1f1b", "afab"},
      {"zb_h1", "zb_h2", "zb_v", "zbv", "zero_bubble", "interleaved_zb", "dualpipe", "dualpipe_v",
       "looped_bfs", "chimera", "hanayo", "pipedream", "async_1f1b", ".csv"}};
  std::string schedule = section.word("pipeline_schedule", rule, has_chunks ? "interleaved_1f1b" : "1f1b");
  if (schedule == "afab") {
    schedule = "gpipe";
    if (const std::optional<EffectiveValue> alias = reading.take(section.path_of("pipeline_schedule")))
      reading.record(alias->path, schedule, alias->origin);
  }
  return schedule;
}

void check_schedule(Reading& reading, const Parallelism& parallelism) {
  const std::int64_t chunks = parallelism.virtual_pipeline_model_parallel_size;
  const std::string& schedule = parallelism.pipeline_schedule;
  if (schedule.empty() || chunks == 0 || parallelism.pipeline_model_parallel_size == 0) return;
  if (schedule != "interleaved_1f1b") {
    if (chunks > 1)
      reading.problem("parallelism.pipeline_schedule",
                      fmt::format("{} has one chunk per rank, but virtual_pipeline_model_parallel_size is {}",
                                  schedule, chunks),
                      "interleaved_1f1b runs several chunks per rank.");
    return;
  }
  if (parallelism.pipeline_model_parallel_size < 2)
    reading.problem("parallelism.pipeline_schedule",
                    "interleaved_1f1b needs pipeline_model_parallel_size 2 or more");
  if (chunks < 2)
    reading.problem("parallelism.pipeline_schedule",
                    "interleaved_1f1b needs virtual_pipeline_model_parallel_size 2 or more",
                    "1f1b runs one chunk per rank.");
}

}  // namespace

std::string read_parallelism(const ConfigNode* node, Reading& reading, Job& job) {
  Parallelism& parallelism = job.parallelism;
  SectionReader section(reading, node, "parallelism");
  parallelism.tensor_model_parallel_size = section.integer("tensor_model_parallel_size", limits::parallel, 1);
  parallelism.context_parallel_size = only_one_yet(section, reading, "context_parallel_size");
  parallelism.pipeline_model_parallel_size =
      section.integer("pipeline_model_parallel_size", limits::parallel, 1);
  parallelism.virtual_pipeline_model_parallel_size =
      section.integer("virtual_pipeline_model_parallel_size", limits::layers, 1);
  parallelism.expert_model_parallel_size = only_one_yet(section, reading, "expert_model_parallel_size");
  if (section.has("expert_tensor_parallel_size"))
    only_one_yet(section, reading, "expert_tensor_parallel_size");
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
  parallelism.pipeline_schedule = read_schedule(section, reading, parallelism);
  check_schedule(reading, parallelism);
  if (parallelism.pipeline_schedule == "interleaved_1f1b")
    parallelism.microbatch_group_size_per_vp_stage = section.integer(
        "microbatch_group_size_per_vp_stage", limits::parallel, parallelism.pipeline_model_parallel_size);
  else if (section.has("microbatch_group_size_per_vp_stage"))
    reading.problem("parallelism.pipeline_schedule",
                    "microbatch_group_size_per_vp_stage means something only with interleaved_1f1b");
  section.ignore({"microbatch_group_size_per_vp_stage"});
  std::string layout = section.text("pipeline_model_parallel_layout");
  section.finish();
  return layout;
}

}  // namespace simrun
