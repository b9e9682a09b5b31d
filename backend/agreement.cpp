#include "backend/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace simrun {
namespace {

double relative(double a, double b) { return std::abs(a - b) / std::max(std::abs(b), 1e-300); }

// The larger; what is not a number is larger than anything.
double worse(double a, double b) { return b > a || std::isnan(b) ? b : a; }

std::string fault_of(const Agreement& agreed, double first_loss, const AgreementTolerance& within) {
  const std::int64_t missing = agreed.gradients.missing + agreed.parameters.missing;
  if (missing > 0)
    return fmt::format("{} elements of gradients and parameters are on no rank or not in the model", missing);
  if (!(agreed.gradients.error <= within.gradients))
    return fmt::format(
        "the gradient of '{}' differs, the first in backward order; the worst, of '{}', by {:.2g}",
        agreed.gradients.first, agreed.gradients.worst, agreed.gradients.error);
  if (!(first_loss <= within.loss)) return fmt::format("the loss differs by {:.2g}", first_loss);
  if (within.further_loss > 0 && !(agreed.loss_error <= within.further_loss))
    return fmt::format("the loss differs by {:.2g}", agreed.loss_error);
  if (within.parameters > 0 && !(agreed.parameters.error <= within.parameters))
    return fmt::format(
        "the updated parameter '{}' differs, the first in backward order; the worst, '{}', by {:.2g}",
        agreed.parameters.first, agreed.parameters.worst, agreed.parameters.error);
  return "";
}

bool updates_by(const Plan& plan, Function rule) {
  return std::ranges::any_of(plan.segments, [&](const Segment& segment) {
    return std::ranges::any_of(segment.instructions,
                               [&](const Instruction& instruction) { return instruction.function == rule; });
  });
}

// Blocks of moments in 8 bits are cut from what a rank has of them: shards share other scales than one rank.
bool has_moments_in_blocks(const Plan& plan) {
  return std::ranges::any_of(plan.segments, [&](const Segment& segment) {
    return std::ranges::any_of(segment.instructions, [&](const Instruction& instruction) {
      return instruction.opcode == Opcode::optimizer &&
             std::ranges::any_of(instruction.outputs,
                                 [&](Index output) { return plan.buffers[output].dtype == Dtype::uint8; });
    });
  });
}

}  // namespace

AgreementTolerance tolerance_of(ExecutionDevice device) {
  switch (device) {
    case ExecutionDevice::cuda_f64:
    case ExecutionDevice::cpu_f64: return {1e-10, 1e-10, 1e-10, 1e-10};
    case ExecutionDevice::cpu_f32: return {1e-5, 1e-5, 0, 0};
    case ExecutionDevice::cuda_f32: return {1e-4, 1e-4, 0, 0};
    case ExecutionDevice::cuda_half:
    case ExecutionDevice::cpu_half: return {2e-3, 5e-2, 0, 0};
    case ExecutionDevice::null: break;
  }
  return {};
}

AgreementTolerance tolerance_of(ExecutionDevice device, const Plan& plan) {
  AgreementTolerance within = tolerance_of(device);
  if (within.parameters > 0 && updates_by(plan, Function::adafactor)) {
    within.parameters = 1e-4;
    within.further_loss = 0;
  }
  if (within.parameters > 0 && has_moments_in_blocks(plan)) {
    within.parameters = 0.02;
    within.further_loss = 0;
  }
  return within;
}

std::string replica_fault(const Execution& run, const AgreementTolerance& within) {
  const double apart = worse(run.gradients.replica_difference(), run.parameters.replica_difference());
  if (apart <= within.gradients) return "";
  const auto lost = std::ranges::find_if_not(run.loss, [](double loss) { return std::isfinite(loss); });
  if (std::isnan(apart) && lost != run.loss.end())
    return fmt::format(
        "the loss of step {} is no finite number: the run diverged, and cannot be compared; a smaller "
        "--learning-rate may help",
        lost - run.loss.begin() + 1);
  return fmt::format("ranks that hold the same gradient or parameter differ by {:.2g} of it", apart);
}

Agreement agreement(const Execution& run, const Execution& reference, const AgreementTolerance& within) {
  Agreement agreed;
  agreed.gradients = compare(run.gradients, reference.gradients, within.gradients);
  agreed.parameters = compare(run.parameters, reference.parameters, within.parameters);
  for (std::size_t step = 0; step < reference.loss.size(); ++step)
    agreed.loss_error = worse(agreed.loss_error, relative(run.loss.at(step), reference.loss[step]));
  const double first_loss = run.loss.empty() ? 0 : relative(run.loss.front(), reference.loss.front());
  agreed.fault = fault_of(agreed, first_loss, within);
  return agreed;
}

}  // namespace simrun
