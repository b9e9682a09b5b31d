#pragma once

#include <string>

#include "configs/load_job.h"

namespace simrun {

// What a DeepSpeed configuration (JSON, as deepspeed.initialize takes it) says of a job: batch, precision,
// ZeRO, offload, the update; as YAML. Model, sequence and cluster are not in it; where options.overrides give
// a model and a cluster, the whole job is checked, and printed with them. Defaults that simrun does not share
// are DeepSpeed's (deepspeed.ai/docs/config-json; gradients' types: deepspeed/runtime/engine.py,
// get_data_types). "auto" is read as if the key were not there, with a comment. Throws ConfigError with
// every problem at its key: what is unknown, wrong or not supported.
std::string import_deepspeed(const std::string& text, const std::string& file, const LoadOptions& options);

}  // namespace simrun
