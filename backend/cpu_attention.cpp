#include <Eigen/Core>
#include <cmath>
#include <limits>

#include "backend/cpu_flash.h"
#include "backend/cpu_kernels.h"
#include "backend/philox.h"

// Attention one head at a time, with its whole matrix of scores in a workspace. Plain on purpose: this is
// what other devices are compared with.
namespace simrun::cpu {
namespace {

template <class Real>
using Square = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Real>
using Rows = Eigen::Map<Square<Real>, 0, Eigen::OuterStride<>>;

// A query head of a sample, and its place in the rank's part.
struct Head {
  std::int64_t batch = 0, kv = 0, query = 0;
};

// Packed q, k, v [batch, sequence, kv_heads, group + 2, head_dim], and the context without `+ 2`.
struct Shape {
  std::int64_t batch = 0, sequence = 0, kv_heads = 0, group = 0, head_dim = 0;

  Shape(const KernelCall& call, const Argument& packed)
      : batch(part_named(call, packed, "batch").extent),
        sequence(part_named(call, packed, "sequence").extent),
        kv_heads(part_named(call, packed, "kv_heads").extent),
        group(part_named(call, packed, "qkv").extent - 2),
        head_dim(last_extent(packed)) {}

  // Place `slot` of a kv head's `slots` rows: queries 0.., key `group`, value `group` + 1.
  template <class Real>
  Rows<Real> rows(Real* data, const Head& head, std::int64_t slot, std::int64_t slots) const {
    const std::int64_t stride = kv_heads * slots * head_dim;
    Real* first = data + head.batch * sequence * stride + (head.kv * slots + slot) * head_dim;
    return {first, sequence, head_dim, Eigen::OuterStride<>(stride)};
  }
  std::int64_t number(const Head& head) const {
    return (head.batch * kv_heads + head.kv) * group + head.query;
  }

  template <class Visit>
  void for_each_head(Visit visit) const {
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t k = 0; k < kv_heads; ++k)
        for (std::int64_t q = 0; q < group; ++q) visit(Head{b, k, q});
  }
};

bool sees(const CausalMask& mask, std::int64_t query, std::int64_t key) {
  if (!mask.on) return true;
  return key <= query && (mask.window == 0 || query - key < mask.window);
}

// What stays of a head's probabilities, drawn by the head's number in the whole model and step.
class AttentionDropout {
 public:
  AttentionDropout(const KernelCall& call, const Argument& packed)
      : p_(static_cast<double>(call.what.dropout)),
        step_(call.step),
        stream_(call.training.seed, call.what.label, call.what.layer),
        batch_(part_named(call, packed, "batch")),
        kv_(part_named(call, packed, "kv_heads")),
        microbatch_(call.microbatch) {}
  bool on() const { return p_ > 0; }
  double kept() const { return 1 / (1 - p_); }
  bool keeps(const Shape& shape, const Head& head, std::int64_t query, std::int64_t key) const {
    const std::int64_t sample = microbatch_ * batch_.whole + batch_.first + head.batch;
    const std::int64_t number = (sample * kv_.whole + kv_.first + head.kv) * shape.group + head.query;
    return stream_.uniform((number * shape.sequence + query) * shape.sequence + key, step_) >= p_;
  }

 private:
  const double p_;
  const std::int64_t step_;
  const RandomStream stream_;
  const DimPart batch_, kv_;
  const std::int64_t microbatch_;
};

// scale q k^T, capped and masked; `slope`: of the cap at each score, 1 without one.
template <class Real>
Square<Real> scores(const KernelCall& call, const Rows<Real>& q, const Rows<Real>& k, Square<Real>* slope) {
  const auto scale = static_cast<Real>(call.what.constants.at(0));
  const auto cap = static_cast<Real>(call.what.soft_cap ? call.what.constants.at(1) : 0);
  Square<Real> s = scale * (q * k.transpose());
  if (slope != nullptr) slope->setOnes(s.rows(), s.cols());
  for (Eigen::Index i = 0; i < s.rows(); ++i)
    for (Eigen::Index j = 0; j < s.cols(); ++j) {
      if (cap > 0) {
        const Real t = std::tanh(s(i, j) / cap);
        s(i, j) = cap * t;
        if (slope != nullptr) (*slope)(i, j) = 1 - t * t;
      }
      if (!sees(call.what.causal, i, j)) s(i, j) = -std::numeric_limits<Real>::infinity();
    }
  return s;
}

// Rows become probabilities; the logarithms of their sums of exponentials.
template <class Real>
Eigen::Matrix<Real, Eigen::Dynamic, 1> softmax(Square<Real>& s) {
  Eigen::Matrix<Real, Eigen::Dynamic, 1> log_sums(s.rows());
  for (Eigen::Index i = 0; i < s.rows(); ++i) {
    const Real maximum = s.row(i).maxCoeff();
    s.row(i) = (s.row(i).array() - maximum).exp();
    const Real sum = s.row(i).sum();
    s.row(i) /= sum;
    log_sums[i] = maximum + std::log(sum);
  }
  return log_sums;
}

template <class Real>
Square<Real> dropped(const Square<Real>& p, const AttentionDropout& dropout, const Shape& shape,
                     const Head& head) {
  if (!dropout.on()) return p;
  Square<Real> kept = p;
  for (Eigen::Index i = 0; i < p.rows(); ++i)
    for (Eigen::Index j = 0; j < p.cols(); ++j)
      kept(i, j) *= dropout.keeps(shape, head, i, j) ? static_cast<Real>(dropout.kept()) : 0;
  return kept;
}

template <class Real>
struct HeadProbabilities {
  Square<Real> whole, after_dropout;
  Eigen::Matrix<Real, Eigen::Dynamic, 1> log_sums;
};

// What the backward pass reads: the log-sums of flash; the matrices of an unfused kernel.
template <class Real>
void keep(const KernelCall& call, const Shape& shape, const Head& head, const HeadProbabilities<Real>& of) {
  const std::int64_t n = shape.sequence, number = shape.number(head);
  if (call.what.function == Function::flash) {
    std::copy_n(of.log_sums.data(), n, reals<Real>(call.outputs[1]) + number * n);
    return;
  }
  std::copy_n(of.whole.data(), n * n, reals<Real>(call.outputs[1]) + number * n * n);
  if (call.what.dropout == 0) return;
  auto* mask = static_cast<std::uint8_t*>(call.outputs[2].data) + number * n * n;
  for (std::int64_t i = 0; i < n * n; ++i) mask[i] = of.after_dropout.data()[i] != 0 ? 1 : 0;
  std::copy_n(of.after_dropout.data(), n * n, reals<Real>(call.outputs[3]) + number * n * n);
}

}  // namespace

