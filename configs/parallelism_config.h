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
  bool loss = false;            // final norm, LM head and cross entropy
  std::int64_t mtp_layers = 0;  // further layers of multi-token prediction
  bool operator==(const StageContent&) const = default;
};

inline std::int64_t layers_in(const std::vector<StageContent>& stages) {
  std::int64_t layers = 0;
  for (const StageContent& stage : stages) layers += stage.layers;
  return layers;
}

// A pipeline schedule in a file: PyTorch's CSV, read and checked by schedules/job_schedule.h. Equal if the
// text is.
struct ScheduleText {
  std::string path;  // as the loader found it, for messages
  std::string text;
  bool operator==(const ScheduleText& other) const { return text == other.text; }
};

// How the ranks of a context-parallel group, which hold parts of each sequence, attend to the whole of it.
// Megatron-LM's cp_comm_type.
enum class ContextExchange : std::uint8_t {
  p2p,         // keys and values travel around a ring (Liu et al. 2023, arXiv 2310.01889)
  all_gather,  // keys and values are gathered (Llama 3, arXiv 2407.21783, section 3.3.2)
  a2a,         // sequence is exchanged for heads (DeepSpeed-Ulysses, arXiv 2309.14509)
  a2a_p2p,     // a2a among neighbours, rings over these groups (USP, arXiv 2405.07719)
};
// Which part of n ranks' sequence rank r holds: of 2 n blocks r and 2 n - 1 - r, or block r of n.
enum class ContextLayout : std::uint8_t { zigzag, contiguous };

struct Parallelism {
  std::int64_t tensor_model_parallel_size = 1;
  std::int64_t context_parallel_size = 1;
  ContextExchange cp_comm_type = ContextExchange::p2p;
  ContextLayout context_parallel_layout = ContextLayout::zigzag;
  std::int64_t context_a2a_size = 1;  // ranks that exchange heads: all with a2a, the inner ones with a2a+p2p
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
  // Which device runs which rank, see schedules/rank_placement.h: an order of axes, or the rank of every
  // device. A rank's number is by Megatron-LM's order, whatever this says.
  std::string rank_order = "tp-cp-ep-dp-pp";
  std::vector<std::int64_t> rank_map = {};
  // By pipeline rank, where they are not all alike (both or none; the sizes above are then the first's): the
  // GPUs of a stage are its tensor x its data size.
  std::vector<std::int64_t> stage_tensor_sizes = {}, stage_data_sizes = {};
  // What is broadcast behind the border of unlike stages goes over it in as many chunks; 0: by the links.
  std::int64_t stage_broadcast_chunks = 0;
  bool has_unlike_stages() const { return !stage_tensor_sizes.empty(); }
  std::int64_t largest_tensor_size() const {
    std::int64_t largest = tensor_model_parallel_size;
    for (const std::int64_t size : stage_tensor_sizes) largest = size > largest ? size : largest;
    return largest;
  }
  bool operator==(const Parallelism&) const = default;
};

}  // namespace simrun
