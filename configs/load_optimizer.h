#pragma once

#include "configs/section_reader.h"
#include "configs/training_config.h"

namespace simrun {

// optimizer.name, its numbers (lr, weight_decay) and the keys of that rule alone (sgd_momentum, adam_beta1).
void read_update_rule(SectionReader& section, OptimizerConfig& optimizer);

// main_params_dtype, main_grads_dtype, exp_avg_dtype, exp_avg_sq_dtype and grad_reduce_dtype. What the rule
// does not keep has no type: such a key is refused.
void read_state_types(SectionReader& section, Dtype precision, OptimizerConfig& optimizer);

}  // namespace simrun
