#pragma once

#include <optional>
#include <string>

#include "configs/measured_config.h"
#include "models/opcode.h"
#include "schedules/plan.h"
#include "sim/kernel_cost.h"

// Times from rates that were measured (configs/measured_config.h), in place of the model of kernels.
namespace simrun {

// "map_gelu", "norm_backward_rms_norm", "gather": a kernel of rows in MeasuredKernels::kernels.
std::string kernel_name(const Instruction& instruction);

// Seconds of a compute instruction without its launch; nothing where its kind was not measured. Between sizes
// the logarithm of the rate is interpolated along the logarithm of each size, beyond them it stays:
//   GEMM        2 m n k x batch at the rate of (m, n, k)
//   attention   flash, by queries and head_dim; FLOPs that the mask leaves, a full one at the same rate
//   others      bytes at the kernel's own rate
std::optional<double> measured_seconds(const Plan& plan, const Instruction& instruction);

// FLOP/s of a product in a table that is not empty.
double measured_product_rate(const MeasuredKernels& measured, const GemmShape& shape);

// Latency and bandwidth over so many ranks: between two measured numbers of ranks along a line, beyond them
// latency grows with the ranks. Nothing where the exchange was not measured.
std::optional<MeasuredExchange> measured_exchange(const MeasuredExchanges& measured, Opcode opcode,
                                                  std::int64_t ranks);

}  // namespace simrun
