#include "validation/row_defaults.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "configs/pipeline_layout.h"

namespace simrun {
namespace {

std::int64_t size_in(const RowJob& made, Column column) {
  return std::max<std::int64_t>(made.row.integer(column).value_or(1), 1);
}

void assume(RowJob& made, Column column, std::int64_t value) {
  assume(made, column, fmt::format("{}", value));
}

// Tensor parallelism of the experts is that of the rest unless the job says otherwise (Megatron-LM's
// --expert-tensor-parallel-size).
std::int64_t expert_tensor_ranks(const RowJob& made) {
  const std::string stated = made.job.value("parallelism.expert_tensor_parallel_size");
  return stated.empty() ? size_in(made, Column::tp) : std::max<std::int64_t>(std::atoll(stated.c_str()), 1);
}

void fill_in_gpus(RowJob& made) {
  const std::int64_t split =
      size_in(made, Column::tp) * size_in(made, Column::pp) * size_in(made, Column::cp);
  const std::int64_t expert_split =
      size_in(made, Column::ep) * expert_tensor_ranks(made) * size_in(made, Column::pp);
  if (const auto dp = made.row.integer(Column::dp))
    assume(made, Column::n_gpus, split * *dp);
  else
    assume(made, Column::n_gpus, std::lcm(split, expert_split));
  const std::int64_t gpus = size_in(made, Column::n_gpus);
  if (gpus % split == 0) assume(made, Column::dp, gpus / split);
}

void fill_in_batch(RowJob& made) {
  assume(made, Column::seq_len, 2048);
  const std::int64_t data = size_in(made, Column::dp), stages = size_in(made, Column::pp);
  const std::int64_t passes = stages > 1 ? 4 * stages : 1;
  if (made.row[Column::micro_batch].empty() && !made.row[Column::global_batch].empty()) {
    // The largest of 1, 2, 4, 8 cannot be known; one sequence is the usual start.
    assume(made, Column::micro_batch, 1);
  }
  assume(made, Column::micro_batch, 1);
  assume(made, Column::global_batch, size_in(made, Column::micro_batch) * data * passes);
}

// Of 128 elements (64 below a width of 2,048), or as near to that as divides the width and is divisible by
// the tensor-parallel ranks and by the key-value heads.
std::int64_t usual_heads(std::int64_t hidden, std::int64_t tensor_parallel, std::int64_t kv_heads) {
  const std::int64_t wanted = std::max<std::int64_t>(1, hidden / (hidden < 2048 ? 64 : 128));
  const auto fits = [&](std::int64_t heads) {
    return hidden % heads == 0 && heads % tensor_parallel == 0 && heads % kv_heads == 0;
  };
  for (std::int64_t away = 0; away < wanted; ++away) {
    if (fits(wanted - away)) return wanted - away;
    if (fits(wanted + away)) return wanted + away;
  }
  return wanted;
}

void fill_in_model(RowJob& made) {
  if (made.job.has("model.from")) return;
  const auto hidden = made.row.integer(Column::hidden);
  if (!hidden) return;
  assume(made, Column::heads,
         usual_heads(*hidden, size_in(made, Column::tp), size_in(made, Column::kv_heads)));
  if (made.row[Column::kv_heads].empty()) made.row[Column::kv_heads] = made.row[Column::heads];
  if (!made.row[Column::n_experts].empty()) assume(made, Column::topk, 2);
  assume(made, Column::vocab, 51200);
}

// Per rank. Where the row has a layout, as many as its stages make; of an interleaved schedule with no number
// of them one layer in each, the usual value of Megatron-LM's --num-layers-per-virtual-pipeline-stage. Zero
// Bubble's models have a layer less on the first and last stage.
std::int64_t virtual_stages(const RowJob& made) {
  if (const auto layout = made.facts.find("stage_layout"); layout != made.facts.end()) {
    const auto stages = static_cast<std::int64_t>(parse_pipeline_layout(layout->second).stages.size());
    return std::max<std::int64_t>(stages / size_in(made, Column::pp), 1);
  }
  const std::string& schedule = made.row[Column::schedule];
  const std::int64_t layers = size_in(made, Column::layers), ranks = size_in(made, Column::pp);
  const bool is_interleaved = schedule.ends_with("-interleaved") || schedule.starts_with("interleaved");
  if (!is_interleaved) return 1;
  return layers % ranks == 0 ? layers / ranks : (layers + 2) % ranks == 0 ? (layers + 2) / ranks : 1;
}

}  // namespace

void assume(RowJob& made, Column column, const std::string& value) {
  std::string& cell = made.row[column];
  if (!cell.empty() && cell != "?") return;
  cell = value;
  made.assumed.push_back(fmt::format("{}={}", column_names()[static_cast<std::size_t>(column)], value));
}

void fill_in_defaults(RowJob& made) {
  for (const Column size : {Column::tp, Column::pp, Column::cp}) assume(made, size, 1);
  if (!made.row[Column::n_experts].empty()) assume(made, Column::ep, 1);
  fill_in_gpus(made);
  fill_in_batch(made);
  fill_in_model(made);
  assume(made, Column::gpus_per_node, 8);
  assume(made, Column::precision, "bf16");
  assume(made, Column::zero_stage, "1");
  assume(made, Column::recompute, "none");
  assume(made, Column::flash_attention, "1");
  if (size_in(made, Column::tp) > 1) assume(made, Column::sp, 0);
  if (size_in(made, Column::pp) > 1) {
    assume(made, Column::vpp, virtual_stages(made));
    if (made.row[Column::schedule].empty())
      assume(made, Column::schedule, size_in(made, Column::vpp) > 1 ? "interleaved-1f1b" : "1f1b");
  }
}

}  // namespace simrun
