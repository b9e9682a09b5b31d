#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cpu/causal_convolution.h"
#include "backend/cpu/kernels.h"

// Mamba-2's mixer between its two products (Dao and Gu 2024, arXiv 2405.21060), group by group, one position
// after the other: what is computed in chunks on a GPU is the recurrence itself here.
namespace simrun::cpu {
namespace {

struct ScanSizes {
  std::int64_t batch, length, groups, packed, convolved, taps, inner, heads, head_dim, state;

  // Of what is made from the tokens [batch, sequence, groups, packed], the convolution's weight [groups,
  // convolved, taps] and the channels [batch, sequence, groups, inner].
  ScanSizes(const Argument& from, const Argument& weight, const Argument& channels)
      : batch(from.part[0].extent),
        length(from.part[1].extent),
        groups(from.part[2].extent),
        packed(from.part[3].extent),
        convolved(weight.part[1].extent),
        taps(weight.part[2].extent),
        inner(channels.part[3].extent),
        heads(packed - convolved - inner),
        head_dim(inner / heads),
        state((convolved - inner) / 2) {}

  std::int64_t states() const { return head_dim * state; }
};

// Its parameters, or their gradients.
template <class Real>
struct ScanParameters {
  Real *weight = nullptr, *bias = nullptr, *step_bias = nullptr, *log_decay = nullptr, *skip = nullptr;

  ScanParameters() = default;
  explicit ScanParameters(const std::vector<Real*>& of)
      : weight(of[0]), bias(of[1]), step_bias(of[2]), log_decay(of[3]), skip(of[4]) {}
  ScanParameters(const std::vector<Argument>& of, std::size_t first)
      : weight(reals<Real>(of[first])),
        bias(reals<Real>(of[first + 1])),
        step_bias(reals<Real>(of[first + 2])),
        log_decay(reals<Real>(of[first + 3])),
        skip(reals<Real>(of[first + 4])) {}

  ScanParameters of_group(const ScanSizes& s, std::int64_t group) const {
    ScanParameters part;
    part.weight = weight + group * s.convolved * s.taps;
    part.bias = bias + group * s.convolved;
    part.step_bias = step_bias + group * s.heads;
    part.log_decay = log_decay + group * s.heads;
    part.skip = skip + group * s.heads;
    return part;
  }
};

// One group of one sample: its rows of a tensor [batch, sequence, groups, width].
template <class Real>
GroupRows<Real> rows_of_group(const ScanSizes& s, Real* of, std::int64_t width, std::int64_t sample,
                              std::int64_t group) {
  return {of + (sample * s.length * s.groups + group) * width, s.groups * width};
}

// Of x, B and C of every position.
template <class Real>
CausalConvolution<Real> convolution_of(const ScanSizes& s, const ScanParameters<Real>& of) {
  return {s.length, s.convolved, s.taps, of.weight, of.bias};
}
template <class Real>
using Convolved = typename CausalConvolution<Real>::Rows;

// What one head reads at one position.
template <class Real>
struct HeadInputs {
  const Real *x, *b, *c;
  Real raw, step, decay;  // of the step before and behind softplus; what is left of the state
};

template <class Real>
class ScanHead {
 public:
  ScanHead(const ScanSizes& s, const GroupRows<Real>& packed, const Convolved<Real>& rows,
           const ScanParameters<Real>& of, std::int64_t head)
      : s_(s),
        packed_(packed),
        rows_(rows),
        bias_(of.step_bias[head]),
        rate_(-std::exp(of.log_decay[head])),
        head_(head) {}

  Real rate() const { return rate_; }

  HeadInputs<Real> at(std::int64_t position) const {
    const Real* row = rows_.values.data() + position * s_.convolved;
    HeadInputs<Real> in{row + head_ * s_.head_dim, row + s_.inner, row + s_.inner + s_.state, 0, 0, 0};
    in.raw = packed_.at(position)[s_.inner + s_.convolved + head_] + bias_;
    in.step = softplus(in.raw);
    in.decay = std::exp(in.step * rate_);
    return in;
  }

  // The state behind a position, from that before it; they may be one.
  void advance(const HeadInputs<Real>& in, const Real* before, Real* state) const {
    for (std::int64_t p = 0; p < s_.head_dim; ++p) {
      const Real written = in.step * in.x[p];
      for (std::int64_t n = 0; n < s_.state; ++n)
        state[p * s_.state + n] = in.decay * before[p * s_.state + n] + written * in.b[n];
    }
  }

