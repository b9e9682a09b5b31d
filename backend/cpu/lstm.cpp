#include <cmath>
#include <vector>

#include "backend/cpu/eigen_products.h"
#include "backend/cpu/kernels.h"

// LSTM layers (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000), one position of
// the whole batch after the other. Gates lie as input, forget, candidate, output (PyTorch's order).
namespace simrun::cpu {
namespace {

template <class Real>
using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
// One position of [batch, sequence, width]: a row per sample.
template <class Real>
using StridedRows = Eigen::Map<Matrix<Real>, 0, Eigen::OuterStride<>>;

struct CellSizes {
  std::int64_t batch, length, cells, hidden;
  std::int64_t shift;  // from a position to the one that is read before it: -1 is back in the text

  // The i-th position that is read, and the one before that; outside [0, length): there is none.
  std::int64_t position(std::int64_t i) const { return shift < 0 ? i : length - 1 - i; }
  std::int64_t before(std::int64_t position) const { return position + shift; }
  bool has(std::int64_t position) const { return position >= 0 && position < length; }
};

// `gates`: [batch, sequence, gates, cell]; constants = {1} reads from the front, {-1} from the back.
CellSizes cell_sizes(const KernelCall& call, const Argument& gates, const Argument& weight) {
  const std::int64_t shift = call.what.constants.at(0) > 0 ? -1 : 1;
  return {gates.part[0].extent, gates.part[1].extent, gates.part[3].extent, weight.part[2].extent, shift};
}

template <class Real>
StridedRows<Real> rows_at(const CellSizes& s, const Argument& of, std::int64_t position, std::int64_t width) {
  return {reals<Real>(of) + position * width, s.batch, width, Eigen::OuterStride<>(s.length * width)};
}

template <class Real>
Eigen::Map<Matrix<Real>> weights_of(const CellSizes& s, const Argument& weight) {
  return {reals<Real>(weight), 4 * s.cells, s.hidden};
}

// One cell of one sample: what its gates let through. `gate`: the four, `cells` apart.
template <class Real>
Real open_gates(Real* gate, std::int64_t cells, Real before) {
  for (const std::int64_t g : {0, 1, 3}) gate[g * cells] = sigmoid(gate[g * cells]);
  gate[2 * cells] = std::tanh(gate[2 * cells]);
  return gate[cells] * before + gate[0] * gate[2 * cells];
}

// One cell's four gates and the gradients of the sums in front of them, `cells` apart.
template <class Real>
struct GateGradients {
  const Real* gate;
  Real* to;
  std::int64_t cells;
};

// The gradients of one cell: dh of its output, dc of its state from the position read after it, which becomes
// that for the one before. Writes those of the sums in front of the gates.
template <class Real>
void close_gates(const GateGradients<Real>& of, const Real (&states)[2], Real dh, Real& dc) {
  const auto [gate, to, cells] = of;
  const Real i = gate[0], f = gate[cells], candidate = gate[2 * cells], o = gate[3 * cells];
  const Real squashed = std::tanh(states[0]);
  dc += dh * o * (1 - squashed * squashed);
  to[0] = dc * candidate * i * (1 - i);
  to[cells] = dc * states[1] * f * (1 - f);
  to[2 * cells] = dc * i * (1 - candidate * candidate);
  to[3 * cells] = dh * squashed * o * (1 - o);
  dc *= f;
}

}  // namespace

template <class Real>
void run_lstm(const KernelCall& call) {
  const Argument &x = call.inputs[0], &weight = call.inputs[1];
  const Argument &hidden = call.outputs[0], &gates = call.outputs[1], &cells = call.outputs[2];
  const CellSizes s = cell_sizes(call, x, weight);
  for (std::int64_t step = 0; step < s.length; ++step) {
    const std::int64_t at = s.position(step), before = s.before(at);
    StridedRows<Real> gate = rows_at<Real>(s, gates, at, 4 * s.cells);
    gate = rows_at<Real>(s, x, at, 4 * s.cells);
    if (s.has(before))
      multiply_add(as_stored(rows_at<Real>(s, hidden, before, s.hidden)),
                   transposed(weights_of<Real>(s, weight)), gate);
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t c = 0; c < s.cells; ++c) {
        const auto state = [&](std::int64_t position) -> Real& {
          return reals<Real>(cells)[(b * s.length + position) * s.cells + c];
        };
        Real* of_cell = &gate(b, c);
        state(at) = open_gates(of_cell, s.cells, s.has(before) ? state(before) : Real{0});
        reals<Real>(hidden)[(b * s.length + at) * s.hidden + c] = of_cell[3 * s.cells] * std::tanh(state(at));
      }
  }
}

template <class Real>
void run_lstm_backward(const KernelCall& call) {
  const Argument &gradient = call.inputs[0], &weight = call.inputs[1];
  const Argument &gates = call.inputs[2], &cells = call.inputs[3], &dx = call.outputs[0];
  const CellSizes s = cell_sizes(call, gates, weight);
  Matrix<Real> dh(s.batch, s.hidden), dc = Matrix<Real>::Zero(s.batch, s.cells);
  for (std::int64_t step = s.length; step-- > 0;) {
    const std::int64_t at = s.position(step), before = s.before(at), after = at - s.shift;
    dh = rows_at<Real>(s, gradient, at, s.hidden);
    if (s.has(after))
      multiply_add(as_stored(rows_at<Real>(s, dx, after, 4 * s.cells)),
                   as_stored(weights_of<Real>(s, weight)), dh);
    StridedRows<Real> to = rows_at<Real>(s, dx, at, 4 * s.cells),
                      gate = rows_at<Real>(s, gates, at, 4 * s.cells);
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t c = 0; c < s.cells; ++c) {
        const auto state = [&](std::int64_t position) {
          return s.has(position) ? reals<Real>(cells)[(b * s.length + position) * s.cells + c] : Real{0};
        };
        close_gates<Real>({&gate(b, c), &to(b, c), s.cells}, {state(at), state(before)}, dh(b, c), dc(b, c));
      }
  }
}

template <class Real>
void run_recurrent_weight_gradient(const KernelCall& call) {
  const Argument &gates = call.inputs[0], &hidden = call.inputs[1], &dweight = call.outputs[0];
  const CellSizes s = cell_sizes(call, gates, dweight);
  auto to = weights_of<Real>(s, dweight);
  if (!adds_to(call, dweight)) to.setZero();
  for (std::int64_t at = 0; at < s.length; ++at)
    if (s.has(s.before(at)))
      multiply_add(transposed(rows_at<Real>(s, gates, at, 4 * s.cells)),
                   as_stored(rows_at<Real>(s, hidden, s.before(at), s.hidden)), to);
}

template void run_lstm<float>(const KernelCall&);
template void run_lstm<double>(const KernelCall&);
template void run_lstm_backward<float>(const KernelCall&);
template void run_lstm_backward<double>(const KernelCall&);
template void run_recurrent_weight_gradient<float>(const KernelCall&);
template void run_recurrent_weight_gradient<double>(const KernelCall&);

}  // namespace simrun::cpu
