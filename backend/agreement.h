#pragma once

#include <string>

#include "backend/execute.h"

namespace simrun {

// How far a run may be from the unsharded one: the loss of a step as |a - b| / |b|, gradients and parameters
// as ||a - b|| / max(||b||, 1e-3 rms sqrt(n)), tensor by tensor (backend/parameter_values.h). What 0 is
// allowed of is told, and not held to account.
struct AgreementTolerance {
  double loss = 0;          // of the first step
  double gradients = 0;     // of the first step
  double parameters = 0;    // behind the last step
  double further_loss = 0;  // of the steps behind the first
};

// f64: 1e-10 for everything. f32: 1e-5 for loss and gradients; bf16 and fp16, against f32: 0.2 % of the loss
// and 5 % of a tensor's gradient. Their parameters are told only: an Adam step divides gradients by their own
// size, so that the noise of one that is truly zero moves its parameter by as much as a true one would.
AgreementTolerance tolerance_of(ExecutionDevice device);
// Adafactor does so in f64, too, where 1e-30 beside a squared gradient is no more than its noise: of a plan
// that updates by it parameters are held to 1e-4, and of losses the first step's.
AgreementTolerance tolerance_of(ExecutionDevice device, const Plan& plan);

struct Agreement {
  double loss_error = 0;  // largest over all steps
  ValueDifference gradients, parameters;
  std::string fault;  // what is further apart than the tolerance allows; empty: they agree
};

// What ranks that hold the same element say of it must be the same, whatever it should be: "" or by how much
// it is not, by the tensor's largest.
std::string replica_fault(const Execution& run, const AgreementTolerance& within);

Agreement agreement(const Execution& run, const Execution& reference, const AgreementTolerance& within);

}  // namespace simrun
