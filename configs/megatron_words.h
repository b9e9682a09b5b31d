#pragma once

#include <optional>
#include <string>
#include <vector>

#include "configs/diagnostics.h"
#include "configs/shell_words.h"

namespace simrun {

// A flag as a file gives it, with the words behind it up to the next flag.
struct GivenFlag {
  std::string name;  // --num-layers
  SourcePosition position;
  std::vector<ShellWord> values;
  bool is_conditional = false;
};

// What a file says to Megatron-LM, in order; a flag that is given twice counts as given last. The flags of
// the launcher, --nnodes and --nproc-per-node (or #SBATCH --nodes and --gpus-per-node or --gres), are among
// them.
struct MegatronWords {
  std::vector<GivenFlag> flags;
  std::string program;  // pretrain_gpt.py; "" where none is named
};

// `text` is a script that starts a Python program (the arguments behind it, and those of torchrun in front of
// it), else a file of arguments in arrays or variables, or plain ones; or YAML (file name .yaml or .yml):
// flags with their values, at the top or under MODEL_ARGS, as the configs of Megatron-LM's functional tests
// (`true`: a switch; `false`: none). Of several programs it is the one named pretrain*.py, of which there may
// be one, else the last. Problems are appended.
MegatronWords read_megatron_words(const std::string& text, const std::string& file,
                                  std::vector<Diagnostic>& problems);

}  // namespace simrun
