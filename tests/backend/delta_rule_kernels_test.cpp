#include <catch2/catch.hpp>
#include <string>

#include "tests/backend/kernel_bench.h"

// The gated delta rule: 2 key heads of 3 channels, each with 2 value heads of 2; a convolution over 4 tokens.
namespace simrun {
namespace {

constexpr std::size_t delta_heads = 2, delta_group = 2, key_dim = 3, value_dim = 2, delta_taps = 4;
constexpr std::size_t delta_convolved = 2 * key_dim + delta_group * value_dim,
                      delta_packed = delta_convolved + 2 * delta_group;

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

struct DeltaRule {
  KernelBench bench;
  std::size_t batch, length;
  Index in, weight, step_bias, log_decay, values, qkv, inverse, statistics;

  DeltaRule(std::size_t samples, std::size_t tokens) : batch(samples), length(tokens) {
    in = rows("packed:14");
    weight = bench.tensor("heads:2 convolved:10 taps:4");
    step_bias = bench.tensor("heads:2 group:2");
    log_decay = bench.tensor("heads:2 group:2");
    values = rows("group:2 value:2");
    qkv = rows("group:2 qkv:8");
    inverse = rows("group:2 chunk:64");
    statistics = rows("group:2 statistics:3");
  }

  Index rows(const std::string& last) {
    return bench.tensor("batch:" + std::to_string(batch) + " sequence:" + std::to_string(length) +
                        " heads:2 " + last);
  }
  std::vector<Index> inputs() const { return {in, weight, step_bias, log_decay}; }
  void run() {
    bench.run(bench.instruction(Opcode::scan, Function::gated_delta_rule, inputs(),
                                {values, qkv, inverse, statistics}));
  }
  void run_backward(Index gradient, const std::vector<Index>& gradients) {
    bench.run(bench.instruction(Opcode::scan_backward, Function::gated_delta_rule,
                                {gradient, in, weight, step_bias, log_decay, qkv, inverse, statistics},
                                gradients));
  }
  std::vector<Index> gradients() {
    return {rows("packed:14"), bench.tensor("heads:2 convolved:10 taps:4"), bench.tensor("heads:2 group:2"),
            bench.tensor("heads:2 group:2")};
  }

  // ---- the same token by token (Yang et al. 2024, arXiv 2412.06464, equation 10) ----

  double made(std::size_t b, std::size_t t, std::size_t h, std::size_t i) {
    return bench.values(in)[((b * length + t) * delta_heads + h) * delta_packed + i];
  }
  double behind_convolution(std::size_t b, std::size_t t, std::size_t h, std::size_t c) {
    double sum = 0;
    for (std::size_t back = 0; back < delta_taps && back <= t; ++back)
      sum += bench.values(weight)[(h * delta_convolved + c) * delta_taps + delta_taps - 1 - back] *
             made(b, t - back, h, c);
    return sum * logistic(sum);
  }
  // q or k: `first` is its first channel.
  std::vector<double> normed(std::size_t b, std::size_t t, std::size_t h, std::size_t first) {
    std::vector<double> x(key_dim);
    double squares = 1e-6;
    for (std::size_t i = 0; i < key_dim; ++i) {
      x[i] = behind_convolution(b, t, h, first + i);
      squares += x[i] * x[i];
    }
    for (double& element : x) element /= std::sqrt(squares);
    return x;
  }
  // Of one value head: a row of values for every token.
  std::vector<std::vector<double>> of_head(std::size_t b, std::size_t h, std::size_t r) {
    std::vector<std::vector<double>> out;
    double state[key_dim][value_dim] = {};
    for (std::size_t t = 0; t < length; ++t) {
      const std::vector<double> q = normed(b, t, h, 0), k = normed(b, t, h, key_dim);
      const double raw =
          made(b, t, h, delta_convolved + delta_group + r) + bench.values(step_bias)[h * delta_group + r];
      const double rate = std::exp(bench.values(log_decay)[h * delta_group + r]);
      const double decay = std::exp(-rate * std::log1p(std::exp(raw))),
                   beta = logistic(made(b, t, h, delta_convolved + r));
      out.emplace_back(value_dim);
      for (std::size_t j = 0; j < value_dim; ++j) {
        double held = 0, read = 0;
        for (std::size_t i = 0; i < key_dim; ++i) held += k[i] * (state[i][j] *= decay);
        const double v = behind_convolution(b, t, h, 2 * key_dim + r * value_dim + j);
        for (std::size_t i = 0; i < key_dim; ++i) {
          state[i][j] += k[i] * beta * (v - held);
          read += q[i] * state[i][j];
        }
        out.back()[j] = read / std::sqrt(static_cast<double>(key_dim));
      }
    }
    return out;
  }
};

}  // namespace

TEST_CASE("the gated delta rule by chunks is the recurrence token by token") {
  for (const std::size_t length : {1u, 5u, 64u, 150u}) {  // 150: two whole chunks of 64, and one begun
    CAPTURE(length);
    DeltaRule rule(2, length);
    rule.run();
    for (std::size_t b = 0; b < rule.batch; ++b)
      for (std::size_t h = 0; h < delta_heads; ++h)
        for (std::size_t r = 0; r < delta_group; ++r) {
          const auto expected = rule.of_head(b, h, r);
          double largest = 0;
          for (std::size_t t = 0; t < length; ++t)
            for (std::size_t j = 0; j < value_dim; ++j) {
              const std::size_t at = (((b * length + t) * delta_heads + h) * delta_group + r) * value_dim + j;
              largest = std::max(largest, std::abs(rule.bench.values(rule.values)[at] - expected[t][j]));
            }
          CHECK(largest < 1e-12);
        }
  }
}

TEST_CASE("the gated delta rule's gradients of all its inputs are those of finite differences", "[long]") {
  for (const std::size_t length : {1u, 3u, 70u}) {
    CAPTURE(length);
    DeltaRule rule(length > 3 ? 1 : 2, length);
    KernelBench& bench = rule.bench;
    const Index r = rule.rows("group:2 value:2");
    const std::vector<Index> inputs = rule.inputs(), gradients = rule.gradients();
    const auto loss = [&] {
      rule.run();
      return bench.dot(rule.values, r);
    };
    loss();
    rule.run_backward(r, gradients);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      CAPTURE(i);
      CHECK(bench.error(inputs[i], gradients[i], loss) < gradient_tolerance);
    }
  }
}

TEST_CASE(
    "of a gated delta rule with frozen parameters there is the gradient of its rows alone, and the reverse") {
  DeltaRule rule(1, 5);
  KernelBench& bench = rule.bench;
  rule.run();
  const Index r = rule.rows("group:2 value:2");
  const std::vector<Index> all = rule.gradients();
  rule.run_backward(r, all);
  const Index rows = rule.rows("packed:14"), weight = bench.tensor("heads:2 convolved:10 taps:4");
  rule.run_backward(r, {rows});
  CHECK(bench.values(rows) == bench.values(all[0]));
  rule.run_backward(r, {weight, all[2], all[3]});
  CHECK(bench.values(weight) == bench.values(all[1]));
}

}  // namespace simrun
