#include "bench/scale_jobs.h"

#include <fmt/format.h>

#include <string>

#include "configs/load_job.h"

namespace simrun {

namespace {

Job job_of(const std::string& text, const char* name) {
  LoadOptions options;
  options.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  return load_job_text(text, name, options).job;
}

}  // namespace

Job llama3_405b(std::int64_t data_parallel) {
  return job_of(fmt::format(R"(simrun: 1
model: {{from: llama3-405b}}
training: {{seq_length: 8192, micro_batch_size: 1, global_batch_size: {}, precision: bf16}}
parallelism:
  tensor_model_parallel_size: 8
  pipeline_model_parallel_size: 16
  pipeline_model_parallel_layout: "Et*7|(t*8|)*14t*7L"
  sequence_parallel: true
  pipeline_schedule: 1f1b
optimizer: {{zero_stage: 1, overlap_grad_reduce: true, overlap_param_gather: true}}
cluster: {{from: dgx_h100, nodes: {}}}
)",
                            16 * data_parallel, 16 * data_parallel),
                "llama3-405b.yaml");
}

Job deepseek_v3(const char* schedule, std::int64_t global_batch_size) {
  return job_of(fmt::format(R"(simrun: 1
model: {{from: deepseek-v3}}
training: {{seq_length: 4096, micro_batch_size: 1, global_batch_size: {}, precision: bf16}}
parallelism:
  pipeline_model_parallel_size: 16
  pipeline_model_parallel_layout: "Et*3|(t*4|)*14t*2L"
  expert_model_parallel_size: 64
  pipeline_schedule: {}
optimizer: {{zero_stage: 1}}
cluster: {{from: dgx_h100, nodes: 256}}
)",
                            global_batch_size, schedule),
                "deepseek-v3.yaml");
}

Job shipped_job(const char* name) {
  LoadOptions options;
  options.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  return load_job(std::string(SIMRUN_SOURCE_DIR "/configs/jobs/") + name + ".yaml", options).job;
}

}  // namespace simrun
