#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <numeric>
#include <string>

#include "backend/execute.h"
#include "backend/tensor_part.h"
#include "schedules/compile.h"
#include "sim/memory.h"
#include "tests/allocation/allocation_counts.h"
#include "tests/jobs.h"

// What ranks really allocate, counted by hooks that know of no plan.
namespace simrun {
namespace {

std::vector<std::int64_t> predicted_peaks(const Plan& plan) {
  std::vector<std::int64_t> peaks;
  for (const RankPlace& place : ranks_of(plan)) {
    const Program& program = plan.programs[static_cast<std::size_t>(place.pipeline_rank)];
    std::int64_t most = 0;
    for (const WhichStep step : {WhichStep::first, WhichStep::steady})
      most = std::max(most, walk_memory(plan, program, step, MemoryDetail::peak, {place.local}).peak.bytes);
    peaks.push_back(most);
  }
  std::sort(peaks.begin(), peaks.end());
  return peaks;
}

// In f32, so that the CPU stores what the plan says; gradients and parameters are not kept to be compared.
AllocationCounts allocations_of(const Plan& plan) {
  ExecuteOptions options;
  options.device = ExecutionDevice::cpu_f32;
  options.steps = 2;
  options.compares = false;
  std::string failure;
  const AllocationCounts counts = count_allocations([&] { failure = execute(plan, options).failure; });
  CHECK(failure == "");
  return counts;
}

std::string text_job(const std::string& model, const std::string& parallelism, const std::string& rest,
                     int tokens, int gpus) {
  return "simrun: 1\nmodel: {" + model + "}\ntraining: {seq_length: " + std::to_string(tokens) +
         ", micro_batch_size: 1, global_batch_size: 8, precision: fp32}\nparallelism: {" + parallelism +
         "}\n" + rest + "cluster: {from: dgx_a100, nodes: 1, gpus_per_node: " + std::to_string(gpus) + "}\n";
}

const std::string tiny =
    "model_type: llama, num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, "
    "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 50, max_position_embeddings: 16";

}  // namespace

TEST_CASE("the hooks see every byte: of malloc, of operator new, and of device memory by thread") {
  // Through volatile pointers: an allocation that nobody sees may be optimised away.
  const AllocationCounts counts = count_allocations([] {
    char* volatile const a = new char[100'000];
    void* volatile const b = std::malloc(50'000);
    std::free(b);
    delete[] a;
  });
  CHECK(counts.device_peaks.empty());
  CHECK(counts.other_peak >= 150'000);
  CHECK(counts.other_peak < 160'000);
}

TEST_CASE("every rank takes to the byte what the simulator predicts, by a count that knows of no plan") {
  struct Case {
    const char *parallelism, *rest;
    int gpus;
  };
  for (const Case& c :
       {Case{"", "", 1}, Case{"tensor_model_parallel_size: 2, sequence_parallel: true", "", 4},
        Case{"pipeline_model_parallel_size: 2, pipeline_schedule: dualpipe", "optimizer: {zero_stage: 1}\n",
             4},
        Case{"pipeline_model_parallel_size: 2, pipeline_schedule: zb_h1",
             "recompute: {granularity: selective}\n", 2},
        Case{"tensor_model_parallel_size: 2, sequence_parallel: true",
             "recompute: {granularity: selective, saved: [qkv]}\n", 2},
        Case{"context_parallel_size: 2", "optimizer: {zero_stage: 3}\n", 4},
        Case{"context_parallel_size: 2, cp_comm_type: a2a, tensor_model_parallel_size: 1",
             "optimizer: {zero_stage: 2}\nrecompute: {granularity: full}\n", 4}}) {
    CAPTURE(c.parallelism, c.rest);
    const Plan plan = compile(job_from(text_job(tiny, c.parallelism, c.rest, 16, c.gpus)));
    CHECK(allocations_of(plan).device_peaks == predicted_peaks(plan));
  }
}

TEST_CASE("outside device memory a run of a model of some size takes less than a percent") {
  // 12 x 4 layers x 1152^2 = 63.7 M parameters and the words, 16 B each: a rank's messages and packed blocks
  // of matrices are about 1 MB.
  const std::string model =
      "model_type: gpt, num_layers: 4, hidden_size: 1152, num_attention_heads: 8, vocab_size: 2048, "
      "max_position_embeddings: 256, hidden_dropout: 0, attention_dropout: 0";
  for (const char* parallelism : {"tensor_model_parallel_size: 2", "pipeline_model_parallel_size: 2"}) {
    CAPTURE(parallelism);
    const Plan plan = compile(job_from(text_job(model, parallelism, "", 32, 2)));
    const AllocationCounts counts = allocations_of(plan);
    const std::int64_t device =
        std::accumulate(counts.device_peaks.begin(), counts.device_peaks.end(), std::int64_t{0});
    CHECK(counts.device_peaks == predicted_peaks(plan));
    CAPTURE(counts.other_peak, device);
    CHECK(static_cast<double>(counts.other_peak) < 0.01 * static_cast<double>(device));
  }
}

}  // namespace simrun
