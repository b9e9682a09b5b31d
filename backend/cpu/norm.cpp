#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/math.h"

namespace simrun::cpu {
namespace {

bool is_centred(const KernelCall& call) {
  return call.what.function == Function::layer_norm || call.what.function == Function::qk_layer_norm;
}

// The weights of a norm, `argument` null: ones. Of packed q, k, v [.., kv_heads, qkv, head_dim] a row is one
// head, of which a value is copied.
template <class Real>
class NormWeights {
 public:
  NormWeights(const KernelCall& call, const Argument& x, const Argument* argument)
      : n_(last_extent(x)), own_(call.what.function == Function::qk_layer_norm) {
    if (own_ || call.what.function == Function::qk_norm) {
      qkv_ = part_named(call, x, "qkv").extent;
      heads_ = part_named(call, x, "kv_heads").extent;
    }
    if (argument == nullptr) ones_.assign(static_cast<std::size_t>(n_), Real{1});
    data_ = argument == nullptr ? ones_.data() : reals<Real>(*argument);
    rows_ = argument == nullptr ? 1 : rows_of(*argument);
  }
  std::int64_t elements() const { return rows_ * n_; }
  bool is_copied(std::int64_t row) const { return qkv_ > 0 && row % qkv_ == qkv_ - 1; }
  // Where the weight of a row of x begins. REQUIRES: the row is not copied.
  std::int64_t begin(std::int64_t row) const {
    const std::int64_t place = qkv_ == 0 ? 0 : row % qkv_;
    if (own_ && qkv_ > 0) return (row / qkv_ % heads_ * (qkv_ - 1) + place) * n_;
    if (qkv_ > 0) return (place == qkv_ - 2 && rows_ > 1 ? 1 : 0) * n_;
    return row % rows_ * n_;
  }
  const Real* of(std::int64_t row) const { return data_ + begin(row); }

 private:
  std::int64_t n_, qkv_ = 0, heads_ = 0, rows_ = 1;
  bool own_;
  std::vector<Real> ones_;
  const Real* data_ = nullptr;
};

template <class Real>
void clear_unless_added(const KernelCall& call, const Argument& output) {
  if (!adds_to(call, output)) std::fill_n(reals<Real>(output), elements(output.part), Real{0});
}

// Where the gradients go. Outputs are those that are wanted of x, weight and bias, in this order: of a frozen
// norm there is x's alone, of one behind frozen layers the others. What is not wanted goes nowhere.
template <class Real>
struct NormGradients {
  Real *x = nullptr, *weight = nullptr, *bias = nullptr;
  std::vector<Real> row, unwanted;

  NormGradients(const KernelCall& call, const Argument& of, std::int64_t weights)
      : row(static_cast<std::size_t>(last_extent(of))), unwanted(static_cast<std::size_t>(weights)) {
    std::size_t next = 0;
    const bool wants_x = call.outputs[0].part.size() == of.part.size();
    if (wants_x) x = reals<Real>(call.outputs[next++]);
    weight = next < call.outputs.size() ? reals<Real>(call.outputs[next]) : unwanted.data();
    if (next + 1 < call.outputs.size()) bias = reals<Real>(call.outputs[next + 1]);
    for (; next < call.outputs.size(); ++next) clear_unless_added<Real>(call, call.outputs[next]);
  }
  Real* of_row(std::int64_t at, std::int64_t n) { return x != nullptr ? x + at * n : row.data(); }
};

// The heads of a token that one norm takes together, of packed q, k, v [kv_heads, qkv, head_dim] with weights
// [kv_heads, qkv - 1, head_dim]: all queries or all keys, one behind the other.
class JoinedHeads {
 public:
  JoinedHeads(const KernelCall& call, const Argument& x, bool is_key)
      : heads_(part_named(call, x, "kv_heads").extent),
        qkv_(part_named(call, x, "qkv").extent),
        n_(last_extent(x)),
        first_(is_key ? qkv_ - 2 : 0),
        places_(is_key ? 1 : qkv_ - 2) {}

  std::int64_t size() const { return heads_ * places_ * n_; }

  // `rows`: of a key-value head in `packed`, qkv for values or qkv - 1 for weights.
  template <class Real>
  std::vector<Real> taken(const Real* packed, std::int64_t rows) const {
    std::vector<Real> joined(static_cast<std::size_t>(size()));
    for (std::int64_t head = 0; head < heads_; ++head)
      std::copy_n(packed + (head * rows + first_) * n_, places_ * n_, joined.data() + head * places_ * n_);
    return joined;
  }
  template <class Real>
  void put(const std::vector<Real>& joined, std::int64_t rows, Real* packed) const {
    for (std::int64_t head = 0; head < heads_; ++head)
      std::copy_n(joined.data() + head * places_ * n_, places_ * n_, packed + (head * rows + first_) * n_);
  }
  template <class Real>
  void copy_values(const Real* from, Real* to) const {
    for (std::int64_t head = 0; head < heads_; ++head)
      std::copy_n(from + (head * qkv_ + qkv_ - 1) * n_, n_, to + (head * qkv_ + qkv_ - 1) * n_);
  }
  std::int64_t qkv() const { return qkv_; }
  std::int64_t token() const { return heads_ * qkv_ * n_; }  // elements of one

