#pragma once

#include <cmath>

#include "backend/cpu/eigen_products.h"

// The gated delta rule of one value head over a chunk of n tokens (Yang et al. 2024, arXiv 2412.06464,
// section 3.3). With the state S [key, value] in front of it, G_i the sum of the logarithms of the decay up
// to token i, D_ij = exp(G_i - G_j) for j <= i, b the betas:
//   L = b_i (k_i k_j) D_ij for j < i,  A = (I + L)^-1
//   U = A b (V - exp(G) K S)                what is written, [n, value]
//   O = scale (exp(G) Q S + (Q K^T o D) U)  what is read
//   S' = exp(G_n) S + (exp(G_n - G) K)^T U
// which is the recurrence S_t = exp(g_t) S_t-1 + k_t u_t^T, u_t = b_t (v_t - k_t^T exp(g_t) S_t-1), o_t =
// scale q_t S_t, without its n steps.
namespace simrun::cpu {

template <class Real>
struct DeltaChunk {
  using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Column = Eigen::Matrix<Real, Eigen::Dynamic, 1>;

  Matrix q, k, v, inverse;  // [n, key], [n, key], [n, value], [n, n]
  Column beta, decay;       // b and G

  Eigen::Index size() const { return k.rows(); }
  Real scale() const { return 1 / std::sqrt(static_cast<Real>(k.cols())); }
  Column fade() const { return decay.array().exp(); }                        // of the state in front
  Column left() const { return (decay(size() - 1) - decay.array()).exp(); }  // of a token behind the last

  // m o D.
  Matrix faded(Matrix m) const {
    for (Eigen::Index i = 0; i < size(); ++i)
      for (Eigen::Index j = 0; j < size(); ++j) m(i, j) *= j > i ? Real{0} : std::exp(decay(i) - decay(j));
    return m;
  }
  // L.
  Matrix interactions() const {
    Matrix m = beta.asDiagonal() * faded(multiplied(as_stored(k), transposed(k)));
    m.diagonal().setZero();
    return m;
  }

  void invert() {
    const Matrix of = interactions();
    inverse = Matrix::Identity(size(), size());
    for (Eigen::Index i = 0; i < size(); ++i)
      for (Eigen::Index j = 0; j < i; ++j) inverse.row(i) -= of(i, j) * inverse.row(j);
  }

  Matrix read_keys(const Matrix& state) const { return multiplied(as_stored(k), as_stored(state)); }
  Matrix updates(const Matrix& state) const {
    const Matrix wanted = beta.asDiagonal() * (v - fade().asDiagonal() * read_keys(state));
    return multiplied(as_stored(inverse), as_stored(wanted));
  }
  Matrix scores() const { return faded(multiplied(as_stored(q), transposed(k))); }

  Matrix outputs(const Matrix& state, const Matrix& updates) const {
    const Matrix within = scores();
    Matrix out = fade().asDiagonal() * multiplied(as_stored(q), as_stored(state));
    multiply_add(as_stored(within), as_stored(updates), out);
    return scale() * out;
  }

  // From the state in front to that behind.
  void advance(const Matrix& updates, Matrix& state) const {
    const Matrix written = left().asDiagonal() * updates;
    state *= std::exp(decay(size() - 1));
    multiply_add(transposed(k), as_stored(written), state);
  }
};

// Gradients of a chunk's q, k, v, betas and G.
template <class Real>
struct DeltaChunkGradients {
  using Matrix = typename DeltaChunk<Real>::Matrix;
  using Column = typename DeltaChunk<Real>::Column;

  Matrix q, k, v;
  Column beta, decay;

  // `state` in front of the chunk, `of_state` the gradient of the one behind it, which becomes that of the
  // one in front.
  DeltaChunkGradients(const DeltaChunk<Real>& of, const Matrix& state, const Matrix& of_out, Matrix& of_state)
      : of_(of), state_(state), dout_(of.scale() * of_out), updates_(of.updates(state)), fade_(of.fade()) {
    decay = Column::Zero(of.size());
    const Matrix within = of.scores();
    Matrix of_updates = multiplied(transposed(within), as_stored(dout_));
    through_state(of_state, of_updates);
    through_outputs(within);
    through_updates(multiplied(transposed(of.inverse), as_stored(of_updates)), of_state);
  }

 private:
  static Column products(const Matrix& a, const Matrix& b) { return (a.array() * b.array()).rowwise().sum(); }

  // Of S' by S, U, K and G.
  void through_state(Matrix& of_state, Matrix& of_updates) {
    const Column left = of_.left();
    const Eigen::Index last = of_.size() - 1;
    const Real kept = std::exp(of_.decay(last));
    const Matrix read = left.asDiagonal() * multiplied(as_stored(of_.k), as_stored(of_state));
    of_updates += read;
    k = left.asDiagonal() * multiplied(as_stored(updates_), transposed(of_state));
    const Column share = products(read, updates_);
    decay -= share;
    decay(last) += share.sum() + kept * (of_state.array() * state_.array()).sum();
    of_state *= kept;
  }

  // Of O by Q, K and G, but for U.
  void through_outputs(const Matrix& within) {
    const Matrix of_within = of_.faded(multiplied(as_stored(dout_), transposed(updates_)));
    q = fade_.asDiagonal() * multiplied(as_stored(dout_), transposed(state_));
    decay += products(q, of_.q);
    multiply_add(as_stored(of_within), as_stored(of_.k), q);
    multiply_add(transposed(of_within), as_stored(of_.q), k);
    const Matrix shares = multiplied(as_stored(dout_), transposed(updates_)).array() * within.array();
    add_differences(shares);
  }

  // Of U by V, K, S, the betas and G. `of_wanted`: of A's right-hand side, b (V - exp(G) K S).
  void through_updates(const Matrix& of_wanted, Matrix& of_state) {
    const Matrix read = fade_.asDiagonal() * of_.read_keys(state_);
    v = of_.beta.asDiagonal() * of_wanted;
    beta = products(of_wanted, of_.v - read);
    decay -= products(v, read);
    const Matrix of_read = fade_.asDiagonal() * v;
    const Matrix from_state = fade_.asDiagonal() * dout_;
    multiply_add(transposed(of_.q), as_stored(from_state), of_state);
    of_state -= multiplied(transposed(of_.k), as_stored(of_read));
    k -= multiplied(as_stored(of_read), transposed(state_));
    // U = (I + L)^-1 ..: L's gradient is -of_wanted U^T below the diagonal.
    Matrix of_lower = -multiplied(as_stored(of_wanted), transposed(updates_));
    of_lower.diagonal().setZero();
    const Matrix faded = of_.faded(of_lower);
    beta += products(faded, multiplied(as_stored(of_.k), transposed(of_.k)));
    const Matrix weighted = of_.beta.asDiagonal() * faded;
    multiply_add(as_stored(weighted), as_stored(of_.k), k);
    multiply_add(transposed(weighted), as_stored(of_.k), k);
    add_differences(of_lower.array() * of_.interactions().array());
  }

  // Of G by exp(G_i - G_j), `shares` being gradient x value.
  void add_differences(const Matrix& shares) {
    decay += shares.rowwise().sum();
    decay -= shares.colwise().sum().transpose();
  }

  const DeltaChunk<Real>& of_;
  const Matrix& state_;
  const Matrix dout_, updates_;
  const Column fade_;
};

}  // namespace simrun::cpu
