#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/eigen_products.h"
#include "backend/cpu/heads.h"
#include "backend/cpu/mask.h"
#include "models/philox.h"

// Attention of context-parallel ranks: of the rank's queries to a block of keys, over their places in the
// whole sequence. Blocks join by their log-sum-exps.
namespace simrun::cpu {
namespace {

// Whether any query of the block sees any key: the last key that a query sees is its own, and the first ones
// of queries grow with them.
bool sees_any(const CausalMask& mask, const DimPart& queries, const DimPart& keys) {
  if (!mask.on) return true;
  for (const IndexRun& q : runs_of(queries))
    for (const IndexRun& k : runs_of(keys)) {
      const std::int64_t last_key = k.first + k.count - 1, last_query = q.first + q.count - 1;
      const std::int64_t query = std::max(q.first, k.first);  // the first behind any key
      if (query <= last_query && mask.first_key(query) <= last_key) return true;
    }
  return false;
}

// q, k and v, or their gradients; k and v may be one tensor.
template <class Real>
struct BlockOperands {
  HeadRows<Real> q, k, v;
  std::size_t count = 3;  // of arguments

  BlockOperands(const KernelCall& call, const Argument* first) : q(first[0], 0, true), k(first[1], 0, false) {
    const bool is_pair = position_of(call, first[1], "key_value") >= 0;
    v = is_pair ? HeadRows<Real>(first[1], 1, false) : HeadRows<Real>(first[2], 0, false);
    if (is_pair) count = 2;
  }
};

// A block of scores: whose tokens its queries and keys are, and how they are reached.
template <class Real>
class Block {
 public:
  Block(const KernelCall& call, const Argument* operands, const Argument& context)
      : call_(call),
        heads_(context),
        of_(call, operands),
        queries_(operands[0].part[1]),
        keys_(call.what.part.whole_keys ? operands[1].part[1] : keys_in_ring(call.what.part, queries_)) {}

  bool is_empty() const { return !sees_any(call_.what.causal, queries_, keys_); }
  const HeadCounts& heads() const { return heads_; }
  const BlockOperands<Real>& operands() const { return of_; }
  Real scale() const { return static_cast<Real>(call_.what.constants.at(0)); }
  // Where the log-sum-exps of a head's rows begin.
  std::int64_t first_row(const Head& head) const { return heads_.number(head) * queries_.extent; }

  // Scores, capped, biased and masked; `slope`: of the cap at each, 1 without one.
  Square<Real> scores(const Head& head, Square<Real>* slope) const {
    const auto cap = static_cast<Real>(call_.what.soft_cap ? call_.what.constants.at(1) : 0);
    const auto decline = static_cast<Real>(
        call_.what.alibi ? alibi_slope(heads_.whole_number(head), heads_.whole(), call_.what.constants.at(2))
                         : 0);
    const ScoreMask mask = mask_of(call_, heads_.sample(call_, head.batch), keys_.whole);
    Square<Real> s = multiplied(as_stored(of_.q.of(head)), transposed(of_.k.of(head)), scale());
    if (slope != nullptr) slope->setOnes(s.rows(), s.cols());
    for (Eigen::Index i = 0; i < s.rows(); ++i)
      for (Eigen::Index j = 0; j < s.cols(); ++j) {
        const std::int64_t query = queries_.at(i), key = keys_.at(j);
        if (cap > 0) {
          const Real t = std::tanh(s(i, j) / cap);
          s(i, j) = cap * t;
          if (slope != nullptr) (*slope)(i, j) = 1 - t * t;
        }
        s(i, j) -= decline * static_cast<Real>(std::abs(query - key));
        if (!mask.sees(query, key)) s(i, j) = -std::numeric_limits<Real>::infinity();
      }
    return s;
  }

  // What dropout leaves of probabilities, drawn as of the whole matrix of scores.
  Square<Real> dropped(const Square<Real>& p, const Head& head) const {
    const auto rate = static_cast<double>(call_.what.dropout);
    if (rate == 0) return p;
    const RandomStream stream(call_.training.seed, call_.what.label, call_.what.layer);
    const std::int64_t number = heads_.sample(call_, head.batch) * heads_.whole() + heads_.whole_number(head);
    Square<Real> kept = p;
    for (Eigen::Index i = 0; i < p.rows(); ++i)
      for (Eigen::Index j = 0; j < p.cols(); ++j) {
        const std::int64_t at = (number * queries_.whole + queries_.at(i)) * keys_.whole + keys_.at(j);
        kept(i, j) *= stream.uniform(at, call_.step) >= rate ? static_cast<Real>(1 / (1 - rate)) : 0;
      }
    return kept;
  }

