// What a framework makes kernels take: sim/compute_stretch.h.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "schedules/compile.h"
#include "schedules/summary.h"
#include "sim/compute_stretch.h"
#include "sim/simulate.h"
#include "tests/jobs.h"
#include "tests/sim/plan_builder.h"

namespace simrun {
namespace {

Job llama(int fsdp, int microbatches, const char* kernels = "{}", int zero_stage = 3) {
  return job_from(
      fmt::format("simrun: 1\nframework: {{kernels: {}, memory: {{allocator: caching, fsdp: {}}}}}\n"
                  "model: {{from: llama3-8b, num_hidden_layers: 4}}\n"
                  "training: {{seq_length: 8192, micro_batch_size: 1, global_batch_size: {}, "
                  "precision: bf16}}\noptimizer: {{zero_stage: {}}}\n"
                  "cluster: {{from: dgx_h100, nodes: 1}}\n",
                  kernels, fsdp, 8 * microbatches, zero_stage));
}

double compute_seconds(const Job& job) {
  const Plan plan = compile(job);
  return summarize(plan, simulate(plan)).compute_s;
}

}  // namespace

// Per parameter and microbatch: gathered for both passes 2 x (2 read + 2 written) bytes, once for what the
// forward pass ends with, and a gradient of 2 bytes read and of 4 written.
TEST_CASE("FSDP2's copies take the time of 10 to 14 bytes per parameter and microbatch, FSDP1's views none") {
  const Job job = llama(2, 3);
  // Four layers of 218 M, and table and head of 128,256 x 4,096 each.
  const double parameters = 4 * 218.1e6 + 2 * 128256.0 * 4096;
  const double rate = job.cluster.gpu.memory_bandwidth * job.cluster.gpu.memory_efficiency;
  const double copied = (compute_seconds(job) - compute_seconds(llama(1, 3))) * rate / parameters / 3;
  CHECK(copied > 10);
  CHECK(copied < 14.2);
  CHECK(compute_seconds(llama(1, 3)) == compute_seconds(llama(0, 3)));
  // Only ZeRO-3 is FSDP.
  for (const int zero_stage : {0, 1, 2})
    CHECK(compute_seconds(llama(2, 3, "{}", zero_stage)) == compute_seconds(llama(0, 3, "{}", zero_stage)));
}

TEST_CASE("copies are slowed as kernels are, and hide the host's time") {
  const double plain = compute_seconds(llama(2, 3));
  CHECK(compute_seconds(llama(2, 3, "{compute_slowdown: 1.25}")) == Approx(1.25 * plain).epsilon(1e-3));
  CHECK(compute_seconds(llama(2, 3, "{host_dispatch: 1 us}")) == Approx(plain).epsilon(1e-6));
  CHECK(compute_seconds(llama(2, 3, "{host_dispatch: 10 ms}")) ==
        Approx(compute_seconds(llama(1, 3, "{host_dispatch: 10 ms}"))).epsilon(1e-6));
}

// Four layers of 6 tensors (qkv, projection, fc1, fc2, two norms), table, last norm and head: 27, of 8 ranks.
TEST_CASE("copies of shards that ZeRO-1 gathered take the host an operator per parameter and rank") {
  const auto seconds = [](const char* kernels, int zero_stage) {
    return compute_seconds(llama(0, 1, kernels, zero_stage));
  };
  CHECK(seconds("{host_dispatch: 10 ms, copies_gathered_shards: true}", 1) -
            seconds("{host_dispatch: 10 ms}", 1) ==
        Approx(8 * 27 * 0.01).epsilon(1e-3));
  // Without a host's time: 2 bytes, three times read and written.
  const Job job = llama(0, 1);
  const double parameters = 4 * 218.1e6 + 2 * 128256.0 * 4096;
  const double rate = job.cluster.gpu.memory_bandwidth * job.cluster.gpu.memory_efficiency;
  CHECK((seconds("{copies_gathered_shards: true}", 1) - seconds("{}", 1)) * rate / parameters ==
        Approx(12).epsilon(0.02));
  for (const int zero_stage : {0, 3})
    CHECK(seconds("{host_dispatch: 10 ms, copies_gathered_shards: true}", zero_stage) ==
          seconds("{host_dispatch: 10 ms}", zero_stage));
}

TEST_CASE("what the host does once a step is added to it, whatever the step is") {
  const auto step = [](const std::string& kernels, const char* training, const char* rest) {
    const Job job = job_from("simrun: 1\nframework: {kernels: {" + kernels +
                             "}}\nmodel: {from: llama3-8b, num_hidden_layers: 4}\n"
                             "training: {seq_length: 4096, micro_batch_size: 1, precision: bf16, " +
                             training + "}\n" + rest + "\n");
    return to_seconds(simulate(compile(job)).step);
  };
  const char* const h100 = "cluster: {from: dgx_h100, nodes: 1}";
  for (const char* training : {"global_batch_size: 8", "global_batch_size: 24"})
    for (const std::string optimizer :
         {"{zero_stage: 0}", "{zero_stage: 1, overlap_grad_reduce: true, overlap_param_gather: true}",
          "{zero_stage: 3}", "{zero_stage: 1, grad_reduce_dtype: bf16}",
          "{zero_stage: 0, grad_reduce_dtype: bf16, overlap_grad_reduce: true}"})
      for (const std::string offload :
           {"{}", "{optimizer: cpu}", "{optimizer: cpu, optimizer_fraction: 0.5}"}) {
        CAPTURE(training, optimizer, offload);
        const std::string rest = "optimizer: " + optimizer + "\noffload: " + offload + "\n" + h100;
        const auto added = [&](const std::string& more) {
          return step("host_step: 20 ms" + more, training, rest.c_str()) -
                 step("host_step: 0 ms" + more, training, rest.c_str());
        };
        CHECK(added("") == Approx(0.02).margin(1e-6));
        CHECK(added(", compute_slowdown: 1.25, host_dispatch: 50 us") == Approx(0.02).margin(1e-6));
      }
  // On every kind of GPU, and once for all stages of a pipeline.
  const char* const mixed =
      "cluster: {gpus_per_node: 2, nics_per_node: 1, intra_node: {latency: 3 us, bandwidth: 25 GB/s}, "
      "inter_node: {bandwidth: 100 Gb/s, latency: 10 us}, "
      "node_groups: {a: {nodes: 1, gpu: a100_sxm_80gb}, b: {nodes: 1, gpu: h100_sxm}}}";
  for (const char* parallelism : {"{}", "{pipeline_model_parallel_size: 4}"}) {
    CAPTURE(parallelism);
    const std::string rest = std::string("parallelism: ") + parallelism + "\n" + mixed;
    CHECK(step("host_step: 20 ms", "global_batch_size: 48", rest.c_str()) -
              step("host_step: 0 ms", "global_batch_size: 48", rest.c_str()) ==
          Approx(0.02).margin(1e-6));
  }
}

TEST_CASE("the host issues exchanges as well, and goes on while kernels wait for them") {
  // An exchange and ten kernels of 1 us: eleven times 5 us.
  const auto step = [](Traffic traffic, Picoseconds exchange, double host) {
    PlanBuilder builder(1);
    const Index a = builder.token(), b = builder.token();
    std::vector<Instruction> pass{builder.all_reduce(builder.stream("beside", traffic), exchange, {}, {b})};
    for (int i = 0; i < 10; ++i) pass.push_back(builder.compute(1'000'000, {b}, {a}));
    builder.entry(0, builder.segment(PassKind::forward, pass));
    builder.plan.framework.kernels.host_dispatch_s = host;
    return simulate(builder.plan).step;
  };
  for (const Traffic awaited : {Traffic::tensor, Traffic::context, Traffic::expert}) {
    CHECK(step(awaited, 30'000'000, 0) == 40'000'000);
    CHECK(step(awaited, 30'000'000, 5e-6) == 55'000'000);
    CHECK(step(awaited, 50'000'000, 5e-6) == 60'000'000);  // the host is done before the kernels
  }
  CHECK(step(Traffic::data, 30'000'000, 5e-6) == 85'000'000);  // these are not waited for as a rule
}

TEST_CASE("an exchange beside kernels gives the host no time that these do not wait") {
  // An exchange, five kernels of 1 us beside it, and five that wait for it: eleven times 5 us at least.
  const auto step = [](Picoseconds exchange, int beside = 5, bool is_blocking = false) {
    PlanBuilder builder(1);
    const Index a = builder.token(), b = builder.token();
    std::vector<Instruction> pass{
        builder.all_reduce(builder.stream("beside", Traffic::tensor), exchange, {}, {b})};
    for (int i = 0; i < 10; ++i)
      pass.push_back(
          builder.compute(1'000'000, i < beside ? std::vector<Index>{} : std::vector<Index>{b}, {a}));
    builder.entry(0, builder.segment(PassKind::forward, pass));
    builder.plan.framework.kernels.host_dispatch_s = 5e-6;
    builder.plan.framework.kernels.blocking_tensor_parallel = is_blocking;
    return static_cast<double>(simulate(builder.plan).step) * 1e-6;
  };
  for (const Picoseconds exchange : {1, 10, 25, 30, 40, 49}) {
    CAPTURE(exchange);
    CHECK(step(exchange * 1'000'000) == Approx(55).epsilon(1e-6));
    CHECK(step(exchange * 1'000'000, 10) == Approx(55).epsilon(1e-6));  // nobody waits for it
    CHECK(step(exchange * 1'000'000, 5, true) ==
          Approx(std::max(55.0, 10 + static_cast<double>(exchange))).epsilon(1e-6));
  }
  CHECK(step(53'000'000, 10) == Approx(55).epsilon(1e-6));
  CHECK(step(60'000'000) == 65);  // the host is done before the kernels
}

// Four layers have 28 matrices, of which five iterations of three products each make Muon's updates.
TEST_CASE("the host issues of Muon's products those of the rank's shard") {
  const auto step = [](const char* zero) {
    return simulate(compile(job_from(
                        "simrun: 1\nframework: {from: megatron_core, kernels: {host_dispatch: 100 us}}\n"
                        "model: {model_type: llama, num_hidden_layers: 4, hidden_size: 64, "
                        "intermediate_size: 128, num_attention_heads: 4, vocab_size: 512}\n"
                        "training: {seq_length: 64, micro_batch_size: 1, global_batch_size: 8, precision: "
                        "bf16}\noptimizer: {name: muon}\ncluster: {from: dgx_h100, nodes: 1}\n",
                        {{"optimizer.zero_stage", zero}})))
        .step;
  };
  CHECK(static_cast<double>(step("1")) < 0.7 * static_cast<double>(step("0")));
}

TEST_CASE("under a slow host, too, no faster network makes a step longer") {
  const std::pair<const char*, const char*> cases[] = {
      {"context_parallel_size: 4", ""},
      {"tensor_model_parallel_size: 4", ""},
      {"tensor_model_parallel_size: 4", ", blocking_tensor_parallel: true"},
      {"tensor_model_parallel_size: 4, sequence_parallel: true", ""},
      {"tensor_model_parallel_size: 4, sequence_parallel: true", ", blocking_tensor_parallel: true"}};
  for (const auto& [split, kernels] : cases) {
    Picoseconds slower = 0;
    for (const int bandwidth : {450, 200, 100, 50, 25}) {
      CAPTURE(split, kernels, bandwidth);
      const Job job = job_from(fmt::format(
          "simrun: 1\nmodel: {{model_type: llama, num_hidden_layers: 4, hidden_size: 1024, "
          "intermediate_size: "
          "2048, num_attention_heads: 8, vocab_size: 1024}}\n"
          "training: {{seq_length: 4096, micro_batch_size: 1, global_batch_size: 4, precision: bf16}}\n"
          "parallelism: {{{}}}\nframework: {{kernels: {{host_dispatch: 80 us{}}}}}\n"
          "cluster: {{from: dgx_h100, nodes: 1, gpus_per_node: 4, intra_node: {{bandwidth: {} GB/s}}}}\n",
          split, kernels, bandwidth));
      const Picoseconds step = simulate(compile(job)).step;
      CHECK(static_cast<double>(step) >= static_cast<double>(slower) * (1 - 1e-8));  // kernels are rounded
      slower = step;
    }
  }
}

TEST_CASE("a router and its dispatcher are to the host as many operators as the framework says") {
  // Under a host this slow a step is its launches; a dense layer's fc1, activation and fc2 have as many as
  // experts'.
  const auto launches = [](const char* experts) {
    const Job job = job_from(
        std::string("simrun: 1\nframework: {kernels: {host_dispatch: 10 ms, routing_operators: 30, "
                    "routing_backward_operators: 15}}\n"
                    "model: {model_type: gpt, num_layers: 2, hidden_size: 256, num_attention_heads: 4, "
                    "vocab_size: 1024, max_position_embeddings: 128") +
        experts +
        "}\ntraining: {seq_length: 128, micro_batch_size: 1, global_batch_size: 1, precision: bf16}\n"
        "cluster: {from: dgx_h100, nodes: 1, gpus_per_node: 1}\n");
    return compute_seconds(job) / 0.01;
  };
  const double more = launches(", num_experts: 4, moe_router_topk: 2") - launches("");
  CHECK(more > 2 * 45);
  CHECK(more < 2 * 60);
}

// Two layers of four experts: fc1 and fc2 and of each two gradients are 6 products, so 2 x 6 x 4 parts.
TEST_CASE("experts' products are issued one by one where the framework says what each costs the host") {
  const auto seconds = [](const char* each, int experts_per_rank) {
    return compute_seconds(job_from(fmt::format(
        "simrun: 1\nframework: {{kernels: {{host_dispatch: 10 ms, expert_dispatch: {}}}}}\n"
        "model: {{model_type: gpt, num_layers: 2, hidden_size: 256, num_attention_heads: 4, "
        "vocab_size: 1024, max_position_embeddings: 128, num_experts: 4, moe_router_topk: 2}}\n"
        "training: {{seq_length: 128, micro_batch_size: 1, global_batch_size: {}, precision: bf16}}\n"
        "parallelism: {{expert_model_parallel_size: {}}}\n"
        "cluster: {{from: dgx_h100, nodes: 1, gpus_per_node: {}}}\n",
        each, 4 / experts_per_rank, 4 / experts_per_rank, 4 / experts_per_rank)));
  };
  CHECK(seconds("5 ms", 4) - seconds("0 us", 4) == Approx(2 * 6 * 4 * 0.005).epsilon(1e-6));
  CHECK(seconds("5 ms", 2) - seconds("0 us", 2) == Approx(2 * 6 * 2 * 0.005).epsilon(1e-6));
  CHECK(seconds("5 ms", 1) == seconds("0 us", 1));  // a product like any other
}

TEST_CASE("a sum of times stops at half of what 64 bits hold") {
  const Picoseconds half = std::numeric_limits<Picoseconds>::max() / 2;
  CHECK(saturated_sum(2, 3) == 5);
  CHECK(saturated_sum(half, half) == half);
}

}  // namespace simrun
