// What the offload section needs of the others.
#include <fmt/format.h>

#include <string>

#include "configs/job_rules.h"

namespace simrun {
namespace {

// What was written was refused or could not be read: what follows from it is no problem of its own.
bool has_no_value(const Reading& reading, const std::string& path) {
  return reading.is_refused(path) || reading.is_partial(path);
}

void check_hardware(Reading& reading, const Job& job) {
  const Offload& offload = job.offload;
  const Host& host = job.cluster.host;
  if (reading.is_partial("cluster")) return;
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
    if (reading.positions.contains("offload.optimizer_fraction") &&
        !has_no_value(reading, "offload.optimizer"))
      reading.problem("offload.optimizer_fraction", "nothing of the optimizer is offloaded",
                      "write offload.optimizer: cpu as well.");
    return;
  }
  const OptimizerConfig& optimizer = job.optimizer;
  if (optimizer.name != UpdateRule::adam && optimizer.name != UpdateRule::adamw)
    reading.problem("offload.optimizer", "the hosts run Adam and no other optimizer",
                    "optimizer.name: adam.");
  else if (optimizer.exp_avg_dtype == Dtype::uint8 || optimizer.exp_avg_sq_dtype == Dtype::uint8)
    reading.problem("offload.optimizer", "moments quantised in blocks are not offloaded yet",
                    "optimizer.exp_avg_dtype and exp_avg_sq_dtype: bf16.");
}

// The host updates what it holds: its weights need its optimizer.
void check_parameters(Reading& reading, const Job& job) {
  const Offload& offload = job.offload;
  if (offload.parameters == OffloadTarget::none) return;
  if (job.optimizer.zero_stage != 3 && !has_no_value(reading, "optimizer.zero_stage"))
    reading.problem("offload.parameters",
                    fmt::format("parameters are gathered from their hosts in zero_stage 3, not {}",
                                job.optimizer.zero_stage),
                    "optimizer.zero_stage: 3.");
  const bool is_known =
      !has_no_value(reading, "offload.optimizer") && !has_no_value(reading, "offload.optimizer_fraction");
  if (is_known && (offload.optimizer == OffloadTarget::none || offload.optimizer_fraction < 1))
    reading.problem("offload.parameters", "parameters on the hosts are updated there, all of them",
                    "offload.optimizer: cpu or nvme, with optimizer_fraction 1.");
}

void check_activations(Reading& reading, const Job& job) {
  const Offload& offload = job.offload;
  if (offload.activations == OffloadTarget::none && offload.activation_layers > 0 &&
      !has_no_value(reading, "offload.activations"))
    reading.problem("offload.activation_layers", "no activations are offloaded",
                    "write offload.activations: cpu as well.");
  if (offload.activation_layers > job.model.num_layers && job.model.num_layers > 0)
    reading.problem(
        "offload.activation_layers",
        fmt::format("activations of {} layers, of {}", offload.activation_layers, job.model.num_layers),
        "leave it out: then all layers' are offloaded.");
  if (job.offload.activations != OffloadTarget::none && job.parallelism.pipeline_schedule == "bpipe")
    reading.problem("offload.activations", "bpipe lends the activations that would be offloaded",
                    "1f1b with offload.activations, or bpipe without.");
}

}  // namespace

void apply_offload_rules(Reading& reading, const Job& job) {
  const auto is_written = [&](const char* key) { return reading.positions.contains(key); };
  if (!job.offload.any() && !is_written("offload.optimizer_fraction") &&
      !is_written("offload.activation_layers"))
    return;
  check_hardware(reading, job);
  check_optimizer(reading, job);
  check_parameters(reading, job);
  check_activations(reading, job);
}

}  // namespace simrun
