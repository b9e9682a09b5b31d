#include <cmath>
#include <limits>
#include <optional>

#include "backend/cpu/eigen_products.h"
#include "backend/cpu/flash.h"
#include "backend/cpu/heads.h"
#include "backend/cpu/mask.h"
#include "models/philox.h"

// Attention one head at a time, with its whole matrix of scores in a workspace. Plain on purpose: this is
// what other devices are compared with.
namespace simrun::cpu {
namespace {

template <class Real>
using Column = Eigen::Matrix<Real, Eigen::Dynamic, 1>;

// What stays of a head's probabilities, drawn by the head's number in the whole model and step.
class AttentionDropout {
 public:
  AttentionDropout(const KernelCall& call, const HeadCounts& heads)
      : p_(static_cast<double>(call.what.dropout)),
        step_(call.step),
        stream_(call.training.seed, call.what.label, call.what.layer),
        call_(call),
        heads_(heads) {}
  bool on() const { return p_ > 0; }
  template <class Real>
  Square<Real> of(const Square<Real>& p, const Head& head) const {
    if (!on()) return p;
    const std::int64_t sample = heads_.sample(call_, head.batch);
    const std::int64_t number = sample * heads_.whole() + heads_.whole_number(head);
    const auto scale = static_cast<Real>(1 / (1 - p_));
    Square<Real> kept = p;
    for (Eigen::Index i = 0; i < p.rows(); ++i)
      for (Eigen::Index j = 0; j < p.cols(); ++j) {
        const std::int64_t place = (number * p.rows() + i) * p.cols() + j;
        kept(i, j) *= stream_.uniform(place, step_) >= p_ ? scale : Real{0};
      }
    return kept;
  }

 private:
  const double p_;
  const std::int64_t step_;
  const RandomStream stream_;
  const KernelCall& call_;
  const HeadCounts& heads_;
};

// What is added to every score of a head: by distance (ALiBi), or a row of a table by distance (T5).
template <class Real>
class ScoreBias {
 public:
  ScoreBias(const KernelCall& call, const HeadCounts& heads, const AttentionOperands<Real>& operands)
      : heads_(heads) {
    if (call.what.alibi) bias_max_ = call.what.constants.at(2);
    if (operands.biases == nullptr) return;
    table_ = reals<Real>(*operands.biases);
    columns_ = operands.biases->part[1];
    buckets_ =
        RelativeBuckets{operands.biases->part[0].extent, call.what.constants.at(2), !call.what.causal.on};
  }
  bool has_table() const { return table_ != nullptr; }

  void add(const Head& head, Square<Real>& scores) const {
    const auto slope = static_cast<Real>(
        bias_max_ > 0 ? alibi_slope(heads_.whole_number(head), heads_.whole(), bias_max_) : 0);
    if (slope == 0 && !has_table()) return;
    for (Eigen::Index i = 0; i < scores.rows(); ++i)
      for (Eigen::Index j = 0; j < scores.cols(); ++j) {
        scores(i, j) -= slope * static_cast<Real>(std::abs(i - j));
        if (has_table()) scores(i, j) += table_[element(head, j - i)];
      }
  }
  // Gradient of the table from that of the scores.
  void add_gradient(const Head& head, const Square<Real>& of_scores, Real* table) const {
    for (Eigen::Index i = 0; i < of_scores.rows(); ++i)
      for (Eigen::Index j = 0; j < of_scores.cols(); ++j) table[element(head, j - i)] += of_scores(i, j);
  }

 private:
  std::int64_t element(const Head& head, std::int64_t distance) const {
    return buckets_.row(distance) * columns_.extent + heads_.kv.first + head.kv - columns_.first;
  }
  const HeadCounts& heads_;
  double bias_max_ = 0;
  const Real* table_ = nullptr;
  RelativeBuckets buckets_;
  DimPart columns_;  // kv heads of the table
};

// A head's probabilities and what they were made of.
template <class Real>
struct HeadProbabilities {
  Square<Real> p, after_dropout;
  Square<Real> slope;   // of the cap at each score; 1 without one
  Square<Real> capped;  // scores before their mask
  Column<Real> log_sums;
};

// Everything an attention's forward and backward pass have in common.
template <class Real>
class AttentionRun {
 public:
  AttentionRun(const KernelCall& call, const Argument* operands, std::size_t count, const Argument& context)
      : call_(call),
        heads_(context),
        operands_(call, operands, count),
        bias_(call, heads_, operands_),
        dropout_(call, heads_) {}

