#pragma once

#include <Eigen/Core>

#include "backend/cpu/math.h"

// One variant of the loops of backend/cpu/math.h, in namespace SIMRUN_MATH. Included by one source file per
// variant and by nothing else.
namespace simrun::cpu::SIMRUN_MATH {
namespace {

template <class Real>
using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Real>
using View = Eigen::Map<const Matrix<Real>, 0, Eigen::OuterStride<>>;
template <class Real>
using Row = Eigen::Map<Eigen::Array<Real, Eigen::Dynamic, 1>>;
template <class Real>
using ConstRow = Eigen::Map<const Eigen::Array<Real, Eigen::Dynamic, 1>>;

template <class Real>
struct Loops {
  static View<Real> view(const ProductOperand<Real>& of, std::int64_t rows, std::int64_t columns) {
    return {of.data, rows, columns, Eigen::OuterStride<>(of.stride)};
  }

  // How a product is cut into blocks decides the order of its sums, and Eigen cuts by the caches that it
  // finds: these sizes (first, second and third level, per core) stand for all machines.
  static void fix_block_sizes() {
    static const bool fixed = (Eigen::setCpuCacheSizes(32 << 10, 1 << 20, 4 << 20), true);
    static_cast<void>(fixed);
  }

  static void multiply(const Product<Real>& p) {
    fix_block_sizes();
    Eigen::Map<Matrix<Real>, 0, Eigen::OuterStride<>> out(p.out, p.rows, p.columns,
                                                          Eigen::OuterStride<>(p.out_stride));
    if (!p.adds) out.setZero();
    const bool left = p.left.transposed, right = p.right.transposed;
    if (!left && !right)
      out.noalias() += p.factor * view(p.left, p.rows, p.depth) * view(p.right, p.depth, p.columns);
    else if (!right)
      out.noalias() +=
          p.factor * view(p.left, p.depth, p.rows).transpose() * view(p.right, p.depth, p.columns);
    else if (!left)
      out.noalias() +=
          p.factor * view(p.left, p.rows, p.depth) * view(p.right, p.columns, p.depth).transpose();
    else
      out.noalias() += p.factor * view(p.left, p.depth, p.rows).transpose() *
                       view(p.right, p.columns, p.depth).transpose();
  }

  static void add(Real* to, const Real* from, std::int64_t n) { Row<Real>(to, n) += ConstRow<Real>(from, n); }
  static Real maximum(const Real* x, std::int64_t n) { return ConstRow<Real>(x, n).maxCoeff(); }
  static Real sum(const Real* x, std::int64_t n) { return ConstRow<Real>(x, n).sum(); }
  static Real dot(const Real* a, const Real* b, std::int64_t n) {
    return (ConstRow<Real>(a, n) * ConstRow<Real>(b, n)).sum();
  }

  static double sum_squares(const Real* x, std::int64_t n) {
    return ConstRow<Real>(x, n).template cast<double>().square().sum();
  }

  static double sum_exponentials(const Real* x, Real shift, std::int64_t n) {
    constexpr std::int64_t block = 512;
    double sum = 0;
    for (std::int64_t i = 0; i < n; i += block) {
      const ConstRow<Real> row(x + i, n - i < block ? n - i : block);
      sum += static_cast<double>((row - shift).exp().sum());
    }
    return sum;
  }

  static void exponentials(const Real* x, Real shift, Real factor, Real* y, std::int64_t n) {
    Row<Real>(y, n) = factor * (ConstRow<Real>(x, n) - shift).exp();
  }

  static void softmax_gradient(const Real* p, const Real* dp, const SoftmaxGradient<Real>& of, Real* ds,
                               std::int64_t n) {
    Row<Real>(ds, n) = of.factor * ConstRow<Real>(p, n) * (ConstRow<Real>(dp, n) - of.sum);
  }

  // x/2 (1 + tanh u) = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3): Hendrycks and Gimpel 2016, arXiv
  // 1606.08415, section 2. Pieces stay in the first cache.
  static constexpr std::int64_t piece = 512;
  static constexpr double root = 0.79788456080286535588, cubic = 0.044715;
  using Piece = Eigen::Array<Real, Eigen::Dynamic, 1, 0, piece, 1>;

  static Piece biased(const Real* x, const Real* bias, std::int64_t begin, std::int64_t n) {
    Piece sum = ConstRow<Real>(x + begin, n);
    if (bias != nullptr) sum += ConstRow<Real>(bias + begin, n);
    return sum;
  }
  static Piece gelu_sigmoid(const Piece& x) {
    const Real scale = static_cast<Real>(-2 * root), third = static_cast<Real>(cubic);
    return Real{1} / (Real{1} + (scale * x * (Real{1} + third * x.square())).exp());
  }

