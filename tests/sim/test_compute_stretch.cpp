// What a framework makes kernels take: sim/compute_stretch.h.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <limits>

#include "schedules/compile.h"
#include "schedules/summary.h"
#include "sim/compute_stretch.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

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

TEST_CASE("a sum of times stops at half of what 64 bits hold") {
  const Picoseconds half = std::numeric_limits<Picoseconds>::max() / 2;
  CHECK(saturated_sum(2, 3) == 5);
  CHECK(saturated_sum(half, half) == half);
}

}  // namespace simrun
