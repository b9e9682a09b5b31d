#include <cmath>
#include <vector>

#include "backend/cpu/causal_convolution.h"
#include "backend/cpu/delta_chunk.h"
#include "backend/cpu/kernels.h"
#include "configs/delta_net_config.h"

// SCANs of Gated DeltaNet layers, key head by key head: convolution, norms of q and k, the gated delta rule
// chunk by chunk for each value head.
namespace simrun::cpu {
namespace {

struct DeltaSizes {
  static constexpr std::int64_t chunk = DeltaNetConfig::chunk;
  static constexpr std::int64_t statistics = 3;
  static constexpr double norm_epsilon = 1e-6;  // flash-linear-attention's l2norm

  std::int64_t batch, length, heads, group, packed, convolved, taps, value, key;

  // Of what is made from the tokens [batch, sequence, heads, packed], the convolution's weight [heads,
  // convolved, taps] and the values [batch, sequence, heads, group, value].
  DeltaSizes(const Argument& from, const Argument& weight, const Argument& values)
      : batch(from.part[0].extent),
        length(from.part[1].extent),
        heads(from.part[2].extent),
        group(values.part[3].extent),
        packed(from.part[3].extent),
        convolved(weight.part[1].extent),
        taps(weight.part[2].extent),
        value(values.part[4].extent),
        key((convolved - group * value) / 2) {}

  std::int64_t qkv() const { return 2 * key + value; }
};

struct KeyHead {
  std::int64_t sample, head;
};

// Of a key head the rows of a tensor [batch, sequence, heads, width].
template <class Real>
GroupRows<Real> rows_of_head(const DeltaSizes& s, Real* of, std::int64_t width, const KeyHead& at) {
  return {of + (at.sample * s.length * s.heads + at.head) * width, s.heads * width};
}

// What the forward pass keeps: per value head q, k and v, the inverses by chunk, reciprocal norms and decay.
template <class Real>
struct KeptRows {
  GroupRows<Real> qkv, inverse, statistics;

  KeptRows(const DeltaSizes& s, const Argument* of, const KeyHead& at)
      : qkv(rows_of_head(s, reals<Real>(of[0]), s.group * s.qkv(), at)),
        inverse(rows_of_head(s, reals<Real>(of[1]), s.group * DeltaSizes::chunk, at)),
        statistics(rows_of_head(s, reals<Real>(of[2]), s.group * DeltaSizes::statistics, at)) {}
};

// Its parameters but the convolution's weight, or their gradients, of a key head's value heads.
template <class Real>
struct DeltaParameters {
  Real *weight, *step_bias, *log_decay;

  DeltaParameters(const DeltaSizes& s, const std::vector<Real*>& of, const KeyHead& at)
      : weight(of[0] + at.head * s.convolved * s.taps),
        step_bias(of[1] + at.head * s.group),
        log_decay(of[2] + at.head * s.group) {}
};

template <class Real>
std::vector<Real*> parameters_of(const std::vector<Argument>& of, std::size_t first) {
  return {reals<Real>(of[first]), reals<Real>(of[first + 1]), reals<Real>(of[first + 2])};
}

// One value head of a key head.
template <class Real>
class ValueHead {
 public:
  using Matrix = typename DeltaChunk<Real>::Matrix;

  ValueHead(const DeltaSizes& s, const GroupRows<Real>& packed, const KeptRows<Real>& kept,
            const DeltaParameters<Real>& of, std::int64_t number)
      : s_(s),
        packed_(packed),
        kept_(kept),
        number_(number),
        bias_(of.step_bias[number]),
        rate_(-std::exp(of.log_decay[number])) {}

  Real rate() const { return rate_; }
  // In front of the sigmoid and, with its bias, of softplus.
  Real raw_beta(std::int64_t t) const { return packed_.at(t)[s_.convolved + number_]; }
  Real raw_step(std::int64_t t) const { return packed_.at(t)[s_.convolved + s_.group + number_] + bias_; }
  Real* qkv(std::int64_t t) const { return kept_.qkv.at(t) + number_ * s_.qkv(); }
  Real* statistic(std::int64_t t) const { return kept_.statistics.at(t) + number_ * DeltaSizes::statistics; }
  std::int64_t length_at(std::int64_t begin) const {
    return std::min<std::int64_t>(DeltaSizes::chunk, s_.length - begin);
  }

