#pragma once

#include <cstdint>

// The loops in which a CPU run spends its time, over plain arrays, compiled twice: for any x86-64 (or other)
// processor, and for AVX2 and FMA. Which of them runs is decided once, by what the processor has.
//
// Each variant's source files see Eigen under a namespace of their own (cmake/backend.cmake): templates of
// one name compiled with other flags would otherwise be joined by the linker, and AVX2 would run where there
// is none. For the same reason they use nothing of the standard library that is a template or inline.
namespace simrun::cpu {

// out[rows, columns] (+)= factor x left[rows, depth] right[depth, columns]. All in row-major order, `stride`
// elements from one stored row to the next.
template <class Real>
struct ProductOperand {
  const Real* data = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;  // stored as [depth, rows] (left) or [columns, depth] (right)
};
template <class Real>
struct Product {
  std::int64_t rows = 0, columns = 0, depth = 0;
  ProductOperand<Real> left = {}, right = {};
  Real* out = nullptr;
  std::int64_t out_stride = 0;
  Real factor = 1;
  bool adds = false;
};

// One AdamW update of `count` elements (backend/operations.h); arithmetic in double.
template <class Real>
struct AdamUpdate {
  std::int64_t count = 0;
  const Real* gradient = nullptr;
  Real *first = nullptr, *second = nullptr, *weights = nullptr;
  double clip = 1, beta1 = 0, beta2 = 0, epsilon = 0, rate = 0, decay = 0;
  double first_correction = 1, second_correction = 1;  // 1 / (1 - beta^steps)
};

// Of one row of scores: sum of p x dp, and what scores were multiplied by.
template <class Real>
struct SoftmaxGradient {
  Real sum, factor;
};

template <class Real>
struct Math {
  void (*multiply)(const Product<Real>&);
  void (*add)(Real* to, const Real* from, std::int64_t n);                // to += from
  Real (*maximum)(const Real* x, std::int64_t n);                         // n > 0
  double (*sum_squares)(const Real* x, std::int64_t n);                   // added in double
  double (*sum_exponentials)(const Real* x, Real shift, std::int64_t n);  // of x - shift; blocks in double
  // y = factor exp(x - shift); x and y may be the same.
  void (*exponentials)(const Real* x, Real shift, Real factor, Real* y, std::int64_t n);
  // ds = factor p (dp - sum): the gradient of a softmax's scores.
  void (*softmax_gradient)(const Real* p, const Real* dp, const SoftmaxGradient<Real>& of, Real* ds,
                           std::int64_t n);
  Real (*sum)(const Real* x, std::int64_t n);
  Real (*dot)(const Real* a, const Real* b, std::int64_t n);
  // y = f(x + bias) and dx = g f'(x + bias); no bias: nullptr.
  void (*gelu)(const Real* x, const Real* bias, Real* y, std::int64_t n);
  void (*gelu_backward)(const Real* g, const Real* x, const Real* bias, Real* dx, std::int64_t n);
  // y = silu(gate) value and its gradients; no bias.
  void (*swiglu)(const Real* gate, const Real* value, Real* y, std::int64_t n);
  // x and dx [2, n]: gates, then values.
  void (*swiglu_backward)(const Real* g, const Real* x, Real* dx, std::int64_t n);
  // y = (x - mean) r weight + bias (nullptr: none); the mean and r = 1 / sqrt(variance + epsilon). Without
  // `centred` the mean is 0.
  struct NormRow {
    const Real* x = nullptr;
    const Real* weight = nullptr;
    std::int64_t n = 0;
    bool centred = false;
    Real mean = 0, r = 0;
  };
  void (*norm)(NormRow& row, const Real* bias, double epsilon, Real* y);
  // dx; adds dy xhat to dweight and, where there is one, dy to dbias.
  struct NormGradients {
    const Real* dy = nullptr;
    Real *dx = nullptr, *dweight = nullptr, *dbias = nullptr;
  };
  void (*norm_backward)(const NormRow& row, const NormGradients& gradients);
  void (*adam)(const AdamUpdate<Real>&);
};

// The best for this processor; Real = float and double.
template <class Real>
const Math<Real>& math();

namespace baseline {
extern const Math<float> math_f32;
extern const Math<double> math_f64;
}  // namespace baseline
namespace avx2 {
extern const Math<float> math_f32;
extern const Math<double> math_f64;
}  // namespace avx2

// Whether this processor has what the second variant needs.
bool has_avx2();

}  // namespace simrun::cpu