 private:
  const ScanSizes& s_;
  const GroupRows<Real>& packed_;
  const Convolved<Real>& rows_;
  Real bias_, rate_;
  std::int64_t head_;
};

// Gradients of one group of one sample: of x, B and C behind the convolution, and of the parameters.
template <class Real>
struct GroupGradients {
  std::vector<Real> values;
  ScanParameters<Real> parameters;
};

// Backwards through one head. States are computed again in stretches from those at their beginnings, so that
// not every position's is kept.
template <class Real>
class HeadBackward {
 public:
  HeadBackward(const ScanSizes& s, const ScanHead<Real>& head, std::int64_t number)
      : s_(s),
        head_(head),
        number_(number),
        states_(static_cast<std::size_t>((stretch + 1) * s.states())),
        gradient_(static_cast<std::size_t>(s.states())) {
    std::vector<Real> state(gradient_.size());
    for (std::int64_t t = 0; t < s.length; ++t) {
      if (t % stretch == 0) begins_.push_back(state);
      head_.advance(head_.at(t), state.data(), state.data());
    }
  }

  // `channels`: gradients of the channels in front of the gate; `packed`: where those of dt go.
  void run(const GroupRows<Real>& channels, Real skip, const GroupRows<Real>& packed,
           GroupGradients<Real>& to) {
    for (std::int64_t begin = (s_.length - 1) / stretch * stretch; begin >= 0; begin -= stretch) {
      const std::int64_t end = std::min(begin + stretch, s_.length);
      std::ranges::copy(begins_[static_cast<std::size_t>(begin / stretch)], states_.begin());
      for (std::int64_t t = begin; t < end; ++t)
        head_.advance(head_.at(t), state(t - begin), state(t - begin + 1));
      for (std::int64_t t = end; t-- > begin;)
        packed.at(t)[s_.inner + s_.convolved + number_] = step_back(
            t, {state(t - begin), state(t - begin + 1), channels.at(t) + number_ * s_.head_dim}, skip, to);
    }
  }

 private:
  static constexpr std::int64_t stretch = 16;

  struct Position {
    const Real *before, *behind;  // states
    const Real* gradient;         // of the head's channels
  };

  Real* state(std::int64_t i) { return states_.data() + i * s_.states(); }

  // One position; returns the gradient of its dt.
  Real step_back(std::int64_t t, const Position& at, Real skip, GroupGradients<Real>& to) {
    const HeadInputs<Real> in = head_.at(t);
    Real* row = to.values.data() + t * s_.convolved;
    Real *dx = row + number_ * s_.head_dim, *db = row + s_.inner, *dc = row + s_.inner + s_.state;
    Real of_step = 0, of_decay = 0;
    for (std::int64_t p = 0; p < s_.head_dim; ++p) {
      const Real dy = at.gradient[p];
      Real written = 0;
      for (std::int64_t n = 0; n < s_.state; ++n) {
        const std::int64_t i = p * s_.state + n;
        Real& ds = gradient_[static_cast<std::size_t>(i)];
        ds += dy * in.c[n];
        dc[n] += dy * at.behind[i];
        written += ds * in.b[n];
        db[n] += ds * in.step * in.x[p];
        of_decay += ds * at.before[i];
        ds *= in.decay;
      }
      dx[p] += in.step * written + skip * dy;
      of_step += written * in.x[p];
      to.parameters.skip[number_] += dy * in.x[p];
    }
    of_decay *= in.decay;
    to.parameters.log_decay[number_] += of_decay * in.step * head_.rate();
    const Real raw = (of_step + of_decay * head_.rate()) * sigmoid(in.raw);
    to.parameters.step_bias[number_] += raw;
    return raw;
  }

  const ScanSizes& s_;
  const ScanHead<Real>& head_;
  std::int64_t number_;
  std::vector<Real> states_, gradient_;  // of a stretch; of the state behind the position at hand
  std::vector<std::vector<Real>> begins_;
};

// One group of one sample as it was forward.
template <class Real>
struct GroupForward {
  GroupRows<Real> packed;
  ScanParameters<Real> parameters;
  Convolved<Real> rows;