  // Writes what is kept of a chunk, of the values behind the convolution.
  void keep(const std::vector<Real>& convolved, std::int64_t begin) {
    Real sum = 0;
    for (std::int64_t t = begin; t < begin + length_at(begin); ++t) {
      const Real* row = convolved.data() + t * s_.convolved;
      statistic(t)[0] = normalise(row, qkv(t));
      statistic(t)[1] = normalise(row + s_.key, qkv(t) + s_.key);
      std::copy_n(row + 2 * s_.key + number_ * s_.value, s_.value, qkv(t) + 2 * s_.key);
      statistic(t)[2] = sum += rate_ * softplus(raw_step(t));
    }
    DeltaChunk<Real> chunk_of = at(begin);
    chunk_of.invert();
    for (Eigen::Index i = 0; i < chunk_of.size(); ++i) {
      Real* row = kept_.inverse.at(begin + i) + number_ * DeltaSizes::chunk;
      std::fill_n(row, DeltaSizes::chunk, Real{0});
      std::copy_n(chunk_of.inverse.data() + i * chunk_of.size(), chunk_of.size(), row);
    }
  }

  // From what is kept; before keep() without an inverse.
  DeltaChunk<Real> at(std::int64_t begin) const {
    const std::int64_t n = length_at(begin);
    DeltaChunk<Real> of{Matrix(n, s_.key), Matrix(n, s_.key), Matrix(n, s_.value), Matrix(n, n), {}, {}};
    of.beta.resize(n);
    of.decay.resize(n);
    for (std::int64_t i = 0; i < n; ++i) {
      const Real* row = qkv(begin + i);
      std::copy_n(row, s_.key, of.q.data() + i * s_.key);
      std::copy_n(row + s_.key, s_.key, of.k.data() + i * s_.key);
      std::copy_n(row + 2 * s_.key, s_.value, of.v.data() + i * s_.value);
      std::copy_n(kept_.inverse.at(begin + i) + number_ * DeltaSizes::chunk, n, of.inverse.data() + i * n);
      of.beta(i) = sigmoid(raw_beta(begin + i));
      of.decay(i) = statistic(begin + i)[2];
    }
    return of;
  }

  // States in front of every chunk.
  std::vector<Matrix> states() const {
    std::vector<Matrix> states;
    Matrix state = Matrix::Zero(s_.key, s_.value);
    for (std::int64_t begin = 0; begin < s_.length; begin += DeltaSizes::chunk) {
      states.push_back(state);
      const DeltaChunk<Real> of = at(begin);
      of.advance(of.updates(state), state);
    }
    return states;
  }

 private:
  // x / sqrt(x x + epsilon); returns what it multiplies by.
  Real normalise(const Real* x, Real* to) const {
    Real squares = static_cast<Real>(DeltaSizes::norm_epsilon);
    for (std::int64_t i = 0; i < s_.key; ++i) squares += x[i] * x[i];
    const Real factor = 1 / std::sqrt(squares);
    for (std::int64_t i = 0; i < s_.key; ++i) to[i] = factor * x[i];
    return factor;
  }

  const DeltaSizes& s_;
  GroupRows<Real> packed_;
  KeptRows<Real> kept_;
  std::int64_t number_;
  Real bias_, rate_;
};

// Where the gradients of one value head go: of q, k and v behind the convolution, of b and a, of the
// parameters.
template <class Real>
struct HeadGradients {
  std::vector<Real>& convolved;
  GroupRows<Real> packed;
  DeltaParameters<Real> parameters;
};

template <class Real>
class ValueHeadBackward {
 public:
  ValueHeadBackward(const DeltaSizes& s, const ValueHead<Real>& head, std::int64_t number,
                    const HeadGradients<Real>& to)
      : s_(s), head_(head), number_(number), to_(to) {}

  // `of_values`: rows of the key head's values' gradients.
  void run(const GroupRows<Real>& of_values) {
    const std::vector<Matrix> states = head_.states();
    Matrix of_state = Matrix::Zero(s_.key, s_.value);
    for (std::size_t c = states.size(); c-- > 0;) {
      const std::int64_t begin = static_cast<std::int64_t>(c) * DeltaSizes::chunk, n = head_.length_at(begin);
      Matrix of_out(n, s_.value);
      for (std::int64_t i = 0; i < n; ++i)
        std::copy_n(of_values.at(begin + i) + number_ * s_.value, s_.value, of_out.data() + i * s_.value);
      const DeltaChunk<Real> of = head_.at(begin);
      const DeltaChunkGradients<Real> gradients(of, states[c], of_out, of_state);
      spread(begin, of, gradients);
    }
  }

 private:
  using Matrix = typename DeltaChunk<Real>::Matrix;