  const HeadCounts& heads() const { return heads_; }
  const AttentionOperands<Real>& operands() const { return operands_; }
  const ScoreBias<Real>& bias() const { return bias_; }
  // The rank may have the sinks of more heads than it attends with.
  std::int64_t place_of_sink(const Head& head) const {
    const std::int64_t kv = heads_.kv.first + head.kv - operands_.sinks->part[0].first;
    return kv * heads_.group + head.query;
  }

  HeadProbabilities<Real> probabilities(const Head& head) {
    HeadProbabilities<Real> of;
    of.p = multiplied(as_stored(operands_.q.of(head)), transposed(operands_.k.of(head)), scale());
    cap(of);
    bias_.add(head, of.p);
    of.capped = of.p;
    hide(head, of.p);
    std::optional<Real> sink;
    if (operands_.sinks != nullptr) sink = reals<Real>(*operands_.sinks)[place_of_sink(head)];
    of.log_sums = softmax(of.p, sink);
    of.after_dropout = dropout_.of(of.p, head);
    return of;
  }
  Real scale() const { return static_cast<Real>(call_.what.constants.at(0)); }

 private:
  void cap(HeadProbabilities<Real>& of) const {
    of.slope.setOnes(of.p.rows(), of.p.cols());
    if (!call_.what.soft_cap) return;
    const auto most = static_cast<Real>(call_.what.constants.at(1));
    for (Eigen::Index i = 0; i < of.p.size(); ++i) {
      const Real t = std::tanh(of.p.data()[i] / most);
      of.p.data()[i] = most * t;
      of.slope.data()[i] = 1 - t * t;
    }
  }
  void hide(const Head& head, Square<Real>& scores) {
    if (!mask_ || head.batch != sample_) {
      mask_ = mask_of(call_, heads_.sample(call_, head.batch), scores.cols());
      sample_ = head.batch;
    }
    for (Eigen::Index i = 0; i < scores.rows(); ++i)
      for (Eigen::Index j = 0; j < scores.cols(); ++j)
        if (!mask_->sees(i, j)) scores(i, j) = -std::numeric_limits<Real>::infinity();
  }
  // Rows become probabilities; the logarithms of their sums of exponentials, the sink's among them.
  static Column<Real> softmax(Square<Real>& s, std::optional<Real> sink) {
    Column<Real> log_sums(s.rows());
    for (Eigen::Index i = 0; i < s.rows(); ++i) {
      const Real maximum = sink ? std::max(s.row(i).maxCoeff(), *sink) : s.row(i).maxCoeff();
      s.row(i) = (s.row(i).array() - maximum).exp();
      const Real sum = s.row(i).sum() + (sink ? std::exp(*sink - maximum) : Real{0});
      s.row(i) /= sum;
      log_sums[i] = maximum + std::log(sum);
    }
    return log_sums;
  }

