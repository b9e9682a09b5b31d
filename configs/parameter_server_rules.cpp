// What a parameter server needs of the other keys.
#include <fmt/format.h>

#include "configs/job_rules.h"

namespace simrun {
namespace {

void check_places(Reading& reading, const Job& job) {
  const ParameterServerConfig& server = *job.optimizer.parameter_server;
  const std::string path = "optimizer.parameter_server.servers";
  const std::int64_t dp = job.parallelism.data_parallel_size;
  if (server.servers == 0 || job.world_size() == 0) return;
  if (job.server_gpus() >= job.world_size())
    return reading.problem(
        path,
        fmt::format("{} dedicated servers leave no worker on {} GPUs", server.servers, job.world_size()),
        "more nodes, fewer servers, or placement: colocated.");
  if (dp == 0) return;
  if (dp == 1)
    return reading.problem("optimizer.parameter_server",
                           "one data-parallel rank has nobody to add its gradients to",
                           "leave parameter_server out.");
  if (server.placement == ServerPlacement::colocated && server.servers > dp)
    reading.problem(
        path, fmt::format("{} colocated servers do not fit on {} data-parallel ranks", server.servers, dp),
        fmt::format("at most {}, or placement: dedicated.", dp));
}

void check_mesh(Reading& reading, const Job& job) {
  const Parallelism& parallelism = job.parallelism;
  const bool dedicated = job.server_gpus() > 0;
  const auto refuse = [&](const char* key, std::int64_t size, const char* hint) {
    if (size > 1)
      reading.problem(fmt::format("parallelism.{}", key),
                      fmt::format("parameter servers with {} {} are not supported yet", key, size), hint);
  };
  refuse("pipeline_model_parallel_size", parallelism.pipeline_model_parallel_size,
         "pipeline_model_parallel_size: 1.");
  refuse("context_parallel_size", parallelism.context_parallel_size, "context_parallel_size: 1.");
  refuse("expert_model_parallel_size", parallelism.expert_model_parallel_size,
         "expert_model_parallel_size: 1.");
  if (dedicated && parallelism.tensor_model_parallel_size > 1)
    reading.problem("parallelism.tensor_model_parallel_size",
                    "dedicated servers of tensor-parallel workers are not supported yet",
                    "placement: colocated.");
  if (!job.layout.rules.empty() || !job.layout.mesh.empty())
    reading.problem("layout", "parameter servers with a layout of your own are not supported yet",
                    "leave one of the two out.");
}

void check_update(Reading& reading, const Job& job) {
  const OptimizerConfig& optimizer = job.optimizer;
  if (optimizer.name == UpdateRule::adafactor || optimizer.name == UpdateRule::muon)
    reading.problem("optimizer.name", "servers hold parts of buckets and no matrices that it needs whole",
                    "name: adam, adamw or sgd.");
  if (optimizer.zero_stage > 0)
    reading.problem("optimizer.zero_stage",
                    fmt::format("zero_stage {} would divide what the servers keep", optimizer.zero_stage),
                    "zero_stage: 0.");
  if (optimizer.all_reduce == AllReduceKind::hierarchical)
    reading.problem("optimizer.all_reduce", "a parameter server takes the place of the all-reduce",
                    "leave one of the two out.");
  if (optimizer.grad_reduce_dtype != optimizer.main_grads_dtype)
    reading.problem("optimizer.grad_reduce_dtype",
                    "parameter servers with a grad_reduce_dtype of its own are not supported yet",
                    "grad_reduce_dtype of main_grads_dtype.");
  if (optimizer.clip_grad > 0 && optimizer.parameter_server->mode == ServerMode::asynchronous)
    reading.problem(reading.positions.contains("optimizer.clip_grad") ? "optimizer.clip_grad"
                                                                      : "optimizer.parameter_server.mode",
                    "the norm of all gradients is not known in mode: asynchronous",
                    "optimizer.clip_grad: 0.");
  for (const auto& [key, target] :
       {std::pair("optimizer", job.offload.optimizer), std::pair("parameters", job.offload.parameters)})
    if (target != OffloadTarget::none)
      reading.problem(fmt::format("offload.{}", key), "offload from parameter servers is not supported yet",
                      fmt::format("{}: none.", key));
}

}  // namespace

void apply_parameter_server_rules(Reading& reading, const Job& job) {
  if (!job.optimizer.parameter_server) return;
  check_places(reading, job);
  check_mesh(reading, job);
  check_update(reading, job);
}

}  // namespace simrun
