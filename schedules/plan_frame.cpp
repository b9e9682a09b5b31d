#include "schedules/plan_frame.h"

#include <stdexcept>

#include "models/flops.h"
#include "schedules/rank_placement.h"
#include "schedules/unlike_stages.h"

namespace simrun {

bool lends_memory(const Job& job) { return job.parallelism.pipeline_schedule == "bpipe"; }

static bool has_expert_stream(const Job& job) {
  return job.parallelism.expert_model_parallel_size * job.parallelism.expert_tensor_parallel_size > 1;
}

// Delayed scaling of fp8: ranks tell one another the largest values that they have seen.
static bool has_scale_stream(const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  const std::int64_t ranks = parallelism.tensor_model_parallel_size * parallelism.context_parallel_size *
                             parallelism.data_parallel_size;
  return job.training.fp8 && job.training.fp8->recipe == Fp8Recipe::delayed && ranks > 1;
}

// Keys and values go around, in and out at a time.
static bool has_ring(const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  return parallelism.context_parallel_size > parallelism.context_a2a_size &&
         parallelism.cp_comm_type != ContextExchange::all_gather;
}

std::vector<Stream> make_streams(const Job& job) {
  std::vector<Stream> streams = {{"compute", StreamDevice::gpu, Traffic::compute},
                                 {"tp", StreamDevice::gpu, Traffic::tensor},
                                 {"cp", StreamDevice::gpu, Traffic::context},
                                 {"dp", StreamDevice::gpu, Traffic::data},
                                 {"pp_forward_in", StreamDevice::gpu, Traffic::pipeline},
                                 {"pp_forward_out", StreamDevice::gpu, Traffic::pipeline},
                                 {"pp_backward_in", StreamDevice::gpu, Traffic::pipeline},
                                 {"pp_backward_out", StreamDevice::gpu, Traffic::pipeline}};
  if (lends_memory(job))
    for (const char* name : {"pp_lent_in", "pp_lent_out"})
      streams.push_back({name, StreamDevice::gpu, Traffic::pipeline});
  if (has_ring(job))
    for (const char* name : {"cp_in", "cp_out"})
      streams.push_back({name, StreamDevice::gpu, Traffic::context});
  if (has_expert_stream(job)) streams.push_back({"ep", StreamDevice::gpu, Traffic::expert});
  if (has_scale_stream(job)) streams.push_back({"fp8", StreamDevice::gpu, Traffic::data});
  if (job.optimizer.parameter_server)
    for (const char* name : {"ps_push", "ps_pull"})
      streams.push_back({name, StreamDevice::gpu, Traffic::data});
  if (job.offload.any()) {
    streams.push_back({"to_host", StreamDevice::gpu, Traffic::offload});
    streams.push_back({"from_host", StreamDevice::gpu, Traffic::offload});
    streams.push_back({"host", StreamDevice::host, Traffic::offload});
  }
  if (job.offload.optimizer == OffloadTarget::nvme || job.offload.parameters == OffloadTarget::nvme) {
    streams.push_back({"nvme_read", StreamDevice::nvme, Traffic::offload});
    streams.push_back({"nvme_write", StreamDevice::nvme, Traffic::offload});
  }
  return streams;
}

std::uint8_t stream_named(const std::vector<Stream>& streams, const std::string& name) {
  for (std::size_t s = 0; s < streams.size(); ++s)
    if (streams[s].name == name) return static_cast<std::uint8_t>(s);
  throw std::logic_error("no stream " + name);
}

std::uint8_t expert_stream(const Job& job) {
  constexpr std::uint8_t none = StreamIndex::dp;
  return has_expert_stream(job) ? stream_named(make_streams(job), "ep") : none;
}

std::uint8_t scale_stream(const Job& job) {
  constexpr std::uint8_t none = StreamIndex::dp;
  return has_scale_stream(job) ? stream_named(make_streams(job), "fp8") : none;
}

std::vector<StageDevices> make_stages(const Job& job) {
  const std::vector<DeviceMesh> meshes = stage_meshes(job);
  std::vector<StageDevices> stages;
  for (std::vector<DeviceRange>& devices : placed_devices(job))
    stages.push_back({std::move(devices), {mesh_of_stage(meshes, stages.size()).mesh}});
  if (const std::int64_t servers = job.server_gpus(); servers > 0) {
    StageDevices of_servers{{{job.world_size() - servers, servers}}, {meshes.front().mesh}};
    for (Axis& axis : of_servers.meshes.front().axes) axis.size = axis.name == "dp" ? servers : 1;
    stages.push_back(std::move(of_servers));
  }
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
  facts.replica_micro_batch_sizes = job.training.replica_micro_batch_sizes;
  facts.seq_length = job.training.seq_length;
  facts.counts_images = image_of(job.model.family) != nullptr;
  const std::int64_t per_sample =
      facts.counts_images ? 1 : job.training.seq_length + job.training.decoder_seq_length;
  facts.tokens_per_step = job.training.global_batch_size * per_sample;
  facts.parameters = count_parameters(graph);
  facts.frozen_parameters = facts.parameters - count_trained_parameters(graph);
  // The graph's batch is one microbatch over all data-parallel ranks.
  facts.model_flops_per_step = model_flops(graph) * static_cast<double>(facts.microbatches);
  facts.precision = job.training.fp8 ? operand_dtype(job.training.fp8->recipe) : job.training.precision;
  return facts;
}

}  // namespace simrun