  static void gelu(const Real* x, const Real* bias, Real* y, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += piece) {
      const Piece t = biased(x, bias, i, n - i < piece ? n - i : piece);
      Row<Real>(y + i, t.size()) = t * gelu_sigmoid(t);
    }
  }

  static void gelu_backward(const Real* g, const Real* x, const Real* bias, Real* dx, std::int64_t n) {
    const Real scale = static_cast<Real>(2 * root), third = static_cast<Real>(3 * cubic);
    for (std::int64_t i = 0; i < n; i += piece) {
      const Piece t = biased(x, bias, i, n - i < piece ? n - i : piece);
      const Piece s = gelu_sigmoid(t);
      Row<Real>(dx + i, t.size()) = ConstRow<Real>(g + i, t.size()) *
                                    (s + t * s * (Real{1} - s) * scale * (Real{1} + third * t.square()));
    }
  }

  static void swiglu(const Real* gate, const Real* value, Real* y, std::int64_t n) {
    const ConstRow<Real> a(gate, n);
    Row<Real>(y, n) = a / (Real{1} + (-a).exp()) * ConstRow<Real>(value, n);
  }

  static void swiglu_backward(const Real* g, const Real* x, Real* dx, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += piece) {
      const std::int64_t m = n - i < piece ? n - i : piece;
      const ConstRow<Real> a(x + i, m), b(x + n + i, m), back(g + i, m);
      const Piece s = Real{1} / (Real{1} + (-a).exp());
      Row<Real>(dx + i, m) = back * b * s * (Real{1} + a * (Real{1} - s));
      Row<Real>(dx + n + i, m) = back * a * s;
    }
  }

  using NormRow = typename Math<Real>::NormRow;
  using NormGradients = typename Math<Real>::NormGradients;

  static void norm(NormRow& row, const Real* bias, double epsilon, Real* y) {
    const ConstRow<Real> x(row.x, row.n), weight(row.weight, row.n);
    const auto n = static_cast<Real>(row.n);
    row.mean = row.centred ? x.sum() / n : Real{0};
    const Real variance = (x - row.mean).square().sum() / n;
    row.r = Real{1} / static_cast<Real>(__builtin_sqrt(static_cast<double>(variance) + epsilon));
    Row<Real> to(y, row.n);
    if (bias != nullptr)
      to = (x - row.mean) * row.r * weight + ConstRow<Real>(bias, row.n);
    else
      to = (x - row.mean) * row.r * weight;
  }

  // Of x, with xhat = (x - mean) r and g = dy weight: r (g - [mean of g] - xhat mean(g xhat)).
  static void norm_backward(const NormRow& row, const NormGradients& of) {
    const ConstRow<Real> x(row.x, row.n), weight(row.weight, row.n), dy(of.dy, row.n);
    const auto n = static_cast<Real>(row.n);
    const auto xhat = (x - row.mean) * row.r;
    const Real product = (dy * weight * xhat).sum() / n;
    const Real shift = row.centred ? (dy * weight).sum() / n : Real{0};
    Row<Real>(of.dweight, row.n) += dy * xhat;
    if (of.dbias != nullptr) Row<Real>(of.dbias, row.n) += dy;
    Row<Real>(of.dx, row.n) = row.r * (dy * weight - shift - xhat * product);
  }

  static void adam(const AdamUpdate<Real>& u) {
    for (std::int64_t i = 0; i < u.count; ++i) {
      const double g = static_cast<double>(u.gradient[i]) * u.clip;
      const double m = u.beta1 * static_cast<double>(u.first[i]) + (1 - u.beta1) * g;
      const double v = u.beta2 * static_cast<double>(u.second[i]) + (1 - u.beta2) * g * g;
      const auto w = static_cast<double>(u.weights[i]);
      const double root_v = __builtin_sqrt(v * u.second_correction);
      u.first[i] = static_cast<Real>(m);
      u.second[i] = static_cast<Real>(v);
      u.weights[i] =
          static_cast<Real>(w - u.rate * (m * u.first_correction / (root_v + u.epsilon) + u.decay * w));
    }
  }

  static constexpr Math<Real> table() {
    return {multiply,         add,  maximum,       sum_squares, sum_exponentials, exponentials,
            softmax_gradient, sum,  dot,           gelu,        gelu_backward,    swiglu,
            swiglu_backward,  norm, norm_backward, adam};
  }
};

}  // namespace

// NOLINTBEGIN(misc-definitions-in-headers): one namespace per source file that includes this
extern const Math<float> math_f32 = Loops<float>::table();
extern const Math<double> math_f64 = Loops<double>::table();
// NOLINTEND(misc-definitions-in-headers)

}  // namespace simrun::cpu::SIMRUN_MATH
