// The parallelism section. What it must agree on with the other sections is in configs/job_rules.cpp.
#include <fmt/format.h>

#include <map>

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

// How many virtual stages a rank has under each schedule: one, several, or the two of a V.
enum class Chunks : std::uint8_t { one, several, two };
const std::map<std::string, Chunks> chunks_of_schedule = {{"gpipe", Chunks::one},
                                                          {"1f1b", Chunks::one},
                                                          {"zb_h1", Chunks::one},
                                                          {"zb_h2", Chunks::one},
                                                          {"zb_auto", Chunks::one},
                                                          {"interleaved_1f1b", Chunks::several},
                                                          {"looped_bfs", Chunks::several},
                                                          {"hanayo", Chunks::several},
                                                          {"interleaved_zb", Chunks::several},
                                                          {"zb_v", Chunks::two},
                                                          {"v_half", Chunks::two},
                                                          {"v_min", Chunks::two},
                                                          {"v_auto", Chunks::two},
                                                          {"dualpipe", Chunks::one},
                                                          {"dualpipe_v", Chunks::two},
                                                          {"chimera", Chunks::one},
                                                          {"interleaved_1f1b_overlap", Chunks::several},
                                                          {"bpipe", Chunks::one}};
const std::map<std::string, std::string> schedule_aliases = {
    {"afab", "gpipe"}, {"zb1p", "zb_h1"},           {"zb2p", "zb_h2"},
    {"zbv", "zb_v"},   {"dualpipev", "dualpipe_v"}, {"interleaved", "interleaved_1f1b"}};

std::string read_schedule(SectionReader& section, Reading& reading, const Parallelism& parallelism) {
  const bool has_chunks = parallelism.virtual_pipeline_model_parallel_size > 1;
  WordRule rule;
  for (const auto& [name, chunks] : chunks_of_schedule) rule.accepted.push_back(name);
  for (const auto& [alias, name] : schedule_aliases) rule.accepted.push_back(alias);
  rule.not_yet = {"seq1f1b", "pipedream", "async_1f1b", "zero_bubble", "auto", ".csv"};
  std::string schedule = section.word("pipeline_schedule", rule, has_chunks ? "interleaved_1f1b" : "1f1b");
  const auto alias = schedule_aliases.find(schedule);
  if (alias == schedule_aliases.end()) return schedule;
  if (const std::optional<EffectiveValue> written = reading.take(section.path_of("pipeline_schedule")))
    reading.record(written->path, alias->second, written->origin);
  return alias->second;
}

void check_schedule(Reading& reading, const Parallelism& parallelism) {
  const std::int64_t chunks = parallelism.virtual_pipeline_model_parallel_size;
  const std::string& schedule = parallelism.pipeline_schedule;
  const auto rule = chunks_of_schedule.find(schedule);
  if (rule == chunks_of_schedule.end() || chunks == 0 || parallelism.pipeline_model_parallel_size == 0)
    return;
  const auto refuse = [&](const std::string& message, const std::string& hint = "") {
    reading.problem("parallelism.pipeline_schedule", message, hint);
  };
  if (rule->second == Chunks::one && chunks > 1)
    refuse(fmt::format("{} has one chunk per rank, but virtual_pipeline_model_parallel_size is {}", schedule,
                       chunks),
           "interleaved_1f1b runs several chunks per rank.");
  if (rule->second == Chunks::two && chunks != 2)
    refuse(fmt::format("{} has two chunks per rank, but virtual_pipeline_model_parallel_size is {}", schedule,
                       chunks),
           "virtual_pipeline_model_parallel_size: 2.");
  if (schedule != "interleaved_1f1b") return;
  if (parallelism.pipeline_model_parallel_size < 2)
    refuse("interleaved_1f1b needs pipeline_model_parallel_size 2 or more");
  if (chunks < 2)
    refuse("interleaved_1f1b needs virtual_pipeline_model_parallel_size 2 or more",
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
