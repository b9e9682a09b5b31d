#pragma once

#include <string>
#include <vector>

#include "schedules/pipeline_schedule.h"

namespace simrun {

// The k-th pass of a rank under an interleaved schedule, of n = microbatches x virtual_stages.
struct VirtualMicrobatch {
  std::int32_t chunk = 0;  // for a forward; a backward counts the chunks from the end
  std::int32_t microbatch = 0;
};

// Groups of `group` microbatches (the last may be short), in each group chunk after chunk, in each chunk the
// group's microbatches. The same for every rank. Megatron-LM's get_schedule_table.
std::vector<VirtualMicrobatch> virtual_microbatches(const PipelineShape& shape, int group);

Op forward_of(const PipelineShape& shape, int rank, VirtualMicrobatch pass);
// kind: backward or backward_input.
Op backward_of(const PipelineShape& shape, int rank, VirtualMicrobatch pass, OpKind kind);

// The shape's group size; if 0, PyTorch's default m / max(1, m / ranks) (integer division), which is
// Megatron-LM's default `ranks` wherever that one is accepted (m a multiple of `ranks`).
int group_size_of(const PipelineShape& shape);

// The first rule that the groups break, or "".
//   no group size given   PyTorch: m is a multiple of max(1, m / ranks) (integer division)
//   a group size g given  Megatron-LM: ranks <= g <= m, and the last group is full or holds at least `ranks`;
//                         or g is PyTorch's default
//
// Sources: Megatron-LM core/pipeline_parallel/schedules.py forward_backward_pipelining_with_interleaving;
// PyTorch torch/distributed/pipelining/schedules.py ScheduleInterleaved1F1B.
std::string group_rule(const PipelineShape& shape);

// Megatron-LM's rule alone, for a group size given or not.
std::string megatron_group_rule(const PipelineShape& shape);

}  // namespace simrun
