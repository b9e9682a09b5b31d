#pragma once

#include <functional>
#include <optional>
#include <string>

namespace simrun {

// How this process was started: alone, or as one of several by mpirun, srun, torchrun or by hand.
struct Launch {
  int process = 0;
  int processes = 1;
  std::string from;   // the variable that says so ("OMPI_COMM_WORLD_RANK"); empty: started alone
  std::string error;  // what is wrong with the variables; empty: nothing
};

// Looks for SIMRUN_RANK with SIMRUN_WORLD, then OMPI_COMM_WORLD_RANK and _SIZE (mpirun of Open MPI),
// PMIX_RANK with SLURM_NTASKS or OMPI_COMM_WORLD_SIZE (srun --mpi=pmix), SLURM_PROCID with SLURM_NTASKS
// (srun; within a job step only), RANK with WORLD_SIZE (torchrun): the first whose number of a process is set
// decides. `variable` gives an environment variable's value.
Launch detect_launch(const std::function<std::optional<std::string>(const char*)>& variable);
Launch detect_launch();  // of this process's environment

}  // namespace simrun
