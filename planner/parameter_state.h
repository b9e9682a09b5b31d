#pragma once

#include "configs/job.h"

namespace simrun {

// Bytes per parameter of a rank's part, before any of it is sharded over the ranks that have equal parts.
struct ParameterState {
  double weights = 0, gradients = 0, optimizer = 0;
  // What a rank keeps under the job's ZeRO stage where so many ranks have the part (Rajbhandari et al. 2020,
  // section 5).
  double kept(int zero_stage, double ranks) const {
    return weights / (zero_stage >= 3 ? ranks : 1) + gradients / (zero_stage >= 2 ? ranks : 1) +
           optimizer / (zero_stage >= 1 ? ranks : 1);
  }
};

// Of trained matrices: schedules/optimizer_state.h, whose adafactor keeps next to nothing per parameter.
ParameterState parameter_state(const Job& job);

}  // namespace simrun