  void spread(std::int64_t begin, const DeltaChunk<Real>& of, const DeltaChunkGradients<Real>& gradients) {
    Real behind = 0;  // of the logarithm of a token's decay, which is in the sums of all behind it
    for (std::int64_t i = of.size(); i-- > 0;) {
      const std::int64_t t = begin + i;
      Real* row = to_.convolved.data() + t * s_.convolved;
      add_normalised(of.q.data() + i * s_.key, gradients.q.data() + i * s_.key, head_.statistic(t)[0], row);
      add_normalised(of.k.data() + i * s_.key, gradients.k.data() + i * s_.key, head_.statistic(t)[1],
                     row + s_.key);
      std::copy_n(gradients.v.data() + i * s_.value, s_.value, row + 2 * s_.key + number_ * s_.value);
      behind += gradients.decay(i);
      const Real raw = head_.raw_step(t), of_raw = behind * head_.rate() * sigmoid(raw);
      Real* of_packed = to_.packed.at(t) + s_.convolved;
      of_packed[number_] = gradients.beta(i) * of.beta(i) * (1 - of.beta(i));
      of_packed[s_.group + number_] = of_raw;
      to_.parameters.step_bias[number_] += of_raw;
      to_.parameters.log_decay[number_] += behind * head_.rate() * softplus(raw);
    }
  }

  // Through y = factor x: dx += factor (dy - y (y dy)).
  void add_normalised(const Real* y, const Real* dy, Real factor, Real* dx) const {
    Real along = 0;
    for (std::int64_t i = 0; i < s_.key; ++i) along += y[i] * dy[i];
    for (std::int64_t i = 0; i < s_.key; ++i) dx[i] += factor * (dy[i] - y[i] * along);
  }

  const DeltaSizes& s_;
  const ValueHead<Real>& head_;
  std::int64_t number_;
  const HeadGradients<Real>& to_;
};

template <class Real>
CausalConvolution<Real> convolution_of(const DeltaSizes& s, const DeltaParameters<Real>& of) {
  return {s.length, s.convolved, s.taps, of.weight, nullptr};
}

}  // namespace

template <class Real>
void run_delta_rule(const KernelCall& call) {
  const Argument& values = call.outputs[0];
  const DeltaSizes s(call.inputs[0], call.inputs[1], values);
  for (KeyHead at{0, 0}; at.sample < s.batch; ++at.sample)
    for (at.head = 0; at.head < s.heads; ++at.head) {
      const DeltaParameters<Real> parameters(s, parameters_of<Real>(call.inputs, 1), at);
      const GroupRows<Real> packed = rows_of_head(s, reals<Real>(call.inputs[0]), s.packed, at);
      const GroupRows<Real> to = rows_of_head(s, reals<Real>(values), s.group * s.value, at);
      const auto convolved = convolution_of(s, parameters).forward(packed);
      const KeptRows<Real> kept(s, &call.outputs[1], at);
      for (std::int64_t number = 0; number < s.group; ++number) {
        ValueHead<Real> head(s, packed, kept, parameters, number);
        typename ValueHead<Real>::Matrix state = ValueHead<Real>::Matrix::Zero(s.key, s.value);
        for (std::int64_t begin = 0; begin < s.length; begin += DeltaSizes::chunk) {
          head.keep(convolved.values, begin);
          const DeltaChunk<Real> of = head.at(begin);
          const auto updates = of.updates(state), out = of.outputs(state, updates);
          for (Eigen::Index i = 0; i < of.size(); ++i)
            std::copy_n(out.data() + i * s.value, s.value, to.at(begin + i) + number * s.value);
          of.advance(updates, state);
        }
      }
    }
}

template <class Real>
void run_delta_rule_backward(const KernelCall& call) {
  const Argument &gradient = call.inputs[0], &in0 = call.inputs[1];
  const DeltaSizes s(in0, call.inputs[2], gradient);
  const ScanGradients<Real> to(call, in0, 3);
  for (KeyHead at{0, 0}; at.sample < s.batch; ++at.sample)
    for (at.head = 0; at.head < s.heads; ++at.head) {
      const DeltaParameters<Real> parameters(s, parameters_of<Real>(call.inputs, 2), at);
      const GroupRows<Real> packed = rows_of_head(s, reals<Real>(in0), s.packed, at);
      const KeptRows<Real> kept(s, &call.inputs[5], at);
      const CausalConvolution<Real> convolution = convolution_of(s, parameters);
      std::vector<Real> of_convolved(static_cast<std::size_t>(s.length * s.convolved));
      const HeadGradients<Real> gradients{of_convolved, rows_of_head(s, to.packed, s.packed, at),
                                          DeltaParameters<Real>(s, to.parameters, at)};
      for (std::int64_t number = 0; number < s.group; ++number) {
        const ValueHead<Real> head(s, packed, kept, parameters, number);
        ValueHeadBackward<Real>(s, head, number, gradients)
            .run(rows_of_head(s, reals<Real>(gradient), s.group * s.value, at));
      }
      convolution.backward(packed, convolution.forward(packed), of_convolved,
                           {gradients.packed, gradients.parameters.weight, nullptr});
    }
}

template void run_delta_rule<float>(const KernelCall&);
template void run_delta_rule<double>(const KernelCall&);
template void run_delta_rule_backward<float>(const KernelCall&);
template void run_delta_rule_backward<double>(const KernelCall&);

}  // namespace simrun::cpu
