#include "schedules/plan_frame.h"

#include "models/flops.h"

namespace simrun {

std::vector<Stream> make_streams(bool lends_memory) {
  std::vector<Stream> streams = {{"compute", StreamDevice::gpu, Traffic::compute},
                                 {"tp", StreamDevice::gpu, Traffic::tensor},
                                 {"cp", StreamDevice::gpu, Traffic::context},
                                 {"dp", StreamDevice::gpu, Traffic::data},
                                 {"pp_forward_in", StreamDevice::gpu, Traffic::pipeline},
                                 {"pp_forward_out", StreamDevice::gpu, Traffic::pipeline},
                                 {"pp_backward_in", StreamDevice::gpu, Traffic::pipeline},
                                 {"pp_backward_out", StreamDevice::gpu, Traffic::pipeline}};
  if (lends_memory)
    for (const char* name : {"pp_lent_in", "pp_lent_out"})
      streams.push_back({name, StreamDevice::gpu, Traffic::pipeline});
  return streams;
}

std::vector<StageDevices> make_stages(const Parallelism& parallelism) {
  const Mesh dense{"dense",
                   {{"tp", parallelism.tensor_model_parallel_size},
                    {"cp", parallelism.context_parallel_size},
                    {"dp", parallelism.data_parallel_size}}};
  const std::int64_t per_stage = parallelism.tensor_model_parallel_size * parallelism.context_parallel_size *
                                 parallelism.data_parallel_size;
  std::vector<StageDevices> stages;
  for (std::int64_t rank = 0; rank < parallelism.pipeline_model_parallel_size; ++rank)
    stages.push_back({{{rank * per_stage, per_stage}}, {dense}});
  return stages;
}

JobFacts make_facts(const Job& job, const Graph& graph) {
  const Parallelism& parallelism = job.parallelism;
  JobFacts facts;
  facts.name = job.name;
  facts.config_sha256 = job.config_sha256;
  facts.model_type = job.model.model_type;
  facts.schedule = parallelism.pipeline_schedule;
  facts.tensor_parallel = parallelism.tensor_model_parallel_size;
  facts.context_parallel = parallelism.context_parallel_size;
  facts.pipeline_parallel = parallelism.pipeline_model_parallel_size;
  facts.virtual_pipeline = parallelism.virtual_pipeline_model_parallel_size;
  facts.expert_parallel = parallelism.expert_model_parallel_size;
  facts.data_parallel = parallelism.data_parallel_size;
  facts.microbatches = job.microbatches();
  facts.micro_batch_size = job.training.micro_batch_size;
  facts.seq_length = job.training.seq_length;
  facts.tokens_per_step = job.training.global_batch_size * job.training.seq_length;
  facts.parameters = count_parameters(graph);
  facts.frozen_parameters = facts.parameters - count_trained_parameters(graph);
  // The graph's batch is one microbatch over all data-parallel ranks.
  facts.model_flops_per_step = model_flops(graph) * static_cast<double>(facts.microbatches);
  facts.precision = job.training.precision;
  return facts;
}

}  // namespace simrun
