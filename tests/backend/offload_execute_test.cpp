#include <catch2/catch.hpp>
#include <string>
#include <tuple>

#include "schedules/compile.h"
#include "tests/backend/checked_run.h"
#include "tests/backend/expert_jobs.h"

// What lies in the host's memory or on its drives between two uses is the same when it comes back.
namespace simrun {
namespace {

const std::string host =
    ", host: {memory: 1 TiB, memory_bandwidth: 200 GB/s, flops: 3 TFLOP/s, pcie_bandwidth: 30 GB/s, nvme: 10 "
    "TiB, nvme_read_bandwidth: 20 GB/s, nvme_write_bandwidth: 10 GB/s}";

struct OffloadCase {
  const char *offload, *optimizer, *parallelism;
  int gpus;
  const char* precision = "fp32";
  std::string model = tiny_gpt;
};

Plan plan_of(const OffloadCase& c) {
  return compile(job_from(
      "simrun: 1\n" + c.model +
      "training: {seq_length: 8, micro_batch_size: 1, global_batch_size: 8, precision: " + c.precision +
      "}\nparallelism: " + c.parallelism + "\noptimizer: " + c.optimizer + "\noffload: " + c.offload +
      "\ncluster: {from: dgx_a100, nodes: 1, gpus_per_node: " + std::to_string(c.gpus) + host + "}\n"));
}

}  // namespace

TEST_CASE("offloaded optimizers, parameters and activations compute what one rank does") {
  const char* const pipeline = "{pipeline_model_parallel_size: 2}";
  for (const OffloadCase& c :
       {OffloadCase{"{optimizer: cpu}", "{}", "{}", 1},
        OffloadCase{"{optimizer: cpu}", "{zero_stage: 1}", "{}", 4},
        OffloadCase{"{optimizer: cpu, optimizer_fraction: 0.4}", "{zero_stage: 1}", "{}", 2},
        OffloadCase{"{optimizer: cpu, optimizer_fraction: 0.4}", "{clip_grad: 0.1}", pipeline, 4},
        // Two pipeline ranks hold every stage and half of its main parameters: each piece counts once.
        OffloadCase{"{optimizer: cpu, optimizer_fraction: 0.5}", "{zero_stage: 1, clip_grad: 0.1}",
                    "{pipeline_model_parallel_size: 2, pipeline_schedule: chimera}", 2},
        OffloadCase{"{optimizer: nvme}", "{zero_stage: 2}", "{}", 2},
        OffloadCase{"{optimizer: nvme, optimizer_fraction: 0.5}", "{zero_stage: 1}", "{}", 2, "bf16"},
        OffloadCase{"{optimizer: cpu, parameters: cpu}", "{zero_stage: 3}", "{}", 2},
        OffloadCase{"{optimizer: cpu, parameters: cpu}", "{zero_stage: 3}", "{}", 4, "bf16"},
        OffloadCase{"{optimizer: nvme, parameters: nvme}", "{zero_stage: 3}", "{}", 2, "bf16"},
        OffloadCase{"{activations: cpu}", "{}", "{}", 1},
        OffloadCase{"{activations: cpu, activation_layers: 1}", "{zero_stage: 3}", "{}", 2},
        OffloadCase{"{activations: cpu}", "{zero_stage: 1}",
                    "{pipeline_model_parallel_size: 2, tensor_model_parallel_size: 2}", 8},
        OffloadCase{"{optimizer: cpu, parameters: cpu, activations: cpu}", "{zero_stage: 3}", pipeline, 4}}) {
    CAPTURE(c.offload, c.optimizer, c.parallelism, c.gpus, c.precision);
    const Plan plan = plan_of(c);
    const Execution run = checked_run(plan);
    const bool clips = std::string(c.optimizer).find("clip") != std::string::npos;
    const Execution alone = checked_run(compile(tiny_job({.optimizer = clips ? "{clip_grad: 0.1}" : "{}"})));
    check_equal(run, alone, 1e-10);
    check_memory(plan, run, false);
  }
}

TEST_CASE("activations of experts, and behind frozen layers, are the same when they come back") {
  const std::string frozen = std::string(tiny_gpt).substr(0, std::string(tiny_gpt).rfind('}')) +
                             ", frozen: [embedding, 'layers[0-1]']}\n";
  for (const auto& [model, parallelism, gpus] : {std::tuple(std::string(tiny_mixtral), "{}", 1),
                                                 {tiny_mixtral, "{expert_model_parallel_size: 2}", 2},
                                                 {tiny_mixtral, "{pipeline_model_parallel_size: 2}", 2},
                                                 {frozen, "{}", 1}})
    for (const char* offload : {"{activations: cpu}", "{activations: cpu, activation_layers: 3}"}) {
      CAPTURE(model, parallelism, offload);
      const Execution run = checked_run(plan_of({offload, "{}", parallelism, gpus, "fp32", model}));
      const Execution alone = checked_run(compile(tiny_job({.model = model.c_str()})));
      check_equal(run, alone, 1e-10);
    }
}

TEST_CASE("what is offloaded is not in the device's memory, to the byte") {
  const Plan plan =
      plan_of({"{optimizer: cpu, parameters: cpu, activations: cpu}", "{zero_stage: 3}", "{}", 2});
  check_memory(plan, checked_run(plan, ExecutionDevice::cpu_f32), true);
}

TEST_CASE("weights on drives without main weights are refused: the plan does not read them") {
  const std::vector<std::string> said = execution_refusals(
      plan_of({"{optimizer: nvme, parameters: nvme}", "{zero_stage: 3}", "{}", 2}), ExecutionDevice::cpu_f64);
  REQUIRE(said.size() == 1);
  CHECK(said[0].find("optimizer.main_params_dtype") != std::string::npos);
}

}  // namespace simrun
