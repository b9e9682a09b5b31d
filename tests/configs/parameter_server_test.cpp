#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "configs/load_job.h"

namespace simrun {
namespace {

std::string job_text(const std::string& optimizer, const std::string& parallelism = "{}") {
  return "simrun: 1\n"
         "model: {from: gpt2}\n"
         "training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 16, precision: bf16}\n"
         "parallelism: " +
         parallelism + "\noptimizer: " + optimizer + "\ncluster: {from: dgx_a100, nodes: 1}\n";
}

LoadedJob loaded(const std::string& text) {
  LoadOptions options;
  options.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  return load_job_text(text, "test.yaml", options);
}

// "line:column message -> hint" of every problem.
std::vector<std::string> problem_lines(const std::string& text) {
  std::vector<std::string> lines;
  try {
    loaded(text);
  } catch (const ConfigError& error) {
    for (const Diagnostic& problem : error.diagnostics())
      lines.push_back(std::to_string(problem.position.line) + ":" + std::to_string(problem.position.column) +
                      " " + problem.message + " -> " + problem.hint);
  }
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("parameter_server: dedicated servers are GPUs that are no data-parallel ranks") {
  const std::string keys = "{clip_grad: 0, parameter_server: {servers: ";
  CHECK(loaded(job_text(keys + "4}}")).job.parallelism.data_parallel_size == 8);
  CHECK(loaded(job_text(keys + "4, placement: dedicated}}")).job.parallelism.data_parallel_size == 4);
  CHECK(loaded(job_text("{}")).job.optimizer.parameter_server == std::nullopt);
}

TEST_CASE("parameter_server: --print-config gives the same job") {
  for (const char* keys : {"servers: 2", "servers: 4, placement: dedicated, mode: asynchronous",
                           "servers: 8, mode: bounded_staleness, staleness: 3"}) {
    const LoadedJob first = loaded(job_text("{clip_grad: 0, parameter_server: {" + std::string(keys) + "}}"));
    const LoadedJob again = loaded(first.effective_yaml);
    CAPTURE(first.effective_yaml);
    CHECK(again.job == first.job);
    CHECK(again.job.config_sha256 == first.job.config_sha256);
  }
}

TEST_CASE("parameter_server: what does not go together is said with its place and one way out") {
  const auto of = [](const std::string& keys) {
    return problem_lines(job_text("{clip_grad: 0, parameter_server: {" + keys + "}}"));
  };
  CHECK(of("servers: 0") ==
        Lines{"5:55 'optimizer.parameter_server.servers': must be at least 1, not 0 -> "});
  CHECK(
      of("mode: synchronous") ==
      Lines{
          "5:27 missing required key 'servers' in 'optimizer.parameter_server' -> servers: a whole number."});
  CHECK(of("servers: 9") == Lines{"5:55 9 colocated servers do not fit on 8 data-parallel ranks -> at most "
                                  "8, or placement: dedicated."});
  CHECK(of("servers: 8, placement: dedicated") ==
        Lines{"5:55 8 dedicated servers leave no worker on 8 GPUs -> more nodes, fewer servers, or "
              "placement: colocated."});
  CHECK(of("servers: 7, placement: dedicated") ==
        Lines{"5:27 one data-parallel rank has nobody to add its gradients to -> leave parameter_server "
              "out."});
  CHECK(of("servers: 2, staleness: 1") ==
        Lines{"5:69 staleness means nothing with mode: synchronous -> it belongs to mode: "
              "bounded_staleness."});
  CHECK(of("servers: 2, mode: bounded_staleness") ==
        Lines{"5:27 missing required key 'staleness' in 'optimizer.parameter_server' -> staleness: a whole "
              "number."});
  CHECK(of("servers: 2, mode: bounded_staleness, staleness: 0") ==
        Lines{"5:94 a staleness of 0 waits for every step -> that is mode: synchronous."});
  CHECK(of("servers: 2, mode: async").size() == 1);
  CHECK(
      problem_lines(job_text("{parameter_server: {servers: 2, mode: asynchronous}}")) ==
      Lines{"5:50 the norm of all gradients is not known in mode: asynchronous -> optimizer.clip_grad: 0."});
  CHECK(problem_lines(job_text("{zero_stage: 1, all_reduce: hierarchical, name: muon, parameter_server: "
                               "{servers: 2}}"))
            .size() >= 3);
  CHECK(problem_lines(job_text("{clip_grad: 0, parameter_server: {servers: 2}}",
                               "{pipeline_model_parallel_size: 2}")) ==
        Lines{"4:45 parameter servers with pipeline_model_parallel_size 2 are not supported yet -> "
              "pipeline_model_parallel_size: 1."});
  CHECK(problem_lines(job_text("{clip_grad: 0, parameter_server: {servers: 4, placement: dedicated}}",
                               "{tensor_model_parallel_size: 2}")) ==
        Lines{"4:43 dedicated servers of tensor-parallel workers are not supported yet -> placement: "
              "colocated."});
  CHECK(problem_lines(job_text("{parameter_server: 3}")).size() == 1);
}

TEST_CASE(
    "bucket_bytes: buckets in bytes of what is reduced, as DDP's bucket_cap_mb and Horovod's threshold") {
  const auto elements = [](const std::string& keys) {
    return loaded(job_text("{overlap_grad_reduce: true, " + keys + "}")).job.optimizer.bucket_size;
  };
  CHECK(elements("bucket_bytes: 25 MiB") == 25 * 1024 * 1024 / 4);
  CHECK(elements("bucket_bytes: 25 MiB, grad_reduce_dtype: bf16") == 25 * 1024 * 1024 / 2);
  CHECK(elements("bucket_size: 7") == 7);
  CHECK(elements("zero_stage: 1") == 40'000'000);  // Megatron-LM's default
  const LoadedJob first = loaded(job_text("{overlap_grad_reduce: true, bucket_bytes: 64 MiB}"));
  CHECK(loaded(first.effective_yaml).job == first.job);
  CHECK(problem_lines(job_text("{bucket_bytes: 25 MiB, bucket_size: 7}")) ==
        Lines{"5:27 bucket_size says how large a bucket is already -> leave one of the two out."});
  CHECK(problem_lines(job_text("{bucket_bytes: 25}")).size() == 1);
  CHECK(problem_lines(job_text("{bucket_cap_mb: 25}")) ==
        Lines{"5:13 unknown key 'bucket_cap_mb' in 'optimizer' -> PyTorch's DDP calls it so; here it is "
              "optimizer.bucket_bytes, as 25 MiB."});
}

}  // namespace simrun