  GroupForward(const ScanSizes& s, const GroupRows<Real>& from, const ScanParameters<Real>& of)
      : packed(from), parameters(of), rows(convolution_of(s, of).forward(from.from(s.inner))) {}
};

template <class Real>
void scan_group(const ScanSizes& s, const GroupRows<Real>& packed, const ScanParameters<Real>& of,
                const GroupRows<Real>& gated, const GroupRows<Real>& scanned) {
  const Convolved<Real> rows = convolution_of(s, of).forward(packed.from(s.inner));
  std::vector<Real> state(static_cast<std::size_t>(s.states()));
  for (std::int64_t h = 0; h < s.heads; ++h) {
    const ScanHead<Real> head(s, packed, rows, of, h);
    std::ranges::fill(state, Real{0});
    for (std::int64_t t = 0; t < s.length; ++t) {
      const HeadInputs<Real> in = head.at(t);
      head.advance(in, state.data(), state.data());
      for (std::int64_t p = 0; p < s.head_dim; ++p) {
        const std::int64_t channel = h * s.head_dim + p;
        Real y = of.skip[h] * in.x[p];
        for (std::int64_t n = 0; n < s.state; ++n)
          y += state[static_cast<std::size_t>(p * s.state + n)] * in.c[n];
        scanned.at(t)[channel] = y;
        gated.at(t)[channel] = y * Silu<Real>::value(packed.at(t)[channel]);
      }
    }
  }
}

}  // namespace

template <class Real>
void run_scan(const KernelCall& call) {
  const ScanSizes s(call.inputs[0], call.inputs[1], call.outputs[0]);
  const ScanParameters<Real> parameters(call.inputs, 1);
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t g = 0; g < s.groups; ++g)
      scan_group<Real>(s, rows_of_group(s, reals<Real>(call.inputs[0]), s.packed, b, g),
                       parameters.of_group(s, g),
                       rows_of_group(s, reals<Real>(call.outputs[0]), s.inner, b, g),
                       rows_of_group(s, reals<Real>(call.outputs[1]), s.inner, b, g));
}

template <class Real>
void run_scan_backward(const KernelCall& call) {
  const Argument &gradient = call.inputs[0], &in0 = call.inputs[1], &scanned = call.inputs.back();
  const ScanSizes s(in0, call.inputs[2], gradient);
  const ScanParameters<Real> parameters(call.inputs, 2);
  const ScanGradients<Real> to(call, in0, 5);
  const ScanParameters<Real> of_parameters(to.parameters);
  std::vector<Real> ungated(static_cast<std::size_t>(s.length * s.inner));
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t g = 0; g < s.groups; ++g) {
      const GroupRows<Real> from = rows_of_group(s, reals<Real>(in0), s.packed, b, g),
                            dfrom = rows_of_group(s, to.packed, s.packed, b, g);
      const GroupRows<Real> dgated = rows_of_group(s, reals<Real>(gradient), s.inner, b, g),
                            y = rows_of_group(s, reals<Real>(scanned), s.inner, b, g);
      for (std::int64_t t = 0; t < s.length; ++t)
        for (std::int64_t c = 0; c < s.inner; ++c) {
          const Real z = from.at(t)[c];
          ungated[static_cast<std::size_t>(t * s.inner + c)] = dgated.at(t)[c] * Silu<Real>::value(z);
          dfrom.at(t)[c] = dgated.at(t)[c] * y.at(t)[c] * Silu<Real>::slope(z);
        }
      const GroupForward<Real> of(s, from, parameters.of_group(s, g));
      GroupGradients<Real> gradients{std::vector<Real>(of.rows.values.size()), of_parameters.of_group(s, g)};
      ScanSizes alone = s;  // the group's channels lie by themselves
      alone.groups = 1;
      const GroupRows<Real> channels = rows_of_group(alone, ungated.data(), s.inner, 0, 0);
      for (std::int64_t h = 0; h < s.heads; ++h) {
        const ScanHead<Real> head(s, from, of.rows, of.parameters, h);
        HeadBackward<Real>(s, head, h).run(channels, of.parameters.skip[h], dfrom, gradients);
      }
      convolution_of(s, of.parameters)
          .backward(from.from(s.inner), of.rows, gradients.values,
                    {dfrom.from(s.inner), gradients.parameters.weight, gradients.parameters.bias});
    }
}

template void run_scan<float>(const KernelCall&);
template void run_scan<double>(const KernelCall&);
template void run_scan_backward<float>(const KernelCall&);
template void run_scan_backward<double>(const KernelCall&);

}  // namespace simrun::cpu
