#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// The parallelism section of a job as plain values.
namespace simrun {

// One virtual stage of a pipeline layout: what it holds, in order.
struct StageContent {
  bool embedding = false;
  std::int64_t layers = 0;
  bool loss = false;  // final norm, LM head and cross entropy
  bool operator==(const StageContent&) const = default;
};

// A pipeline schedule in a file: PyTorch's CSV, read and checked by schedules/job_schedule.h. Equal if the
// text is.
struct ScheduleText {
  std::string path;  // as the loader found it, for messages
  std::string text;
  bool operator==(const ScheduleText& other) const { return text == other.text; }
};

struct Parallelism {
  std::int64_t tensor_model_parallel_size = 1;
  std::int64_t context_parallel_size = 1;
  std::int64_t pipeline_model_parallel_size = 1;
  std::int64_t virtual_pipeline_model_parallel_size = 1;  // chunks per pipeline rank
  std::int64_t expert_model_parallel_size = 1;
  std::int64_t expert_tensor_parallel_size = 1;  // of experts; default: the tensor size
  std::int64_t data_parallel_size = 1;           // derived: cluster GPUs / (tp cp pp)
  bool sequence_parallel = false;
  std::string pipeline_schedule;  // canonical name, never an alias; auto; or the name of schedule_csv's file
  std::optional<ScheduleText> schedule_csv;             // pipeline_schedule: path.csv
  std::int64_t microbatch_group_size_per_vp_stage = 0;  // interleaved only; default = pipeline size
  // (stage, microbatch) activations that a rank may hold, of the schedules that plan within a limit; 0: none
  // written, what fits the GPU (auto).
  std::int64_t pipeline_memory_limit = 0;
  // Size pipeline x virtual, in model order: entry s is global (virtual) stage s, on pipeline rank s %
  // pipeline size.
  std::vector<StageContent> stages;
  bool operator==(const Parallelism&) const = default;
};

}  // namespace simrun
