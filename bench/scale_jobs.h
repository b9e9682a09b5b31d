#pragma once

#include <cstdint>

#include "configs/job.h"

namespace simrun {

// Llama 3 405B on tensor 8 x pipeline 16 x data `data_parallel` DGX H100 GPUs, 16 microbatches of one
// sequence of 8,192 tokens, 1F1B, ZeRO-1 with overlapped gradient reduction.
Job llama3_405b(std::int64_t data_parallel);

// DeepSeek-V3 on 2,048 H100 as its report has it (arXiv 2412.19437, section 3.2): pipeline 16 x data 128,
// experts over 64 of these, no tensor parallelism, ZeRO-1; `global_batch_size` sequences of 4,096 tokens, one
// per microbatch.
Job deepseek_v3(const char* schedule, std::int64_t global_batch_size);

// Of configs/jobs.
Job shipped_job(const char* name);

}  // namespace simrun
