#pragma once

#include <string>
#include <vector>

#include "configs/diagnostics.h"

namespace simrun {

// What a "#SBATCH --nodes=64" asks Slurm for: the long name of the option, and where its value is written.
struct SbatchOption {
  std::string name;  // nodes
  std::string value;
  SourcePosition position;
};

// nodes, ntasks, ntasks-per-node and gpus-per-node, in order; also as -N and -n. Of GPUs with their type
// (h100:8) the number. `--gres=gpu:8` is gres, of which GPUs alone count; `gpu` and `gpu:h100` are one.
std::vector<SbatchOption> sbatch_options(const std::string& text, const std::string& file);

// A variable of a batch script's environment, as sbatch sets it.
struct SlurmVariable {
  std::string name;  // SLURM_NNODES
  std::string value;
  SourcePosition position;
};

// Those that follow from whole numbers of #SBATCH lines.
std::vector<SlurmVariable> slurm_variables(const std::string& text, const std::string& file);

}  // namespace simrun
