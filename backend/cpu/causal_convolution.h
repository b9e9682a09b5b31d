#pragma once

#include <algorithm>
#include <vector>

#include "backend/cpu/kernels.h"

// What the layers with a state share: a convolution by channel over a token and those before it, then SiLU;
// where their gradients go.
namespace simrun::cpu {

// Of one group of heads and one sample the rows of a tensor [batch, sequence, groups, ..].
template <class Real>
struct GroupRows {
  Real* data = nullptr;
  std::int64_t stride = 0;

  Real* at(std::int64_t position) const { return data + position * stride; }
  GroupRows from(std::int64_t column) const { return {data + column, stride}; }
};

template <class Real>
struct CausalConvolution {
  std::int64_t length = 0, channels = 0, taps = 0;
  const Real* weight = nullptr;  // [channels, taps], the token's own last
  const Real* bias = nullptr;    // [channels], or none

  // In front of SiLU and behind it: [length, channels].
  struct Rows {
    std::vector<Real> sums, values;
  };
  struct Gradients {
    GroupRows<Real> rows;                     // written
    Real *weight = nullptr, *bias = nullptr;  // added to
  };

  Rows forward(const GroupRows<Real>& in) const {
    Rows out;
    out.sums.resize(static_cast<std::size_t>(length * channels));
    out.values.resize(out.sums.size());
    for (std::int64_t t = 0; t < length; ++t)
      for (std::int64_t c = 0; c < channels; ++c) {
        Real sum = bias == nullptr ? Real{0} : bias[c];
        for (std::int64_t k = first_tap(t); k < taps; ++k)
          sum += weight[c * taps + k] * in.at(t - taps + 1 + k)[c];
        out.sums[static_cast<std::size_t>(t * channels + c)] = sum;
        out.values[static_cast<std::size_t>(t * channels + c)] = Silu<Real>::value(sum);
      }
    return out;
  }

  // `of_values`: gradients of the values.
  void backward(const GroupRows<Real>& in, const Rows& out, const std::vector<Real>& of_values,
                const Gradients& to) const {
    for (std::int64_t t = 0; t < length; ++t) std::fill_n(to.rows.at(t), channels, Real{0});
    for (std::int64_t t = 0; t < length; ++t)
      for (std::int64_t c = 0; c < channels; ++c) {
        const auto i = static_cast<std::size_t>(t * channels + c);
        const Real gradient = of_values[i] * Silu<Real>::slope(out.sums[i]);
        if (to.bias != nullptr) to.bias[c] += gradient;
        for (std::int64_t k = first_tap(t); k < taps; ++k) {
          const std::int64_t at = t - taps + 1 + k;
          to.weight[c * taps + k] += gradient * in.at(at)[c];
          to.rows.at(at)[c] += gradient * weight[c * taps + k];
        }
      }
  }

 private:
  std::int64_t first_tap(std::int64_t t) const { return std::max<std::int64_t>(taps - 1 - t, 0); }
};

// Where the gradients of a SCAN go: those wanted of in0 and of its parameters, which are 0 where they are not
// added to. What is not wanted goes nowhere.
template <class Real>
struct ScanGradients {
  Real* packed = nullptr;
  std::vector<Real*> parameters;
  std::vector<Real> unwanted;

  ScanGradients(const KernelCall& call, const Argument& in0, std::size_t count) {
    const bool wants_packed = call.outputs[0].part.size() == in0.part.size();
    const std::size_t first = wants_packed ? 1 : 0;
    std::int64_t size = 0;
    for (const Argument& argument : call.inputs) size = std::max(size, elements(argument.part));
    unwanted.resize(static_cast<std::size_t>(size));
    packed = wants_packed ? reals<Real>(call.outputs[0]) : unwanted.data();
    const bool wants_parameters = call.outputs.size() > first;
    for (std::size_t p = 0; p < count; ++p) {
      if (!wants_parameters) {
        parameters.push_back(unwanted.data());
        continue;
      }
      const Argument& output = call.outputs[first + p];
      parameters.push_back(reals<Real>(output));
      if (!adds_to(call, output)) std::fill_n(reals<Real>(output), elements(output.part), Real{0});
    }
  }
};

template <class Real>
Real softplus(Real x) {
  return std::max(x, Real{0}) + std::log1p(std::exp(-std::abs(x)));
}

}  // namespace simrun::cpu
