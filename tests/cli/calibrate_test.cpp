#include "cli/calibrate.h"

#include <catch2/catch.hpp>

#include "cli/sensitivity.h"
#include "configs/load_job.h"
#include "schedules/compile.h"
#include "sim/simulate.h"
#include "tests/cli/run_simrun.h"

namespace simrun {
namespace {

Spread spread(double median) { return {median, median * 0.9, median * 1.1, 5}; }

// What a machine might give, without measuring one.
Calibration two_cores() {
  Calibration of;
  of.dtype = "f32";
  of.cores = 2;
  of.memory_bytes = std::int64_t{16} << 30;
  of.cache_bytes = 2 << 20;
  of.overhead_s = spread(1.5e-6);
  of.products = {{"32x32x32", spread(9.25e9)}, {"2048x2048x2048", spread(87.5e9)}};
  of.attention = {{"256x64", spread(20e9)}};
  of.attention_backward = {{"256x64", spread(15e9)}};
  of.kernels = {{"map_gelu", spread(2.5e9)}, {"optimizer_adam", spread(14e9)}};
  for (const char* name : {"all_gather", "all_reduce", "all_to_all", "reduce_scatter", "send"})
    of.exchanges.push_back({name, 2, spread(25e-6), spread(3e9)});
  return of;
}

const std::string calibrated_job = R"(simrun: 1
model: {model_type: gpt, num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 128}
training: {seq_length: 64, micro_batch_size: 1, global_batch_size: 2, precision: fp32}
parallelism: {tensor_model_parallel_size: 2}
cluster: {from: machine.yaml, nodes: 1}
)";

}  // namespace

TEST_CASE("calibrate: what is written is a cluster of a device per core, with every median and its spread") {
  const Scratch scratch;
  const std::string yaml = calibration_yaml(two_cores());
  CHECK(yaml.find("32x32x32: 9.250 GFLOP/s") != std::string::npos);
  CHECK(yaml.find("# p10 8.325, p90 10.175, 5 repetitions") != std::string::npos);
  scratch.write("machine.yaml", yaml);
  const LoadedJob loaded = load_job(scratch.write("job.yaml", calibrated_job), {});
  const Cluster& cluster = loaded.job.cluster;
  CHECK(cluster.gpus_per_node == 2);
  CHECK(cluster.communication == CommunicationMode::blocking);
  CHECK(cluster.measured.size() == 5);
  REQUIRE(cluster.measured.at("send").size() == 1);
  CHECK(cluster.measured.at("send")[0].ranks == 2);
  CHECK(cluster.measured.at("send")[0].latency_s == Approx(25e-6));
  CHECK(cluster.measured.at("send")[0].bandwidth == Approx(3e9));
  CHECK(cluster.gpu.measured.products.size() == 2);
  CHECK(cluster.gpu.measured.kernels.at("map_gelu") == Approx(2.5e9));
  CHECK(cluster.gpu.kernel_launch_s == Approx(1.5e-6));
  CHECK(cluster.gpu.peak_flops.at(Dtype::fp32) == Approx(87.5e9));
  CHECK(cluster.gpu.memory_bytes == std::int64_t{8} << 30);
  const Ran ran = run_simrun(scratch.file("job.yaml") + " --json");
  CHECK(ran.code == 0);
}

TEST_CASE(
    "calibrate: measured rates answer to --sensitivity: elasticities of rates less those of times are -1") {
  const Scratch scratch;
  scratch.write("machine.yaml", calibration_yaml(two_cores()));
  const Plan plan = compile(load_job(scratch.write("job.yaml", calibrated_job), {}).job);
  double sum = 0;
  for (const Sensitivity& row : sensitivities(plan, simulate(plan)))
    sum += row.unit == Sensitivity::Unit::seconds ? -row.elasticity : row.elasticity;
  CHECK(sum == Approx(-1).margin(0.01));
}

TEST_CASE("calibrate: refuses a job and flags that it does not read") {
  CHECK(run_simrun("--calibrate " + tiny).output ==
        "simrun: error: --calibrate measures this machine and takes no job\n"
        "  hint: simrun --calibrate -o machine.yaml, then cluster: {from: machine.yaml} in the job.\n");
  CHECK(run_simrun("--calibrate --execute").code == 2);
  CHECK(run_simrun("--calibrate --dtype bf16").code == 2);
  CHECK(run_simrun("--calibrate --steps 3").code == 2);
  CHECK(run_simrun("--calibrate -o /nowhere/machine.yaml").code == 2);
  CHECK(run_simrun(tiny + " -o machine.yaml").output ==
        "simrun: error: -o goes with --export, --import, --plan or --calibrate\n"
        "  hint: --html names the page of a job.\n");
}

TEST_CASE("calibrate: the jobs that are held against a machine are accepted, and run", "[long]") {
  for (const char* name : {"gpt-1rank", "llama-1rank", "gpt-tp2", "llama-tp2", "gpt-pp2", "llama-dp2"}) {
    CAPTURE(name);
    const Ran ran = run_simrun(SIMRUN_SOURCE_DIR "/tests/data/execute/" + std::string(name) +
                               ".yaml --execute --device null --no-html");
    CHECK(ran.code == 0);
  }
}

}  // namespace simrun
