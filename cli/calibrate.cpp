#include "cli/calibrate.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/console.h"
#include "cli/output_file.h"
#include "configs/diagnostics.h"

namespace simrun {
namespace {

// "key: 12.3 GFLOP/s  # p10 11.9, p90 12.6, 5 repetitions"
std::string spread_line(int indent, const std::string& key, const Spread& of, double unit,
                        const char* unit_name) {
  const std::string value = fmt::format("{:{}}{}: {:.3f} {}", "", indent, key, of.median / unit, unit_name);
  return fmt::format("{:50} # p10 {:.3f}, p90 {:.3f}, {} repetitions\n", value, of.p10 / unit, of.p90 / unit,
                     of.repetitions);
}

std::string rates_section(const char* key, const char* meaning, const std::vector<Calibration::Rate>& rates,
                          const char* unit_name) {
  std::string text = fmt::format("    {}:  # {}\n", key, meaning);
  for (const Calibration::Rate& rate : rates)
    text += spread_line(6, rate.name, rate.per_second, 1e9, unit_name);
  return text;
}

double best(const std::vector<Calibration::Rate>& rates) {
  double most = 0;
  for (const Calibration::Rate& rate : rates) most = std::max(most, rate.per_second.median);
  return most;
}

std::string device_section(const Calibration& of) {
  const std::string peak = fmt::format("{:.3f} GFLOP/s", best(of.products) / 1e9);
  std::string text = "gpu:\n";
  text += fmt::format(
      "  name: core_{}\n  peak_flops:  # the fastest product below, whatever its type is called\n", of.dtype);
  for (const char* dtype : {"fp64", "fp32", "tf32", "fp16", "bf16"})
    text += fmt::format("    {}: {}\n", dtype, peak);
  text += fmt::format("  vector_flops: {}\n", peak);
  text += fmt::format("  memory: {:.3f} GiB  # this machine's, by its cores\n",
                      static_cast<double>(of.memory_bytes) / 0x1p30 / of.cores);
  text +=
      fmt::format("  memory_bandwidth: {:.3f} GB/s  # the fastest kernel below\n", best(of.kernels) / 1e9);
  text += fmt::format("  sm_count: 1\n  l2: {:.3f} MiB\n", static_cast<double>(of.cache_bytes) / 0x1p20);
  text += spread_line(2, "kernel_launch", of.overhead_s, 1e-6, "us");
  text += "  matmul_efficiency: 1\n  memory_efficiency: 1\n  measured:\n";
  text += rates_section("products", "m x n x k, of [m, k] and [k, n]: mean of forward and both gradients",
                        of.products, "GFLOP/s");
  text += rates_section("attention", "tokens x head_dim: flash, causal", of.attention, "GFLOP/s");
  text += rates_section("attention_backward", "likewise", of.attention_backward, "GFLOP/s");
  return text +
         rates_section("kernels", "of rows, by the bytes that they read and write", of.kernels, "GB/s");
}

std::string exchanges_section(const Calibration& of) {
  std::vector<Calibration::Exchange> sorted = of.exchanges;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.name < b.name; });
  std::string text = "measured:  # ranks: of threads that exchange f32\n", name;
  for (const Calibration::Exchange& exchange : sorted) {
    if (exchange.name != name) text += fmt::format("  {}:\n", exchange.name);
    name = exchange.name;
    text += fmt::format("    {}:\n", exchange.ranks);
    text += spread_line(6, "latency", exchange.latency_s, 1e-6, "us");
    text += spread_line(6, "bandwidth", exchange.bandwidth, 1e9, "GB/s");
  }
  return text;
}

}  // namespace

std::string calibration_yaml(const Calibration& of) {
  const auto sent = std::find_if(of.exchanges.begin(), of.exchanges.end(),
                                 [](const Calibration::Exchange& x) { return x.name == "send"; });
  std::string text = fmt::format(
      "# Measured by simrun --calibrate: one rank per core, {}. Every value is a median.\n"
      "# Use it as cluster: {{from: THIS_FILE}}, with nodes: 1 and as many gpus_per_node as ranks are "
      "wanted.\n"
      "name: this_machine\nnodes: 1\ngpus_per_node: {}\nreserved_memory: 0 GiB\n"
      "communication: blocking  # a rank is one thread\n",
      of.dtype, of.cores);
  text += fmt::format("intra_node:  # what is not among `measured`\n");
  text += spread_line(2, "bandwidth", sent->bandwidth, 1e9, "GB/s");
  text += spread_line(2, "latency", sent->latency_s, 1e-6, "us");
  return text + exchanges_section(of) + device_section(of);
}

int calibrate(const Options& options) {
  if (options.output)
    if (const std::string why = probe_output(*options.output); !why.empty())
      throw OutputError(fmt::format("cannot write {}: {}", *options.output, why));
  const std::string dtype = options.execute.dtype.value_or("f32");
  if (!options.quiet) complain("simrun: measuring this machine, which should do nothing else meanwhile\n");
  const std::string yaml = calibration_yaml(
      measure_machine(dtype == "f64" ? ExecutionDevice::cpu_f64 : ExecutionDevice::cpu_f32, dtype));
  if (!options.output) {
    print(yaml);
    return 0;
  }
  write_output(*options.output, yaml);
  if (!options.quiet) complain(fmt::format("wrote {}\n", *options.output));
  return 0;
}

}  // namespace simrun
