#include <Eigen/Core>
#include <cmath>
#include <limits>
#include <optional>

#include "backend/cpu_kernels.h"
#include "backend/philox.h"

// Attention of context-parallel ranks: of the rank's queries to a block of keys, over their places in the
// whole sequence. Blocks join by their log-sum-exps.
namespace simrun::cpu {
namespace {

template <class Real>
using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Real>
using Column = Eigen::Matrix<Real, Eigen::Dynamic, 1>;
template <class Real>
using Rows = Eigen::Map<Matrix<Real>, 0, Eigen::OuterStride<>>;

// A query head of a sample in the rank's part.
struct Head {
  std::int64_t batch = 0, kv = 0, query = 0;
};

// The rows of one head in [batch, sequence, kv_heads, (heads or k and v of one kv head,) width], whichever
// dimensions of these it has.
template <class Real>
class HeadRows {
 public:
  HeadRows(const KernelCall& call, const Argument& argument, const char* slot_name)
      : data_(reals<Real>(argument)), width_(last_extent(argument)) {
    batch_ = stride(call, argument, "batch");
    kv_ = stride(call, argument, "kv_heads");
    slot_ = stride(call, argument, slot_name);
    const char* token = position_of(call, argument, "sequence") >= 0 ? "sequence" : "key_sequence";
    token_ = stride(call, argument, token);
    tokens_ = part_named(call, argument, token).extent;
  }
  Rows<Real> of(const Head& head, std::int64_t slot) const {
    return {data_ + head.batch * batch_ + head.kv * kv_ + slot * slot_, tokens_, width_,
            Eigen::OuterStride<>(token_)};
  }

 private:
  static std::int64_t stride(const KernelCall& call, const Argument& argument, const char* name) {
    const int at = position_of(call, argument, name);
    if (at < 0) return 0;
    std::int64_t product = 1;
    for (std::size_t d = static_cast<std::size_t>(at) + 1; d < argument.part.size(); ++d)
      product *= argument.part[d].extent;
    return product;
  }

  Real* data_;
  std::int64_t width_ = 0, tokens_ = 0, batch_ = 0, token_ = 0, kv_ = 0, slot_ = 0;
};

// Whether any query of the block sees any key: all differences of two runs of positions occur.
bool sees_any(const CausalMask& mask, const DimPart& queries, const DimPart& keys) {
  if (!mask.on) return true;
  for (const IndexRun& q : runs_of(queries))
    for (const IndexRun& k : runs_of(keys)) {
      const std::int64_t least = q.first - (k.first + k.count - 1), most = q.first + q.count - 1 - k.first;
      if (most >= 0 && (mask.window == 0 || least < mask.window)) return true;
    }
  return false;
}

// A block of scores: whose tokens its queries and keys are, and how they are reached.
template <class Real>
class Block {
 public:
  // `first`: place of q among the inputs; behind it k and v, as one tensor or two.
  Block(const KernelCall& call, std::size_t first)
      : call_(call),
        q_(call, call.inputs[first], "group"),
        k_(call, call.inputs[first + 1], "key_value"),
        v_(call, call.inputs[first + (packs_pair(call, first) ? 1 : 2)], "key_value"),
        value_slot_(packs_pair(call, first) ? 1 : 0),
        batch_(part_named(call, call.inputs[first], "batch")),
        kv_heads_(part_named(call, call.inputs[first], "kv_heads")),
        queries_(part_named(call, call.inputs[first], "sequence")),
        keys_(call.what.part.whole_keys ? part_named(call, call.inputs[first + 1], "key_sequence")
                                        : keys_in_ring(call.what.part, queries_)) {
    const int group = position_of(call, call.inputs[first], "group");
    if (group >= 0) group_ = call.inputs[first].part[static_cast<std::size_t>(group)].extent;
  }

  static bool packs_pair(const KernelCall& call, std::size_t first) {
    return position_of(call, call.inputs[first + 1], "key_value") >= 0;
  }
  bool is_empty() const { return !sees_any(call_.what.causal, queries_, keys_); }
  Rows<Real> q(const Head& head) const { return q_.of(head, head.query); }
  Rows<Real> k(const Head& head) const { return k_.of(head, 0); }
  Rows<Real> v(const Head& head) const { return v_.of(head, value_slot_); }
  std::int64_t queries() const { return queries_.extent; }
  std::int64_t number(const Head& head) const {
    return (head.batch * kv_heads_.extent + head.kv) * group_ + head.query;
  }
  template <class Visit>
  void for_each_head(Visit visit) const {
    for (std::int64_t b = 0; b < batch_.extent; ++b)
      for (std::int64_t k = 0; k < kv_heads_.extent; ++k)
        for (std::int64_t q = 0; q < group_; ++q) visit(Head{b, k, q});
  }

  // scale q k^T, capped and masked; `slope`: of the cap at each score, 1 without one.
  Matrix<Real> scores(const Head& head, Matrix<Real>* slope) const {
    const auto scale = static_cast<Real>(call_.what.constants.at(0));
    const auto cap = static_cast<Real>(call_.what.soft_cap ? call_.what.constants.at(1) : 0);
    Matrix<Real> s = scale * (q(head) * k(head).transpose());
    if (slope != nullptr) slope->setOnes(s.rows(), s.cols());
    for (Eigen::Index i = 0; i < s.rows(); ++i)
      for (Eigen::Index j = 0; j < s.cols(); ++j) {
        if (cap > 0) {
          const Real t = std::tanh(s(i, j) / cap);
          s(i, j) = cap * t;
          if (slope != nullptr) (*slope)(i, j) = 1 - t * t;
        }
        if (!sees(i, j)) s(i, j) = -std::numeric_limits<Real>::infinity();
      }
    return s;
  }

