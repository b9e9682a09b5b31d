#include "models/expert_scope.h"

#include <algorithm>
#include <cmath>

namespace simrun {

ExpertRowCount expert_row_count(const Job& job, double copies) {
  const Parallelism& parallelism = job.parallelism;
  const std::int64_t tokens =
      job.training.micro_batch_size * parallelism.data_parallel_size * job.training.seq_length;
  const double mean = static_cast<double>(tokens) * copies / static_cast<double>(job.model.experts.count);
  const std::int64_t expected = std::llround(std::ceil(mean));
  if (job.moe.scope && job.moe.capacity_factor > 0)
    return {expected, job.moe.scope->sequence_parts * job.moe.scope->rows};
  const double factor = job.moe.capacity_factor > 0 ? job.moe.capacity_factor : 1;
  const std::int64_t ranks = parallelism.tensor_model_parallel_size * parallelism.context_parallel_size *
                             parallelism.data_parallel_size;
  const std::int64_t rows = std::llround(std::ceil(mean * factor));
  return {expected, (rows + ranks - 1) / ranks * ranks};
}

std::int64_t mask_places(const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  const std::int64_t parts = parallelism.context_parallel_size *
                             (parallelism.sequence_parallel ? parallelism.tensor_model_parallel_size : 1);
  const std::int64_t tokens =
      std::max<std::int64_t>(job.training.micro_batch_size * job.training.seq_length / parts, 1);
  const std::int64_t group = job.moe.group_size > 0 ? std::min(job.moe.group_size, tokens) : tokens;
  return std::llround(
      std::ceil(static_cast<double>(group * job.model.experts.topk) * job.moe.capacity_factor));
}

ExpertScope expert_scope(const Job& job) {
  if (job.moe.scope) return *job.moe.scope;
  const Parallelism& parallelism = job.parallelism;
  ExpertScope scope;
  scope.sequence_parts = parallelism.context_parallel_size *
                         (parallelism.sequence_parallel ? parallelism.tensor_model_parallel_size : 1);
  if (parallelism.context_parallel_layout == ContextLayout::zigzag)
    scope.zigzag_ranks =
        parallelism.context_parallel_size / std::max<std::int64_t>(parallelism.context_a2a_size, 1);
  const auto rows_of = [&](const Job& of) {
    return expert_row_count(of, static_cast<double>(of.model.experts.topk)).planned /
           (parallelism.data_parallel_size * scope.sequence_parts);
  };
  scope.rows = rows_of(job);
  if (job.training.decoder_seq_length > 0) {
    Job of_targets = job;
    of_targets.training.seq_length = job.training.decoder_seq_length;
    scope.decoder_rows = rows_of(of_targets);
  }
  return scope;
}

}  // namespace simrun
