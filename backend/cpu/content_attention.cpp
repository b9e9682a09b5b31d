#include <algorithm>
#include <cmath>

#include "backend/cpu/kernels.h"

// Attention of one head over values that are no heads' (GNMT: Wu et al. 2016, section 3): q [batch, target,
// .., head_dim], k [batch, source, .., head_dim], v [batch, source, width]. Probabilities [batch, .., target,
// source] are kept.
namespace simrun::cpu {
namespace {

struct ContentSizes {
  std::int64_t batch, target, source, head, width;
  double scale;
};

ContentSizes sizes_of(const KernelCall& call, const Argument& q, const Argument& k, const Argument& v) {
  return {q.part[0].extent, q.part[1].extent, k.part[1].extent,
          last_extent(q),   last_extent(v),   call.what.constants.at(0)};
}

template <class Real>
Real dot(const Real* a, const Real* b, std::int64_t n) {
  Real sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// to += factor x from
template <class Real>
void add_scaled(Real* to, const Real* from, Real factor, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

template <class Real>
void softmax(Real* row, std::int64_t n) {
  const Real maximum = *std::max_element(row, row + n);
  Real sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += row[i] = std::exp(row[i] - maximum);
  for (std::int64_t i = 0; i < n; ++i) row[i] /= sum;
}

}  // namespace

template <class Real>
void run_content_attention(const KernelCall& call) {
  const Argument &q = call.inputs[0], &k = call.inputs[1], &v = call.inputs[2];
  const ContentSizes s = sizes_of(call, q, k, v);
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t i = 0; i < s.target; ++i) {
      const std::int64_t row = b * s.target + i;
      Real* p = reals<Real>(call.outputs[1]) + row * s.source;
      Real* to = reals<Real>(call.outputs[0]) + row * s.width;
      for (std::int64_t j = 0; j < s.source; ++j)
        p[j] = static_cast<Real>(s.scale) *
               dot(reals<Real>(q) + row * s.head, reals<Real>(k) + (b * s.source + j) * s.head, s.head);
      softmax(p, s.source);
      std::fill_n(to, s.width, Real{0});
      for (std::int64_t j = 0; j < s.source; ++j)
        add_scaled(to, reals<Real>(v) + (b * s.source + j) * s.width, p[j], s.width);
    }
}

template <class Real>
void run_content_attention_backward(const KernelCall& call) {
  const Argument &q = call.inputs[1], &k = call.inputs[2], &v = call.inputs[3];
  const ContentSizes s = sizes_of(call, q, k, v);
  for (const Argument& output : call.outputs)
    std::fill_n(reals<Real>(output), elements(output.part), Real{0});
  for (std::int64_t row = 0; row < s.batch * s.target; ++row) {
    const std::int64_t first = row / s.target * s.source;  // key of the sample
    const Real* p = reals<Real>(call.inputs[4]) + row * s.source;
    const Real* gradient = reals<Real>(call.inputs[0]) + row * s.width;
    const auto slope = [&](std::int64_t j) {  // of p[j]
      return dot(gradient, reals<Real>(v) + (first + j) * s.width, s.width);
    };
    Real mean = 0;
    for (std::int64_t j = 0; j < s.source; ++j) mean += p[j] * slope(j);
    for (std::int64_t j = 0; j < s.source; ++j) {
      const Real dscore = static_cast<Real>(s.scale) * p[j] * (slope(j) - mean);
      const std::int64_t key = (first + j) * s.head;
      add_scaled(reals<Real>(call.outputs[0]) + row * s.head, reals<Real>(k) + key, dscore, s.head);
      add_scaled(reals<Real>(call.outputs[1]) + key, reals<Real>(q) + row * s.head, dscore, s.head);
      add_scaled(reals<Real>(call.outputs[2]) + (first + j) * s.width, gradient, p[j], s.width);
    }
  }
}

template void run_content_attention<float>(const KernelCall&);
template void run_content_attention<double>(const KernelCall&);
template void run_content_attention_backward<float>(const KernelCall&);
template void run_content_attention_backward<double>(const KernelCall&);

}  // namespace simrun::cpu
