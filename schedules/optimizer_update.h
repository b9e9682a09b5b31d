#pragma once

#include <vector>

#include "schedules/step_segments.h"
#include "schedules/workspace_buffers.h"

namespace simrun {

// What the update of one bucket needs. `norm`: of all gradients, to clip by; no_index: none.
struct UpdateContext {
  const StepContext& step;
  Plan& plan;
  CommunicationTable& table;
  MatrixWorkspace& workspace;
  Index norm = no_index;
};

// The optimizer's kernels over what a rank owns of a bucket: they read gradients and state, and write state
// and weights. Adam and sgd are one kernel (a fused multi-tensor one, as Apex's and PyTorch's); for the
// others see adafactor_update.h and muon_update.h.
std::vector<Instruction> optimizer_update(const UpdateContext& context, const ParameterBucket& bucket);

// Numbers of an update (backend/operations.h, OPTIMIZER): the norm to clip to (0: not), learning rate, Adam's
// beta1, beta2 and epsilon, weight decay, momentum.
std::vector<double> update_constants(const UpdateContext& context);

// The last kernel of an update: from the gradients (or what an optimizer made of them) and all state.
Instruction update_kernel(const UpdateContext& context, const ParameterBucket& bucket, Function function,
                          Index gradients);

}  // namespace simrun