 private:
  std::int64_t heads_, qkv_, n_, first_, places_;
};

bool joins_heads(const KernelCall& call, const Argument& weight) {
  return call.what.function == Function::qk_norm && weight.part.size() == 3;
}

template <class Real>
void norm_of_all_heads(const KernelCall& call) {
  const Argument &x = call.inputs[0], &y = call.outputs[0];
  const JoinedHeads parts[] = {{call, x, false}, {call, x, true}};
  const std::int64_t token = parts[0].token(), tokens = elements(x.part) / token, qkv = parts[0].qkv();
  for (std::int64_t at = 0; at < tokens; ++at) {
    const Real* from = reals<Real>(x) + at * token;
    Real* to = reals<Real>(y) + at * token;
    for (std::size_t part = 0; part < 2; ++part) {
      const std::vector<Real> values = parts[part].taken(from, qkv),
                              weights = parts[part].taken(reals<Real>(call.inputs[1]), qkv - 1);
      typename Math<Real>::NormRow row{values.data(), weights.data(), parts[part].size(), false};
      std::vector<Real> normed(values.size());
      math<Real>().norm(row, nullptr, call.what.constants.at(0), normed.data());
      reals<Real>(call.outputs[1])[2 * at + static_cast<std::int64_t>(part)] = row.r;
      parts[part].put(normed, qkv, to);
    }
    parts[0].copy_values(from, to);
  }
}

template <class Real>
void norm_of_all_heads_backward(const KernelCall& call) {
  const Argument &gradient = call.inputs[0], &x = call.inputs[1];
  const JoinedHeads parts[] = {{call, x, false}, {call, x, true}};
  const std::int64_t token = parts[0].token(), tokens = elements(x.part) / token, qkv = parts[0].qkv();
  NormGradients<Real> to(call, x, elements(call.inputs[2].part));
  std::vector<Real> of_weights[2];
  for (std::size_t part = 0; part < 2; ++part) of_weights[part].resize(std::size_t(parts[part].size()));
  for (std::int64_t at = 0; at < tokens; ++at) {
    for (std::size_t part = 0; part < 2; ++part) {
      const std::vector<Real> values = parts[part].taken(reals<Real>(x) + at * token, qkv),
                              dy = parts[part].taken(reals<Real>(gradient) + at * token, qkv),
                              weights = parts[part].taken(reals<Real>(call.inputs[2]), qkv - 1);
      const Real r = reals<Real>(call.inputs[3])[2 * at + static_cast<std::int64_t>(part)];
      const typename Math<Real>::NormRow row{values.data(), weights.data(), parts[part].size(), false, 0, r};
      std::vector<Real> dx(values.size());
      math<Real>().norm_backward(row, {dy.data(), dx.data(), of_weights[part].data(), nullptr});
      if (to.x != nullptr) parts[part].put(dx, qkv, to.x + at * token);
    }
    if (to.x != nullptr) parts[0].copy_values(reals<Real>(gradient) + at * token, to.x + at * token);
  }
  for (std::size_t part = 0; part < 2; ++part) {
    std::vector<Real> sum = parts[part].taken(to.weight, qkv - 1);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += of_weights[part][i];
    parts[part].put(sum, qkv - 1, to.weight);
  }
}

}  // namespace

template <class Real>
void run_norm(const KernelCall& call) {
  if (call.what.function == Function::batch_norm) return run_batch_norm<Real>(call);
  const bool weighted = call.inputs.size() > 1;
  if (weighted && joins_heads(call, call.inputs[1])) return norm_of_all_heads<Real>(call);
  const Argument& x = call.inputs[0];
  const bool centred = is_centred(call);
  const std::int64_t n = last_extent(x), rows = rows_of(x), kept = last_extent(call.outputs[1]);
  const Real* bias = call.inputs.size() > 2 ? reals<Real>(call.inputs[2]) : nullptr;
  const NormWeights<Real> weights(call, x, weighted ? &call.inputs[1] : nullptr);
  for (std::int64_t at = 0; at < rows; ++at) {
    const Real* from = reals<Real>(x) + at * n;
    Real* y = reals<Real>(call.outputs[0]) + at * n;
    Real* statistics = reals<Real>(call.outputs[1]) + at * kept;
    if (weights.is_copied(at)) {
      std::copy_n(from, n, y);
      std::fill_n(statistics, kept, Real{1});
      continue;
    }
    typename Math<Real>::NormRow row{from, weights.of(at), n, centred};
    math<Real>().norm(row, bias, call.what.constants.at(0), y);
    if (centred) statistics[0] = row.mean;
    statistics[centred ? 1 : 0] = row.r;
  }
}

template <class Real>
void run_norm_backward(const KernelCall& call) {
  if (call.what.function == Function::batch_norm) return run_batch_norm_backward<Real>(call);
  const bool weighted = call.inputs.size() > 3;
  if (weighted && joins_heads(call, call.inputs[2])) return norm_of_all_heads_backward<Real>(call);
  const Argument &x = call.inputs[1], &kept_rows = call.inputs.back();
  const bool centred = is_centred(call);
  const std::int64_t n = last_extent(x), rows = rows_of(x), kept = last_extent(kept_rows);
  const NormWeights<Real> weights(call, x, weighted ? &call.inputs[2] : nullptr);
  NormGradients<Real> to(call, x, weights.elements());
  for (std::int64_t at = 0; at < rows; ++at) {
    const Real* dy = reals<Real>(call.inputs[0]) + at * n;
    Real* dx = to.of_row(at, n);
    if (weights.is_copied(at)) {
      std::copy_n(dy, n, dx);
      continue;
    }
    const Real* statistics = reals<Real>(kept_rows) + at * kept;
    const typename Math<Real>::NormRow row{
        reals<Real>(x) + at * n,    weights.of(at), n, centred, centred ? statistics[0] : 0,
        statistics[centred ? 1 : 0]};
    math<Real>().norm_backward(row, {dy, dx, to.weight + weights.begin(at), to.bias});
  }
}

template void run_norm<float>(const KernelCall&);
template void run_norm<double>(const KernelCall&);
template void run_norm_backward<float>(const KernelCall&);
template void run_norm_backward<double>(const KernelCall&);

}  // namespace simrun::cpu
