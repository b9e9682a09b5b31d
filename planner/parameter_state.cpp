#include "planner/parameter_state.h"

namespace simrun {
namespace {

double moments(const OptimizerConfig& optimizer) {
  const auto first = static_cast<double>(bytes_of(optimizer.exp_avg_dtype));
  switch (optimizer.name) {
    case UpdateRule::sgd: return optimizer.sgd_momentum > 0 ? first : 0;
    case UpdateRule::adafactor: return 0;
    case UpdateRule::muon: return first;
    default: return first + static_cast<double>(bytes_of(optimizer.exp_avg_sq_dtype));
  }
}

}  // namespace

ParameterState parameter_state(const Job& job) {
  const bool has_main = job.optimizer.main_params_dtype && job.training.precision != Dtype::fp32;
  ParameterState state;
  state.weights = static_cast<double>(bytes_of(job.training.precision));
  state.gradients = static_cast<double>(bytes_of(job.optimizer.main_grads_dtype));
  state.optimizer = moments(job.optimizer) +
                    (has_main ? static_cast<double>(bytes_of(*job.optimizer.main_params_dtype)) : 0);
  return state;
}

}  // namespace simrun
