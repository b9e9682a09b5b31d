#include "models/expert_scope.h"

#include <algorithm>
#include <cmath>

namespace simrun {
namespace {

std::int64_t sequence_parts(const Parallelism& parallelism) {
  return parallelism.context_parallel_size *
         (parallelism.sequence_parallel ? parallelism.tensor_model_parallel_size : 1);
}

// Whose experts' capacity is counted together.
std::int64_t tokens_of_rank(const Job& job) {
  const std::int64_t parts = job.moe.scope ? job.moe.scope->sequence_parts : sequence_parts(job.parallelism);
  return std::max<std::int64_t>(job.training.micro_batch_size * job.training.seq_length / parts, 1);
}

}  // namespace

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
  std::int64_t rows = std::llround(std::ceil(mean * factor));
  if (job.moe.token_dispatcher == TokenDispatcher::einsum) {
    const std::int64_t of_rank = tokens_of_rank(job), rank_groups = tokens / of_rank;
    const MaskGroup group = mask_group(job);
    rows = rank_groups * ((of_rank + group.tokens - 1) / group.tokens) * group.rows;
  }
  return {expected, (rows + ranks - 1) / ranks * ranks};
}

MaskGroup mask_group(const Job& job) {
  MaskGroup group;
  const std::int64_t of_scope = job.moe.scope ? job.moe.scope->group_tokens : 0;
  const std::int64_t asked = of_scope > 0 ? of_scope : job.moe.group_size, tokens = tokens_of_rank(job);
  group.tokens = asked > 0 ? std::min(tokens, asked) : tokens;
  const double choices = static_cast<double>(group.tokens * job.model.experts.topk) * job.moe.capacity_factor;
  group.rows = std::llround(std::ceil(choices / static_cast<double>(job.model.experts.count)));
  return group;
}

ExpertScope expert_scope(const Job& job) {
  if (job.moe.scope) return *job.moe.scope;
  const Parallelism& parallelism = job.parallelism;
  ExpertScope scope;
  scope.sequence_parts = sequence_parts(parallelism);
  if (parallelism.context_parallel_layout == ContextLayout::zigzag)
    scope.zigzag_ranks =
        parallelism.context_parallel_size / std::max<std::int64_t>(parallelism.context_a2a_size, 1);
  const auto rows_of = [&](const Job& of) {
    return expert_row_count(of, static_cast<double>(of.model.experts.topk)).planned /
           (parallelism.data_parallel_size * scope.sequence_parts);
  };
  const bool has_masks = job.moe.token_dispatcher == TokenDispatcher::einsum;
  scope.rows = rows_of(job);
  if (has_masks) scope.group_tokens = mask_group(job).tokens;
  if (job.training.decoder_seq_length > 0) {
    Job of_targets = job;
    of_targets.training.seq_length = job.training.decoder_seq_length;
    scope.decoder_rows = rows_of(of_targets);
    if (has_masks) scope.decoder_group_tokens = mask_group(of_targets).tokens;
  }
  return scope;
}

}  // namespace simrun
