// The keys of the parallelism section that choose its pipeline schedule.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <set>

#include "configs/limits.h"
#include "configs/load_sections.h"
#include "configs/text_file.h"

namespace simrun {
namespace {

namespace fs = std::filesystem;

constexpr const char* schedule_path = "parallelism.pipeline_schedule";
constexpr const char* limit_path = "parallelism.pipeline_memory_limit";
constexpr std::size_t largest_csv = std::size_t{1} << 25;  // more than limits::passes ops

// How many virtual stages a rank has under each schedule: one, the two of a V, or any number.
enum class Chunks : std::uint8_t { one, two, any };
const std::map<std::string, Chunks> chunks_of_schedule = {{"gpipe", Chunks::one},
                                                          {"1f1b", Chunks::one},
                                                          {"zb_h1", Chunks::one},
                                                          {"zb_h2", Chunks::one},
                                                          {"zb_auto", Chunks::one},
                                                          {"interleaved_1f1b", Chunks::any},
                                                          {"looped_bfs", Chunks::any},
                                                          {"hanayo", Chunks::any},
                                                          {"interleaved_zb", Chunks::any},
                                                          {"zb_v", Chunks::two},
                                                          {"v_half", Chunks::two},
                                                          {"v_min", Chunks::two},
                                                          {"v_auto", Chunks::two},
                                                          {"dualpipe", Chunks::one},
                                                          {"dualpipe_v", Chunks::two},
                                                          {"chimera", Chunks::one},
                                                          {"interleaved_1f1b_overlap", Chunks::any},
                                                          {"grouped_interleaved_1f1b", Chunks::any},
                                                          {"bpipe", Chunks::one},
                                                          {"auto", Chunks::any}};
// Schedules with groups of microbatches whose default size is not Megatron-LM's, the pipeline size.
const std::set<std::string> takes_groups = {"interleaved_1f1b_overlap", "interleaved_zb",
                                            "grouped_interleaved_1f1b"};
const std::map<std::string, std::string> schedule_aliases = {
    {"afab", "gpipe"}, {"zb1p", "zb_h1"},           {"zb2p", "zb_h2"},
    {"zbv", "zb_v"},   {"dualpipev", "dualpipe_v"}, {"interleaved", "interleaved_1f1b"}};

// Schedules that can be drawn, and the rule of plans that each breaks.
const std::map<std::string, std::string> drawn_only = {
    {"seq1f1b",
     "seq1f1b runs slices of a sequence, and the passes of a plan run whole sequences; simrun --schedule "
     "seq1f1b draws it"},
    {"pipedream",
     "pipedream updates the weights without a flush, and a plan's step ends with one update behind all "
     "microbatches; simrun --schedule pipedream draws it"}};

// Names in a job file are beside it; those of a command line may also be meant from the working directory.
fs::path csv_path(const std::string& written, const SourcePosition& position, const Reading& reading) {
  const fs::path beside = (fs::path(reading.file).parent_path() / written).lexically_normal();
  std::error_code error;
  const bool is_from_command_line = position.line == 0;
  return is_from_command_line && !fs::exists(beside, error) && fs::exists(written, error) ? fs::path(written)
                                                                                          : beside;
}

void read_csv(const std::string& written, Reading& reading, Parallelism& parallelism) {
  const fs::path path = csv_path(written, reading.position_of(schedule_path), reading);
  TextFile file = read_text_file(path.string(), largest_csv);
  if (!file.text)
    return reading.problem(schedule_path, fmt::format("cannot read '{}': {}", path.string(), file.reason));
  if (file.text->size() > largest_csv)
    return reading.problem(schedule_path, fmt::format("'{}' is larger than 32 MiB", path.string()));
  reading.files.push_back(path.string());
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);  // so that the effective config loads from anywhere
  if (const std::optional<EffectiveValue> value = reading.take(schedule_path))
    reading.record(value->path, yaml_quoted((error ? path : absolute).string()), value->origin);
  parallelism.pipeline_schedule = path.filename().string();
  parallelism.schedule_csv = ScheduleText{path.string(), std::move(*file.text)};
}

void read_name(SectionReader& section, Reading& reading, Parallelism& parallelism) {
  const bool has_chunks = parallelism.virtual_pipeline_model_parallel_size > 1;
  WordRule rule;
  for (const auto& [name, chunks] : chunks_of_schedule) rule.accepted.push_back(name);
  for (const auto& [alias, name] : schedule_aliases) rule.accepted.push_back(alias);
  rule.refused = drawn_only;
  rule.refused["async_1f1b"] = drawn_only.at("pipedream");
  rule.file_ending = ".csv";
  std::string schedule = section.word("pipeline_schedule", rule, has_chunks ? "interleaved_1f1b" : "1f1b");
  if (schedule.ends_with(rule.file_ending)) return read_csv(schedule, reading, parallelism);
  const auto alias = schedule_aliases.find(schedule);
  if (alias != schedule_aliases.end()) {
    if (const std::optional<EffectiveValue> written = reading.take(schedule_path))
      reading.record(written->path, alias->second, written->origin);
    schedule = alias->second;
  }
  parallelism.pipeline_schedule = schedule;
}

void check_chunks(Reading& reading, const Parallelism& parallelism) {
  const std::int64_t chunks = parallelism.virtual_pipeline_model_parallel_size;
  const std::string& schedule = parallelism.pipeline_schedule;
  const auto rule = chunks_of_schedule.find(schedule);
  if (rule == chunks_of_schedule.end() || chunks == 0 || parallelism.pipeline_model_parallel_size == 0)
    return;
  const auto refuse = [&](const std::string& message, const std::string& hint = "") {
    reading.problem(schedule_path, message, hint);
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
  const bool is_written = reading.positions.contains(schedule_path);
  if (parallelism.pipeline_model_parallel_size < 2 && is_written)
    refuse("interleaved_1f1b needs pipeline_model_parallel_size 2 or more",
           "1f1b runs on one pipeline rank.");
  else if (parallelism.pipeline_model_parallel_size < 2)
    reading.problem(
        "parallelism.virtual_pipeline_model_parallel_size",
        fmt::format("{} virtual stages per rank need pipeline_model_parallel_size 2 or more", chunks),
        "leave it out: without a pipeline a rank has all layers.");
  if (chunks < 2)
    refuse("interleaved_1f1b needs virtual_pipeline_model_parallel_size 2 or more",
           "1f1b runs one chunk per rank.");
}

void read_group_size(SectionReader& section, Reading& reading, Parallelism& parallelism) {
  constexpr const char* key = "microbatch_group_size_per_vp_stage";
  const std::string& schedule = parallelism.pipeline_schedule;
  if (schedule == "interleaved_1f1b")
    parallelism.microbatch_group_size_per_vp_stage =
        section.integer(key, limits::parallel, parallelism.pipeline_model_parallel_size);
  else if (section.has(key) && takes_groups.contains(schedule))
    parallelism.microbatch_group_size_per_vp_stage = section.integer(key, limits::parallel);
  else if (section.has(key)) {
    section.integer(key, limits::parallel);
    reading.problem(
        std::string("parallelism.") + key,
        fmt::format("{} has no groups of microbatches", schedule.empty() ? "this schedule" : schedule),
        "interleaved_1f1b and its kin do.");
  }
  section.ignore({key});
}

// zb_auto and v_auto have the default of their papers, auto what fits the GPU.
void read_memory_limit(SectionReader& section, Reading& reading, Parallelism& parallelism) {
  constexpr const char* key = "pipeline_memory_limit";
  const std::string& schedule = parallelism.pipeline_schedule;
  const bool has_default = schedule == "zb_auto" || schedule == "v_auto";
  section.ignore({key});
  if (!has_default && schedule != "auto") {
    if (!section.has(key) || schedule.empty()) return;
    section.integer(key, limits::activations);
    reading.problem(limit_path, fmt::format("{} keeps to no pipeline_memory_limit", schedule),
                    "zb_auto, v_auto and auto do.");
    return;
  }
  if (has_default)
    parallelism.pipeline_memory_limit =
        section.integer(key, limits::activations, 2 * parallelism.pipeline_model_parallel_size);
  else if (section.has(key))
    parallelism.pipeline_memory_limit = section.integer(key, limits::activations);
  const std::int64_t chunks = parallelism.virtual_pipeline_model_parallel_size;
  const std::int64_t limit = parallelism.pipeline_memory_limit;
  if (limit > 0 && limit < chunks)
    reading.problem(
        limit_path,
        fmt::format("a rank holds an activation of each of its {} stages at once: pipeline_memory_limit "
                    "must be at least {}, not {}",
                    chunks, chunks, limit));
}

}  // namespace

void read_schedule(SectionReader& section, Reading& reading, Parallelism& parallelism) {
  read_name(section, reading, parallelism);
  check_chunks(reading, parallelism);
  read_group_size(section, reading, parallelism);
  read_memory_limit(section, reading, parallelism);
}

}  // namespace simrun