 private:
  const KernelCall& call_;
  const HeadCounts heads_;
  const BlockOperands<Real> of_;
  const DimPart queries_, keys_;
};

// Scores become exponentials of what they exceed a row's log-sum-exp by. A row that sees nothing: zeros.
template <class Real>
void exponentiate(Square<Real>& s, Eigen::Index row, Real log_sum) {
  if (log_sum == -std::numeric_limits<Real>::infinity())
    s.row(row).setZero();
  else
    s.row(row) = (s.row(row).array() - log_sum).exp();
}

template <class Real>
Real log_sum_of(const Square<Real>& s, Eigen::Index row) {
  const Real maximum = s.row(row).maxCoeff();
  if (maximum == -std::numeric_limits<Real>::infinity()) return maximum;
  return maximum + std::log((s.row(row).array() - maximum).exp().sum());
}

}  // namespace

template <class Real>
void run_attention_block(const KernelCall& call) {
  const Argument& out = call.outputs[0];
  const Block<Real> block(call, call.inputs.data(), out);
  const HeadRows<Real> context(out, 0, true);
  Real* log_sums = reals<Real>(call.outputs[1]);
  if (block.is_empty()) {
    std::fill_n(reals<Real>(out), elements(out.part), Real{0});
    std::fill_n(log_sums, elements(call.outputs[1].part), -std::numeric_limits<Real>::infinity());
    return;
  }
  block.heads().for_each([&](const Head& head) {
    Square<Real> p = block.scores(head, nullptr);
    Real* sums = log_sums + block.first_row(head);
    for (Eigen::Index i = 0; i < p.rows(); ++i) {
      sums[i] = log_sum_of(p, i);
      exponentiate(p, i, sums[i]);
    }
    multiply(as_stored(block.dropped(p, head)), as_stored(block.operands().v.of(head)), context.of(head));
  });
}

// As backend/cpu/attention.cpp, with P = exp(S - L) of the whole attention's log-sum-exps L. A block's share
// is not all of the row sums of P dP: they come from the whole output, dO . O.
template <class Real>
void run_attention_block_backward(const KernelCall& call) {
  const Argument* operands = call.inputs.data() + 1;
  const Block<Real> block(call, operands, call.inputs[0]);
  for (const Argument& output : call.outputs)
    std::fill_n(reals<Real>(output), elements(output.part), Real{0});
  if (block.is_empty()) return;
  const BlockOperands<Real>& in = block.operands();
  const BlockOperands<Real> to(call, call.outputs.data());
  const HeadRows<Real> gradients(call.inputs[0], 0, true), contexts(operands[in.count], 0, true);
  const Real* log_sums = reals<Real>(operands[in.count + 1]);
  block.heads().for_each([&](const Head& head) {
    const auto gradient = gradients.of(head);
    Square<Real> slope;
    Square<Real> p = block.scores(head, &slope);
    for (Eigen::Index i = 0; i < p.rows(); ++i) exponentiate(p, i, log_sums[block.first_row(head) + i]);
    const Square<Real> after = block.dropped(p, head);
    multiply_add(transposed(after), as_stored(gradient), to.v.of(head));
    const Eigen::Matrix<Real, Eigen::Dynamic, 1> sums =
        gradient.cwiseProduct(contexts.of(head)).rowwise().sum();
    const Square<Real> back = multiplied(as_stored(gradient), transposed(in.v.of(head)));
    const Square<Real> of_product =
        block.scale() * (after.cwiseProduct(back) - sums.asDiagonal() * p).cwiseProduct(slope);
    multiply_add(as_stored(of_product), as_stored(in.k.of(head)), to.q.of(head));
    multiply_add(transposed(of_product), as_stored(in.q.of(head)), to.k.of(head));
  });
}

template <class Real>
void run_attention_join(const KernelCall& call) {
  const Argument& context = call.outputs[0];
  const std::int64_t width = last_extent(context), rows = rows_of(context);
  const BroadcastIndex sum_at(context, call.outputs[1]);
  const Real *a = reals<Real>(call.inputs[0]), *b = reals<Real>(call.inputs[2]);
  const Real *sum_a = reals<Real>(call.inputs[1]), *sum_b = reals<Real>(call.inputs[3]);
  Real *to = reals<Real>(context), *sums = reals<Real>(call.outputs[1]);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t at = sum_at(row * width);
    const Real maximum = std::max(sum_a[at], sum_b[at]);
    Real of_a = 0, of_b = 0, total = maximum;
    if (maximum > -std::numeric_limits<Real>::infinity()) {
      total = maximum + std::log(std::exp(sum_a[at] - maximum) + std::exp(sum_b[at] - maximum));
      of_a = std::exp(sum_a[at] - total);
      of_b = std::exp(sum_b[at] - total);
    }
    sums[at] = total;
    for (std::int64_t i = row * width; i < (row + 1) * width; ++i) to[i] = of_a * a[i] + of_b * b[i];
  }
}

// Rows of packed q, k, v are those of q, then those of k and v.
template <class Real>
void run_split_heads(const KernelCall& call) {
  const Argument& packed = call.inputs[0];
  const std::int64_t slots = part_named(call, packed, "qkv").extent, width = last_extent(packed);
  const std::int64_t heads = rows_of(packed) / slots, queries = (slots - 2) * width, pair = 2 * width;
  const Real* from = reals<Real>(packed);
  for (std::int64_t h = 0; h < heads; ++h, from += queries + pair) {
    std::copy_n(from, queries, reals<Real>(call.outputs[0]) + h * queries);
    std::copy_n(from + queries, pair, reals<Real>(call.outputs[1]) + h * pair);
  }
}

template <class Real>
void run_concat_heads(const KernelCall& call) {
  const Argument& packed = call.outputs[0];
  const std::int64_t slots = part_named(call, packed, "qkv").extent, width = last_extent(packed);
  const std::int64_t heads = rows_of(packed) / slots, queries = (slots - 2) * width, pair = 2 * width;
  Real* to = reals<Real>(packed);
  for (std::int64_t h = 0; h < heads; ++h, to += queries + pair) {
    std::copy_n(reals<Real>(call.inputs[0]) + h * queries, queries, to);
    std::copy_n(reals<Real>(call.inputs[1]) + h * pair, pair, to + queries);
  }
}

template void run_attention_block<float>(const KernelCall&);
template void run_attention_block<double>(const KernelCall&);
template void run_attention_block_backward<float>(const KernelCall&);
template void run_attention_block_backward<double>(const KernelCall&);
template void run_attention_join<float>(const KernelCall&);
template void run_attention_join<double>(const KernelCall&);
template void run_split_heads<float>(const KernelCall&);
template void run_split_heads<double>(const KernelCall&);
template void run_concat_heads<float>(const KernelCall&);
template void run_concat_heads<double>(const KernelCall&);

}  // namespace simrun::cpu
