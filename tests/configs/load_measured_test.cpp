#include <catch2/catch.hpp>

#include "small_job.h"

using namespace simrun;
using namespace simrun::test;

namespace {

// A machine of two devices as --calibrate writes it, in short.
const std::string calibrated = R"(simrun: 1
model: {model_type: gpt, num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 128}
training: {seq_length: 64, micro_batch_size: 1, global_batch_size: 2, precision: fp32}
cluster:
  nodes: 1
  gpus_per_node: 2
  reserved_memory: 0 GiB
  communication: blocking
  intra_node: {bandwidth: 2 GB/s, latency: 20 us}
  measured:
    all_reduce:
      4: {latency: 60 us, bandwidth: 1 GB/s}
      2: {latency: 20 us, bandwidth: 2 GB/s}
  gpu:
    peak_flops: {fp32: 90 GFLOP/s}
    vector_flops: 90 GFLOP/s
    memory: 8 GiB
    memory_bandwidth: 10 GB/s
    sm_count: 1
    l2: 2 MiB
    kernel_launch: 2 us
    matmul_efficiency: 1
    memory_efficiency: 1
    measured:
      products:
        512x64x32: 50 GFLOP/s
        32x64x32: 8.5 GFLOP/s
      attention: {64x32: 20 GFLOP/s}
      attention_backward: {64x32: 15 GFLOP/s}
      kernels: {map_gelu: 3 GB/s, optimizer_adam: 12 GB/s}
)";

std::vector<Diagnostic> problems_with(const std::string& from, const std::string& to) {
  try {
    load_job_text(edited(calibrated, from, to), "job.yaml", with_presets());
  } catch (const ConfigError& error) {
    return error.diagnostics();
  }
  return {};
}

}  // namespace

TEST_CASE("measured rates are read, ascending, and the effective config loads again as an equal job") {
  const LoadedJob loaded = load_job_text(calibrated, "job.yaml", with_presets());
  const Cluster& cluster = loaded.job.cluster;
  CHECK(cluster.gpu.measured.products ==
        std::vector<MeasuredKernels::Product>{{32, 64, 32, 8.5e9}, {512, 64, 32, 50e9}});
  CHECK(cluster.gpu.measured.attention == std::vector<MeasuredKernels::Attention>{{64, 32, 20e9}});
  CHECK(cluster.gpu.measured.attention_backward == std::vector<MeasuredKernels::Attention>{{64, 32, 15e9}});
  CHECK(cluster.gpu.measured.kernels ==
        std::map<std::string, double>{{"map_gelu", 3e9}, {"optimizer_adam", 12e9}});
  CHECK(cluster.communication == CommunicationMode::blocking);
  const std::vector<MeasuredExchange>& all_reduce = cluster.measured.at("all_reduce");
  REQUIRE(all_reduce.size() == 2);
  CHECK(all_reduce[0].ranks == 2);
  CHECK(all_reduce[0].latency_s == Approx(20e-6));
  CHECK(all_reduce[1].ranks == 4);
  CHECK(all_reduce[1].bandwidth == Approx(1e9));
  CHECK(load_job_text(loaded.effective_yaml, "job.yaml", LoadOptions{}).job == loaded.job);
}

TEST_CASE("without them nothing is measured and communication overlaps") {
  const Cluster cluster = load(small_job).cluster;
  CHECK(cluster.gpu.measured.empty());
  CHECK(cluster.measured.empty());
  CHECK(cluster.communication == CommunicationMode::overlapped);
}

TEST_CASE("what is wrong with a measured rate is told where it stands") {
  struct Case {
    std::string from, to, message, hint;
  };
  for (const Case& of : std::vector<Case>{
           {"32x64x32:", "32x64:", "'32x64' in 'cluster.gpu.measured.products' is not 3 sizes",
            "for example 512x512x64: 30 GFLOP/s (m x n x k)."},
           {"512x64x32:", "512x-4x32:", "'512x-4x32' in 'cluster.gpu.measured.products' is not 3 sizes",
            "for example 512x512x64: 30 GFLOP/s (m x n x k)."},
           {"map_gelu", "map_gelo", "unknown key 'map_gelo' in 'cluster.gpu.measured.kernels'",
            "did you mean 'map_gelu'?"},
           {"all_reduce:", "all_reduc:", "unknown key 'all_reduc' in 'cluster.measured'",
            "did you mean 'all_reduce'?"},
           {"      4: {", "      four: {", "'four' in 'cluster.measured.all_reduce' is no number of ranks",
            "for example 2: {latency: 10 us, bandwidth: 2 GB/s}."},
           {"communication: blocking", "communication: blockin",
            "'cluster.communication' cannot be 'blockin'", "did you mean 'blocking'?"}}) {
    CAPTURE(of.to);
    const std::vector<Diagnostic> problems = problems_with(of.from, of.to);
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].message == of.message);
    CHECK(problems[0].hint == of.hint);
    CHECK(problems[0].position.line > 5);
  }
}
