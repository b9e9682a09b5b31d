#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/math.h"
#include "backend/quantised_moment.h"
#include "schedules/update_operands.h"

namespace simrun::cpu {
namespace {

// What an update reads and writes, by the order of operands (schedules/optimizer_update.cpp).
template <class Real>
struct Update {
  const Real* gradient = nullptr;
  Real* weights = nullptr;
  std::vector<StoredMoment<Real>> moments;
  Real* main = nullptr;  // the weights themselves where there are no others
  double clip = 1;
  std::int64_t count = 0;
};

// The second moment alone is never negative. Scales are the last outputs, moment by moment.
template <class Real>
std::vector<StoredMoment<Real>> moments_in(const KernelCall& call, std::int64_t count) {
  std::vector<StoredMoment<Real>> moments;
  const std::size_t stored = moments_of(call.what);
  std::size_t scales = 1 + stored + (main_weights_of(call.plan, call.what) ? 1 : 0);
  for (std::size_t o = 1; o <= stored; ++o) {
    const Argument& moment = call.outputs.at(o);
    if (moment.buffer->dtype == Dtype::uint8)
      moments.emplace_back(static_cast<std::uint8_t*>(moment.data), reals<Real>(call.outputs.at(scales++)),
                           o == 1, count);
    else
      moments.emplace_back(reals<Real>(moment), count);
  }
  return moments;
}

template <class Real>
Update<Real> update_of(const KernelCall& call) {
  Update<Real> update;
  update.gradient = reals<Real>(call.inputs[0]);
  update.weights = update.main = reals<Real>(call.outputs[0]);
  update.count = elements(call.outputs[0].part);
  update.moments = moments_in<Real>(call, update.count);
  if (const auto main = main_weights_of(call.plan, call.what))
    update.main = reals<Real>(call.outputs.at(*main));
  update.clip = clip_factor<Real>(call);
  return update;
}

// Calls change(gradient, weight, moments of the element) for all elements and stores what it leaves.
template <class Real, class Change>
void for_each_element(Update<Real>& update, Change change) {
  std::vector<typename StoredMoment<Real>::Block> blocks(update.moments.size());
  std::array<double, 2> moments{};
  for (std::int64_t block = 0; block * moment_block < update.count; ++block) {
    for (std::size_t m = 0; m < blocks.size(); ++m) update.moments[m].load(block, blocks[m]);
    const std::int64_t begin = block * moment_block, end = std::min(begin + moment_block, update.count);
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i - begin);
      for (std::size_t m = 0; m < blocks.size(); ++m) moments[m] = blocks[m][at];
      auto weight = static_cast<double>(update.main[i]);
      change(static_cast<double>(update.gradient[i]) * update.clip, weight, moments);
      update.main[i] = static_cast<Real>(weight);
      for (std::size_t m = 0; m < blocks.size(); ++m) blocks[m][at] = moments[m];
    }
    for (std::size_t m = 0; m < blocks.size(); ++m) update.moments[m].store(block, blocks[m]);
  }
}

// Of moments as they are.
template <class Real>
void plain_adam(const KernelCall& call, Update<Real>& update) {
  const Hyperparameters& with = call.training;
  const auto steps = static_cast<double>(call.step + 1);
  AdamUpdate<Real> of{
      .count = update.count, .gradient = update.gradient, .first = update.moments[0].numbers()};
  of.second = update.moments[1].numbers();
  of.weights = update.main;
  of.clip = update.clip;
  of.beta1 = with.beta1;
  of.beta2 = with.beta2;
  of.epsilon = with.epsilon;
  of.rate = with.learning_rate;
  of.decay = with.weight_decay;
  of.first_correction = 1 / (1 - std::pow(with.beta1, steps));
  of.second_correction = 1 / (1 - std::pow(with.beta2, steps));
  math<Real>().adam(of);
}

template <class Real>
void adam(const KernelCall& call, Update<Real>& update) {
  const Hyperparameters& with = call.training;
  const auto steps = static_cast<double>(call.step + 1);
  const double first = 1 / (1 - std::pow(with.beta1, steps)), second = 1 / (1 - std::pow(with.beta2, steps));
  for_each_element(update, [&](double g, double& w, std::array<double, 2>& moments) {
    auto& [m, v] = moments;
    m = with.beta1 * m + (1 - with.beta1) * g;
    v = with.beta2 * v + (1 - with.beta2) * g * g;
    w -= with.learning_rate * (m * first / (std::sqrt(v * second) + with.epsilon) + with.weight_decay * w);
  });
}

template <class Real>
void sgd(const KernelCall& call, Update<Real>& update) {
  const Hyperparameters& with = call.training;
  const bool has_momentum = !update.moments.empty();
  for_each_element(update, [&](double g, double& w, std::array<double, 2>& moments) {
    g += with.weight_decay * w;
    if (has_momentum) g = moments[0] = g + with.momentum * moments[0];
    w -= with.learning_rate * g;
  });
}

// The orthogonalised update is the gradient here.
template <class Real>
void muon(const KernelCall& call, Update<Real>& update) {
  const Hyperparameters& with = call.training;
  for_each_element(update, [&](double g, double& w, std::array<double, 2>&) {
    w -= with.learning_rate * (g + with.weight_decay * w);
  });
}

// in0 = gradients, out0 = their update, out1 = momentum (, its scales).
template <class Real>
void muon_momentum(const KernelCall& call) {
  Update<Real> update;
  update.gradient = reals<Real>(call.inputs[0]);
  update.main = reals<Real>(call.outputs[0]);
  update.count = elements(call.outputs[0].part);
  const Argument& moment = call.outputs[1];
  if (moment.buffer->dtype == Dtype::uint8)
    update.moments.emplace_back(static_cast<std::uint8_t*>(moment.data), reals<Real>(call.outputs.at(2)),
                                true, update.count);
  else
    update.moments.emplace_back(reals<Real>(moment), update.count);
  update.clip = clip_factor<Real>(call);
  const double momentum = call.training.momentum;
  for_each_element(update, [&](double g, double& to, std::array<double, 2>& moments) {
    moments[0] = momentum * moments[0] + g;
    to = g + momentum * moments[0];
  });
}

}  // namespace

template <class Real>
void run_optimizer(const KernelCall& call) {
  const bool updates = call.outputs[0].buffer->category == Category::weights;
  if (call.what.function == Function::adafactor) return run_adafactor<Real>(call);
  if (call.what.function == Function::muon && !updates) return muon_momentum<Real>(call);
  Update<Real> update = update_of<Real>(call);
  switch (call.what.function) {
    case Function::sgd: sgd(call, update); break;
    case Function::muon: muon(call, update); break;
    default:
      if (update.moments[0].numbers() != nullptr && update.moments[1].numbers() != nullptr)
        plain_adam(call, update);
      else
        adam(call, update);
  }
  if (update.main != update.weights) std::copy_n(update.main, update.count, update.weights);
}

template void run_optimizer<float>(const KernelCall&);
template void run_optimizer<double>(const KernelCall&);

}  // namespace simrun::cpu