  const KernelCall& call_;
  const HeadCounts heads_;
  const AttentionOperands<Real> operands_;
  const ScoreBias<Real> bias_;
  const AttentionDropout dropout_;
  std::optional<ScoreMask> mask_;
  std::int64_t sample_ = 0;  // in the batch, of the mask
};

// What the backward pass reads: the log-sums of flash; the matrices of an unfused kernel.
template <class Real>
void keep(const KernelCall& call, std::int64_t number, const HeadProbabilities<Real>& of) {
  if (call.what.function == Function::flash) {
    std::copy_n(of.log_sums.data(), of.log_sums.size(),
                reals<Real>(call.outputs[1]) + number * of.log_sums.size());
    return;
  }
  const std::int64_t count = of.p.size(), first = number * count;
  std::copy_n(of.p.data(), count, reals<Real>(call.outputs[1]) + first);
  if (call.what.dropout > 0) {
    auto* mask = static_cast<std::uint8_t*>(call.outputs[2].data) + first;
    for (std::int64_t i = 0; i < count; ++i) mask[i] = of.after_dropout.data()[i] != 0 ? 1 : 0;
    std::copy_n(of.after_dropout.data(), count, reals<Real>(call.outputs[3]) + first);
  }
  if (call.what.soft_cap) std::copy_n(of.capped.data(), count, reals<Real>(call.outputs.back()) + first);
}

template <class Real>
void clear_gradients(const KernelCall& call) {
  for (const Argument& output : call.outputs)
    if (!adds_to(call, output)) std::fill_n(reals<Real>(output), elements(output.part), Real{0});
}

}  // namespace

template <class Real>
void run_attention(const KernelCall& call) {
  if (is_plain_flash(call)) return run_plain_flash<Real>(call);
  if (has_content_values(call, 0)) return run_content_attention<Real>(call);
  AttentionRun<Real> run(call, call.inputs.data(), call.inputs.size(), call.outputs[0]);
  const HeadRows<Real> context(call.outputs[0], 0, true);
  run.heads().for_each([&](const Head& head) {
    const HeadProbabilities<Real> of = run.probabilities(head);
    multiply(as_stored(of.after_dropout), as_stored(run.operands().v.of(head)), context.of(head));
    keep(call, run.heads().number(head), of);
  });
}

// With P the probabilities and D what dropout leaves of them: dV = D^T dO, dD = dO V^T, dP = mask dD / (1 -
// p), dS = P (dP - rowsum(P dP)), which is the biases' gradient; by the cap's slope and the scale it is that
// of q k^T: dQ = dS K, dK = dS^T Q (Dao et al. 2022, arXiv 2205.14135, appendix B.2). A sink, which has no
// value: -P rowsum(P dP). P comes from the scores again: that is what flash does, and unfused may.
template <class Real>
void run_attention_backward(const KernelCall& call) {
  if (is_plain_flash(call)) return run_plain_flash_backward<Real>(call);
  if (has_content_values(call, 1)) return run_content_attention_backward<Real>(call);
  const Argument& of_context = call.inputs[0];
  AttentionRun<Real> run(call, call.inputs.data() + 1, call.inputs.size() - 1, of_context);
  const AttentionOperands<Real> to(call, call.outputs.data(), call.outputs.size());
  const HeadRows<Real> gradients(of_context, 0, true);
  clear_gradients<Real>(call);
  run.heads().for_each([&](const Head& head) {
    const HeadProbabilities<Real> of = run.probabilities(head);
    const auto gradient = gradients.of(head);
    const AttentionOperands<Real>& in = run.operands();
    multiply_add(transposed(of.after_dropout), as_stored(gradient), to.v.of(head));
    // after_dropout / p is the mask by 1 - p; where p is 0 nothing comes back.
    const Square<Real> back = multiplied(as_stored(gradient), transposed(in.v.of(head)));
    const Square<Real> weighted = of.after_dropout.cwiseProduct(back);  // = P dP
    const Column<Real> sums = weighted.rowwise().sum();
    const Square<Real> of_scores = weighted - sums.asDiagonal() * of.p;
    if (to.biases != nullptr) run.bias().add_gradient(head, of_scores, reals<Real>(*to.biases));
    if (to.sinks != nullptr) {
      const Real sink = reals<Real>(*in.sinks)[run.place_of_sink(head)];
      reals<Real>(*to.sinks)[run.place_of_sink(head)] -=
          ((sink - of.log_sums.array()).exp() * sums.array()).sum();
    }
    const Square<Real> of_product = run.scale() * of_scores.cwiseProduct(of.slope);
    multiply_add(as_stored(of_product), as_stored(in.k.of(head)), to.q.of(head));
    multiply_add(transposed(of_product), as_stored(in.q.of(head)), to.k.of(head));
  });
}

template void run_attention<float>(const KernelCall&);
template void run_attention<double>(const KernelCall&);
template void run_attention_backward<float>(const KernelCall&);
template void run_attention_backward<double>(const KernelCall&);

}  // namespace simrun::cpu
