#pragma once

#include <string>
#include <vector>

#include "configs/job.h"

namespace simrun {

struct MegatronFlag {
  std::string name;                 // --num-layers
  std::vector<std::string> values;  // none: a switch
};

struct MegatronFlagGroup {
  std::string name;  // of the script's array: MODEL_ARGS
  std::vector<MegatronFlag> flags;
};

// A job as arguments of Megatron-LM's pretrain_gpt.py.
struct MegatronArguments {
  std::vector<MegatronFlagGroup> groups;
  // What of the job no flag says, each a sentence that begins with the key: "parallelism.pipeline_schedule:
  // ...". The cluster's hardware, which Megatron-LM finds out by itself, is not among them.
  std::vector<std::string> unexpressed;
};

// Throws ConfigError for models that pretrain_gpt.py does not train (no decoder-only transformer), and for
// pipeline ranks of unlike size, which no arguments run.
MegatronArguments megatron_arguments(const Job& job);

// The groups of one section, and what they cannot say.
void add_megatron_model(const Job& job, MegatronArguments& arguments);
void add_megatron_experts(const Job& job, MegatronArguments& arguments);

// A script for bash that starts the job with torchrun: comments (origin of the names, what is not expressed),
// an array per group, the command. `version` is simrun's.
std::string megatron_script(const Job& job, const std::string& version);

}  // namespace simrun
