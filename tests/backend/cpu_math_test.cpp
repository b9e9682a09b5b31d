#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/math.h"
#include "models/philox.h"

// Both variants of the innermost loops against the plainest code there is.
namespace simrun::cpu {
namespace {

std::vector<const Math<double>*> variants() {
  std::vector<const Math<double>*> all{&baseline::math_f64};
  if (has_avx2()) all.push_back(&avx2::math_f64);
  return all;
}

std::vector<double> numbers(std::int64_t count, std::uint32_t seed) {
  const RandomStream random(1, "numbers", seed);
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(random.normal(i));
  return values;
}

}  // namespace

TEST_CASE("the processor's variant is the one that is used") {
  CHECK(&math<float>() == (has_avx2() ? &avx2::math_f32 : &baseline::math_f32));
  CHECK(&math<double>() == (has_avx2() ? &avx2::math_f64 : &baseline::math_f64));
}

TEST_CASE("products of any shape, stored either way, with strides, are sums of products") {
  const std::int64_t rows = GENERATE(1, 3, 17), columns = GENERATE(1, 5, 33), depth = GENERATE(1, 4, 40);
  const bool left_transposed = GENERATE(false, true), right_transposed = GENERATE(false, true);
  const bool adds = GENERATE(false, true);
  const std::int64_t gap = 3;  // elements between stored rows that are no part of the matrix
  const std::int64_t left_stride = (left_transposed ? rows : depth) + gap;
  const std::int64_t right_stride = (right_transposed ? depth : columns) + gap;
  const std::vector<double> a = numbers(left_stride * std::max(rows, depth), 1);
  const std::vector<double> b = numbers(right_stride * std::max(columns, depth), 2);
  const std::vector<double> before = numbers((columns + gap) * rows, 3);
  for (const Math<double>* math : variants()) {
    std::vector<double> out = before;
    math->multiply({.rows = rows,
                    .columns = columns,
                    .depth = depth,
                    .left = {a.data(), left_stride, left_transposed},
                    .right = {b.data(), right_stride, right_transposed},
                    .out = out.data(),
                    .out_stride = columns + gap,
                    .factor = 0.5,
                    .adds = adds});
    double worst = 0;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns + gap; ++j) {
        const auto at = static_cast<std::size_t>(i * (columns + gap) + j);
        double sum = adds || j >= columns ? before[at] : 0;
        for (std::int64_t k = 0; k < depth && j < columns; ++k)
          sum += 0.5 *
                 a[static_cast<std::size_t>(left_transposed ? k * left_stride + i : i * left_stride + k)] *
                 b[static_cast<std::size_t>(right_transposed ? j * right_stride + k : k * right_stride + j)];
        worst = std::max(worst, std::abs(out[at] - sum));
      }
    CHECK(worst < 1e-13);
  }
}

TEST_CASE("functions of rows of any length are those of the standard library") {
  const std::int64_t n = GENERATE(1, 2, 7, 64, 513, 1300);
  const auto count = static_cast<std::size_t>(n);
  const std::vector<double> x = numbers(n, 1), g = numbers(n, 2);
  for (const Math<double>* math : variants()) {
    std::vector<double> y(count);
    math->exponentials(x.data(), 0.25, 3, y.data(), n);
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < count; ++i) {
      CHECK(y[i] == Approx(3 * std::exp(x[i] - 0.25)).epsilon(1e-14));
      sum += y[i] / 3;
      squares += x[i] * x[i];
    }
    CHECK(math->sum_exponentials(x.data(), 0.25, n) == Approx(sum).epsilon(1e-13));
    CHECK(math->sum_squares(x.data(), n) == Approx(squares).epsilon(1e-13));
    CHECK(math->maximum(x.data(), n) == *std::max_element(x.begin(), x.end()));
    math->gelu(x.data(), g.data(), y.data(), n);
    const double root = std::sqrt(2 / std::acos(-1.0));
    for (std::size_t i = 0; i < count; ++i) {
      const double t = x[i] + g[i];
      const double expected = t / 2 * (1 + std::tanh(root * (t + 0.044715 * t * t * t)));
      CHECK(std::abs(y[i] - expected) < 1e-15 * (1 + std::abs(t)));
    }
  }
}

TEST_CASE("GELU goes to x and to 0 where its exponential has no room") {
  const std::vector<float> x{1e4F, 50, -50, -1e4F, 0};
  std::vector<const Math<float>*> all{&baseline::math_f32};
  if (has_avx2()) all.push_back(&avx2::math_f32);
  for (const Math<float>* math : all) {
    std::vector<float> y(5), dx(5);
    math->gelu(x.data(), nullptr, y.data(), 5);
    CHECK(y == std::vector<float>{1e4F, 50, 0, 0, 0});
    math->gelu_backward(std::vector<float>(5, 1).data(), x.data(), nullptr, dx.data(), 5);
    CHECK(dx == std::vector<float>{1, 1, 0, 0, 0.5F});
  }
}

}  // namespace simrun::cpu
