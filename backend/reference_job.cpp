#include "backend/reference_job.h"

#include <stdexcept>

#include "backend/microbatch_parts.h"
#include "models/expert_scope.h"

namespace simrun {
namespace {

// All virtual stages as one.
StageContent whole_model(const std::vector<StageContent>& stages) {
  StageContent whole;
  for (const StageContent& stage : stages) {
    whole.embedding |= stage.embedding;
    whole.layers += stage.layers;
    whole.loss |= stage.loss;
    whole.mtp_layers += stage.mtp_layers;
  }
  return whole;
}

// As a layout of one's own cuts the microbatch: what shares its samples is a microbatch of the one rank.
void cut_as(const MicrobatchParts& parts, const Job& job, Job& alone) {
  const std::int64_t replicas = job.parallelism.data_parallel_size;
  const std::int64_t batch_parts = parts.batch.value_or(replicas);
  alone.training.micro_batch_size = job.training.micro_batch_size * replicas / batch_parts;
  if (!alone.moe.scope) return;
  ExpertScope& scope = *alone.moe.scope;
  const std::int64_t sequence_parts = parts.sequence.value_or(scope.sequence_parts);
  for (std::int64_t* rows : {&scope.rows, &scope.decoder_rows})
    *rows = *rows * replicas * scope.sequence_parts / (batch_parts * sequence_parts);
  if (parts.sequence && !parts.is_zigzag) scope.zigzag_ranks = 1;
  scope.sequence_parts = sequence_parts;
}

}  // namespace

Job reference_job(const Job& job) {
  if (!job.training.replica_micro_batch_sizes.empty() && family_as<ResNetConfig>(job.model.family) != nullptr)
    throw std::invalid_argument(
        "batch norm takes its statistics of the samples of a rank: with replicas of unlike size no single "
        "rank computes the same");
  Job alone = job;
  alone.parallelism = Parallelism{};
  alone.parallelism.pipeline_schedule = "1f1b";
  alone.training.replica_micro_batch_sizes.clear();
  alone.parallelism.microbatch_group_size_per_vp_stage = 1;
  alone.parallelism.stages = {whole_model(job.parallelism.stages)};
  alone.optimizer.zero_stage = 0;
  alone.optimizer.zero_3_layers.clear();
  alone.optimizer.overlap_grad_reduce = false;
  alone.optimizer.overlap_param_gather = false;
  alone.optimizer.no_sync = false;
  alone.optimizer.num_distributed_optimizer_instances = 1;
  alone.optimizer.all_reduce = AllReduceKind::flat;
  alone.optimizer.parameter_server.reset();
  alone.recompute = RecomputeConfig{};
  alone.training.fp8.reset();  // what is run is not rounded to it
  alone.offload = Offload{};
  alone.layout = LayoutConfig{};
  if (job.model.experts.count > 0) alone.moe.scope = expert_scope(job);
  if (const std::optional<MicrobatchParts> parts = microbatch_parts(job)) cut_as(*parts, job, alone);
  alone.cluster.node_groups.clear();
  alone.cluster.nodes = 1;
  alone.cluster.gpus_per_node = 1;
  alone.cluster.nics_per_node = 1;
  alone.cluster.fabric = Fabric{};
  alone.cluster.imperfections = Imperfections{};
  return alone;
}

}  // namespace simrun
