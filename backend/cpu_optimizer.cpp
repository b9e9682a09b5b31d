#include <algorithm>
#include <cmath>

#include "backend/cpu_kernels.h"
#include "backend/cpu_math.h"

namespace simrun::cpu {
namespace {

// What an update reads and writes, by the order of operands (schedules/optimizer_update.cpp).
template <class Real>
struct Update {
  const Real* gradient = nullptr;
  Real* weights = nullptr;
  std::vector<Real*> moments;
  Real* main = nullptr;  // the weights themselves where there are no others
  double clip = 1;
  std::int64_t count = 0;
};

template <class Real>
Update<Real> update_of(const KernelCall& call) {
  const std::vector<Index>& read = call.what.inputs;
  Update<Real> update;
  update.gradient = reals<Real>(call.inputs[0]);
  update.weights = update.main = reals<Real>(call.outputs[0]);
  update.count = elements(call.outputs[0].part);
  const bool has_main = std::find(read.begin(), read.end(), call.what.outputs[0]) == read.end();
  const std::size_t moments = call.outputs.size() - (has_main ? 1 : 0);
  for (std::size_t o = 1; o < moments; ++o) update.moments.push_back(reals<Real>(call.outputs[o]));
  if (has_main) update.main = reals<Real>(call.outputs.back());
  if (!call.what.constants.empty()) {
    const double norm = std::sqrt(static_cast<double>(*reals<Real>(call.inputs.back())));
    update.clip = std::min(1.0, call.what.constants[0] / (norm + 1e-6));
  }
  return update;
}

template <class Real>
void adam(const KernelCall& call, const Update<Real>& update) {
  const Hyperparameters& with = call.training;
  const auto steps = static_cast<double>(call.step + 1);
  AdamUpdate<Real> of{.count = update.count, .gradient = update.gradient, .first = update.moments[0]};
  of.second = update.moments[1];
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
void sgd(const KernelCall& call, const Update<Real>& update) {
  for (std::int64_t i = 0; i < update.count; ++i) {
    double g = static_cast<double>(update.gradient[i]) * update.clip;
    if (!update.moments.empty()) {
      g += call.training.momentum * static_cast<double>(update.moments[0][i]);
      update.moments[0][i] = static_cast<Real>(g);
    }
    update.main[i] = static_cast<Real>(static_cast<double>(update.main[i]) - call.training.learning_rate * g);
  }
}

}  // namespace

template <class Real>
void run_optimizer(const KernelCall& call) {
  const Update<Real> update = update_of<Real>(call);
  call.what.function == Function::sgd ? sgd(call, update) : adam(call, update);
  if (update.main != update.weights) std::copy_n(update.main, update.count, update.weights);
}

template void run_optimizer<float>(const KernelCall&);
template void run_optimizer<double>(const KernelCall&);

}  // namespace simrun::cpu
