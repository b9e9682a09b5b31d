// What the offload section needs of the others.
#include <fmt/format.h>

#include "configs/job_rules.h"

namespace simrun {
namespace {

void check_hardware(Reading& reading, const Job& job) {
  const Offload& offload = job.offload;
  const Host& host = job.cluster.host;
  if (host.memory_bytes == 0 && !reading.positions.contains("cluster.host"))
    return reading.problem(
        "offload", fmt::format("the cluster {} does not say what its hosts are", job.cluster.name),
        "write cluster.host, for example {memory: 2 TiB, memory_bandwidth: 400 GB/s, flops: "
        "9 TFLOP/s, pcie_bandwidth: 31.5 GB/s}.");
  if (host.nvme_bytes > 0) return;
  for (const auto& [key, what] :
       {std::pair("optimizer", offload.optimizer), std::pair("parameters", offload.parameters)})
    if (what == OffloadTarget::nvme)
      reading.problem(fmt::format("offload.{}", key),
                      fmt::format("the hosts of {} have no NVMe drives", job.cluster.name),
                      "write cluster.host.nvme, nvme_read_bandwidth and nvme_write_bandwidth, or cpu.");
}

void check_optimizer(Reading& reading, const Job& job) {
  const Offload& offload = job.offload;
  if (offload.optimizer == OffloadTarget::none) {
    if (reading.positions.contains("offload.optimizer_fraction"))
      reading.problem("offload.optimizer_fraction", "nothing of the optimizer is offloaded",
                      "write offload.optimizer: cpu as well.");
    return;
  }
  if (job.optimizer.name != UpdateRule::adam && job.optimizer.name != UpdateRule::adamw)
    reading.problem("offload.optimizer", "the hosts run Adam and no other optimizer",
                    "optimizer.name: adam.");
  const bool own_type = job.optimizer.grad_reduce_dtype != job.optimizer.main_grads_dtype ||
                        job.optimizer.exp_avg_dtype == Dtype::uint8 ||
                        job.optimizer.exp_avg_sq_dtype == Dtype::uint8;
  if (own_type)
    reading.problem(
        "offload.optimizer",
        "an offloaded optimizer takes gradients as they are reduced and keeps no quantised moments",
        "grad_reduce_dtype as main_grads_dtype, moments of 16 or 32 bits.");
}

// The host updates what it holds: its weights need its optimizer.
void check_parameters(Reading& reading, const Job& job) {
  const Offload& offload = job.offload;
  if (offload.parameters == OffloadTarget::none) return;
  if (job.optimizer.zero_stage != 3)
    reading.problem("offload.parameters",
                    fmt::format("parameters are gathered from their hosts in zero_stage 3, not {}",
                                job.optimizer.zero_stage),
                    "optimizer.zero_stage: 3.");
  if (offload.optimizer == OffloadTarget::none || offload.optimizer_fraction < 1)
    reading.problem("offload.parameters", "parameters on the hosts are updated there, all of them",
                    "offload.optimizer: cpu or nvme, with optimizer_fraction 1.");
}

}  // namespace

void apply_offload_rules(Reading& reading, const Job& job) {
  if (!job.offload.any() && !reading.positions.contains("offload.optimizer_fraction")) return;
  check_hardware(reading, job);
  check_optimizer(reading, job);
  check_parameters(reading, job);
  if (job.offload.activations != OffloadTarget::none && job.parallelism.pipeline_schedule == "bpipe")
    reading.problem("offload.activations", "bpipe lends the activations that would be offloaded",
                    "1f1b with offload.activations, or bpipe without.");
}

}  // namespace simrun
