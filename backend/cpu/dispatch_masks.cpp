#include <algorithm>
#include <optional>

#include "backend/cpu/experts.h"
#include "backend/cpu/kernels.h"
#include "backend/expert_capacity.h"

// Masks by which tokens become experts' rows, and rows tokens again (GShard, arXiv 2006.16668, appendix A).
namespace simrun::cpu {
namespace {

// Of a Plan file's numbers one may be no expert.
bool is_expert(std::int64_t chosen, std::int64_t of_expert, std::int64_t places) {
  return chosen >= 0 && chosen < places / of_expert;
}

}  // namespace

template <class Real>
void run_dispatch_masks(const KernelCall& call) {
  const Argument &probabilities = call.inputs[0], &indices = call.inputs[1];
  const std::int64_t batch = indices.part[0].extent, sequence = indices.part[1].extent;
  const std::int64_t topk = last_extent(indices), places = last_extent(call.outputs[0]);
  const auto of_expert = static_cast<std::int64_t>(call.what.constants.at(3));
  Real *combine = reals<Real>(call.outputs[0]), *dispatch = reals<Real>(call.outputs[1]);
  std::fill_n(combine, batch * sequence * places, Real{0});
  std::fill_n(dispatch, batch * sequence * places, Real{0});
  ExpertCapacity capacity(call.what.constants, sequence, 0);
  const auto* chosen = static_cast<const std::int32_t*>(indices.data);
  for (std::int64_t token = 0; token < batch * sequence; ++token) {
    capacity.begin_token(token % sequence);
    for (std::int64_t choice = token * topk; choice < (token + 1) * topk; ++choice) {
      if (!is_expert(chosen[choice], of_expert, places)) continue;
      const std::optional<std::int64_t> row = capacity.take(chosen[choice]);
      if (!row) continue;
      const std::int64_t place = token * places + chosen[choice] * of_expert + *row;
      combine[place] = reals<Real>(probabilities)[choice];
      dispatch[place] = 1;
    }
  }
}

// A token has one place with an expert at most: where the others are 0, their sum is its gradient.
template <class Real>
void run_dispatch_masks_backward(const KernelCall& call) {
  const Argument &gradient = call.inputs[0], &indices = call.inputs[1], &out = call.outputs[0];
  const std::int64_t topk = last_extent(indices), places = last_extent(gradient);
  const auto of_expert = static_cast<std::int64_t>(call.what.constants.at(3));
  const auto* chosen = static_cast<const std::int32_t*>(indices.data);
  for (std::int64_t choice = 0; choice < rows_of(indices) * topk; ++choice) {
    Real sum = 0;
    if (is_expert(chosen[choice], of_expert, places)) {
      const Real* from = reals<Real>(gradient) + choice / topk * places + chosen[choice] * of_expert;
      for (std::int64_t i = 0; i < of_expert; ++i) sum += from[i];
    }
    reals<Real>(out)[choice] = sum;
  }
}

template void run_dispatch_masks<float>(const KernelCall&);
template void run_dispatch_masks<double>(const KernelCall&);
template void run_dispatch_masks_backward<float>(const KernelCall&);
template void run_dispatch_masks_backward<double>(const KernelCall&);

}  // namespace simrun::cpu