  // What dropout leaves of probabilities, drawn as of the whole matrix of scores.
  Matrix<Real> dropped(const Matrix<Real>& p, const Head& head) const {
    const auto rate = static_cast<double>(call_.what.dropout);
    if (rate == 0) return p;
    const RandomStream stream(call_.training.seed, call_.what.label, call_.what.layer);
    const std::int64_t sample = call_.microbatch * batch_.whole + batch_.first + head.batch;
    const std::int64_t number = (sample * kv_heads_.whole + kv_heads_.first + head.kv) * group_ + head.query;
    Matrix<Real> kept = p;
    for (Eigen::Index i = 0; i < p.rows(); ++i)
      for (Eigen::Index j = 0; j < p.cols(); ++j) {
        const std::int64_t at = (number * queries_.whole + queries_.at(i)) * keys_.whole + keys_.at(j);
        kept(i, j) *= stream.uniform(at, call_.step) >= rate ? static_cast<Real>(1 / (1 - rate)) : 0;
      }
    return kept;
  }

 private:
  bool sees(std::int64_t i, std::int64_t j) const {
    const CausalMask& mask = call_.what.causal;
    const std::int64_t behind = queries_.at(i) - keys_.at(j);
    return !mask.on || (behind >= 0 && (mask.window == 0 || behind < mask.window));
  }

  const KernelCall& call_;
  const HeadRows<Real> q_, k_, v_;
  const std::int64_t value_slot_;
  const DimPart batch_, kv_heads_, queries_, keys_;
  std::int64_t group_ = 1;
};

// Scores become exponentials of what they exceed a row's log-sum-exp by. A row that sees nothing: zeros.
template <class Real>
void exponentiate(Matrix<Real>& s, Eigen::Index row, Real log_sum) {
  if (log_sum == -std::numeric_limits<Real>::infinity())
    s.row(row).setZero();
  else
    s.row(row) = (s.row(row).array() - log_sum).exp();
}

template <class Real>
Real log_sum_of(const Matrix<Real>& s, Eigen::Index row) {
  const Real maximum = s.row(row).maxCoeff();
  if (maximum == -std::numeric_limits<Real>::infinity()) return maximum;
  return maximum + std::log((s.row(row).array() - maximum).exp().sum());
}

}  // namespace

template <class Real>
void run_attention_block(const KernelCall& call) {
  const Block<Real> block(call, 0);
  const HeadRows<Real> context(call, call.outputs[0], "group");
  Real* log_sums = reals<Real>(call.outputs[1]);
  if (block.is_empty()) {
    std::fill_n(reals<Real>(call.outputs[0]), elements(call.outputs[0].part), Real{0});
    std::fill_n(log_sums, elements(call.outputs[1].part), -std::numeric_limits<Real>::infinity());
    return;
  }
  block.for_each_head([&](const Head& head) {
    Matrix<Real> p = block.scores(head, nullptr);
    Real* sums = log_sums + block.number(head) * block.queries();
    for (Eigen::Index i = 0; i < p.rows(); ++i) {
      sums[i] = log_sum_of(p, i);
      exponentiate(p, i, sums[i]);
    }
    context.of(head, head.query).noalias() = block.dropped(p, head) * block.v(head);
  });
}

// As backend/cpu_attention.cpp, with P = exp(S - L) of the final log-sum-exps L, so that a block's share of
// the row sums of P dP is missing: they come from the final output, dO . O.
template <class Real>
void run_attention_block_backward(const KernelCall& call) {
  const Block<Real> block(call, 1);
  for (const Argument& output : call.outputs)
    std::fill_n(reals<Real>(output), elements(output.part), Real{0});
  if (block.is_empty()) return;
  const bool pair = Block<Real>::packs_pair(call, 1);
  const auto scale = static_cast<Real>(call.what.constants.at(0));
  const HeadRows<Real> gradient(call, call.inputs[0], "group");
  const HeadRows<Real> context(call, call.inputs[pair ? 3 : 4], "group");
  const Real* log_sums = reals<Real>(call.inputs[pair ? 4 : 5]);
  const HeadRows<Real> dq(call, call.outputs[0], "group"), dk(call, call.outputs[1], "key_value"),
      dv(call, call.outputs[pair ? 1 : 2], "key_value");
  block.for_each_head([&](const Head& head) {
    const auto from = gradient.of(head, head.query), output = context.of(head, head.query);
    Matrix<Real> slope;
    Matrix<Real> p = block.scores(head, &slope);
    for (Eigen::Index i = 0; i < p.rows(); ++i)
      exponentiate(p, i, log_sums[block.number(head) * block.queries() + i]);
    const Matrix<Real> after = block.dropped(p, head);
    dv.of(head, pair ? 1 : 0) += after.transpose() * from;
    const Column<Real> delta = from.cwiseProduct(output).rowwise().sum();
    const Matrix<Real> weighted = after.cwiseProduct(Matrix<Real>(from * block.v(head).transpose()));
    const Matrix<Real> ds = scale * (weighted - delta.asDiagonal() * p).cwiseProduct(slope);
    dq.of(head, head.query) += ds * block.k(head);
    dk.of(head, 0) += ds.transpose() * block.q(head);
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