template <class Real>
void run_attention(const KernelCall& call) {
  if (is_plain_flash(call)) return run_plain_flash<Real>(call);
  const Argument& packed = call.inputs[0];
  const Shape shape(call, packed);
  const AttentionDropout dropout(call, packed);
  const std::int64_t slots = shape.group + 2;
  Real* in = reals<Real>(packed);
  shape.for_each_head([&](const Head& head) {
    HeadProbabilities<Real> p;
    p.whole = scores<Real>(call, shape.rows(in, head, head.query, slots),
                           shape.rows(in, head, shape.group, slots), nullptr);
    p.log_sums = softmax(p.whole);
    p.after_dropout = dropped(p.whole, dropout, shape, head);
    shape.rows(reals<Real>(call.outputs[0]), head, head.query, shape.group).noalias() =
        p.after_dropout * shape.rows(in, head, shape.group + 1, slots);
    keep(call, shape, head, p);
  });
}

// With P the probabilities and D what dropout leaves of them: dV = D^T dO, dD = dO V^T, dP = mask dD / (1 -
// p), dS = P (dP - rowsum(P dP)) x slope of the cap, dQ = scale dS K, dK = scale dS^T Q (Dao et al. 2022,
// arXiv 2205.14135, appendix B.2). P comes from the scores again: that is what flash does, and unfused may.
template <class Real>
void run_attention_backward(const KernelCall& call) {
  if (is_plain_flash(call)) return run_plain_flash_backward<Real>(call);
  const Argument& packed = call.inputs[1];
  const Shape shape(call, packed);
  const AttentionDropout dropout(call, packed);
  const std::int64_t slots = shape.group + 2;
  const auto scale = static_cast<Real>(call.what.constants.at(0));
  Real *in = reals<Real>(packed), *to = reals<Real>(call.outputs[0]);
  std::fill_n(to, elements(call.outputs[0].part), Real{0});
  shape.for_each_head([&](const Head& head) {
    const auto q = shape.rows(in, head, head.query, slots);
    const auto k = shape.rows(in, head, shape.group, slots), v = shape.rows(in, head, shape.group + 1, slots);
    const auto gradient = shape.rows(reals<Real>(call.inputs[0]), head, head.query, shape.group);
    Square<Real> slope;
    Square<Real> p = scores<Real>(call, q, k, &slope);
    softmax(p);
    const Square<Real> after = dropped(p, dropout, shape, head);
    shape.rows(to, head, shape.group + 1, slots) += after.transpose() * gradient;
    // after / p is the mask by 1 - p; where p is 0 nothing comes back.
    const Square<Real> back = gradient * v.transpose();
    const Square<Real> weighted = after.cwiseProduct(back);  // = P dP
    const Eigen::Matrix<Real, Eigen::Dynamic, 1> sums = weighted.rowwise().sum();
    const Square<Real> ds = scale * (weighted - sums.asDiagonal() * p).cwiseProduct(slope);
    shape.rows(to, head, head.query, slots) += ds * k;
    shape.rows(to, head, shape.group, slots) += ds.transpose() * q;
  });
}

template void run_attention<float>(const KernelCall&);
template void run_attention<double>(const KernelCall&);
template void run_attention_backward<float>(const KernelCall&);
template void run_attention_backward<double>(const KernelCall&);

}  // namespace simrun::cpu
