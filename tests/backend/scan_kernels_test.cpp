#include <catch2/catch.hpp>
#include <string>

#include "tests/backend/kernel_bench.h"

// Mamba-2's scan: 2 groups of 2 heads with 3 channels each, states of 2, a convolution over 4 tokens.
namespace simrun {
namespace {

constexpr std::size_t groups = 2, heads = 2, head_dim = 3, states = 2, taps = 4;
constexpr std::size_t inner = heads * head_dim, convolved = inner + 2 * states,
                      packed = inner + convolved + heads;

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double silu_of(double x) { return x * sigmoid_of(x); }

struct Scan {
  KernelBench bench;
  std::size_t batch, length;
  Index in, weight, bias, step_bias, log_decay, skip, gated, scanned;

  Scan(std::size_t samples, std::size_t tokens) : batch(samples), length(tokens) {
    in = rows("packed:18");
    weight = bench.tensor("groups:2 convolved:10 taps:4");
    bias = bench.tensor("groups:2 convolved:10");
    for (Index* of : {&step_bias, &log_decay, &skip}) *of = bench.tensor("groups:2 heads:2");
    gated = rows("inner:6");
    scanned = rows("inner:6");
  }

  Index rows(const std::string& last) {
    return bench.tensor("batch:" + std::to_string(batch) + " sequence:" + std::to_string(length) +
                        " groups:2 " + last);
  }
  std::vector<Index> inputs() const { return {in, weight, bias, step_bias, log_decay, skip}; }
  void run() { bench.run(bench.instruction(Opcode::scan, Function::none, inputs(), {gated, scanned})); }

  // ---- the same by sums over all earlier tokens (Dao and Gu 2024, section 4: the quadratic form) ----

  double made(std::size_t b, std::size_t t, std::size_t g, std::size_t i) {
    return bench.values(in)[((b * length + t) * groups + g) * packed + i];
  }
  double behind_convolution(std::size_t b, std::size_t t, std::size_t g, std::size_t c) {
    double sum = bench.values(bias)[g * convolved + c];
    for (std::size_t back = 0; back < taps && back <= t; ++back)
      sum += bench.values(weight)[(g * convolved + c) * taps + taps - 1 - back] *
             made(b, t - back, g, inner + c);
    return silu_of(sum);
  }
  double step(std::size_t b, std::size_t t, std::size_t g, std::size_t h) {
    return std::log1p(
        std::exp(made(b, t, g, inner + convolved + h) + bench.values(step_bias)[g * heads + h]));
  }
  double channel(std::size_t b, std::size_t t, std::size_t g, std::size_t c) {
    const std::size_t h = c / head_dim, of_head = g * heads + h;
    const double rate = std::exp(bench.values(log_decay)[of_head]);
    double sum = bench.values(skip)[of_head] * behind_convolution(b, t, g, c), since = 0;
    for (std::size_t from = t + 1; from-- > 0;) {
      double score = 0;
      for (std::size_t n = 0; n < states; ++n)
        score += behind_convolution(b, t, g, inner + states + n) * behind_convolution(b, from, g, inner + n);
      sum += std::exp(-rate * since) * score * step(b, from, g, h) * behind_convolution(b, from, g, c);
      since += step(b, from, g, h);
    }
    return sum;
  }
};

}  // namespace

TEST_CASE("a scan's channels are sums over all earlier tokens, faded by the steps between") {
  Scan scan(2, 7);
  scan.run();
  for (std::size_t b = 0; b < scan.batch; ++b)
    for (std::size_t t = 0; t < scan.length; ++t)
      for (std::size_t g = 0; g < groups; ++g)
        for (std::size_t c = 0; c < inner; ++c) {
          const std::size_t at = ((b * scan.length + t) * groups + g) * inner + c;
          const double expected = scan.channel(b, t, g, c);
          CHECK(scan.bench.values(scan.scanned)[at] == Approx(expected).margin(1e-12));
          CHECK(scan.bench.values(scan.gated)[at] ==
                Approx(expected * silu_of(scan.made(b, t, g, c))).margin(1e-12));
        }
}

TEST_CASE("a scan's gradients of all its inputs are those of finite differences") {
  for (const std::size_t length : {1, 3, 18}) {  // 18: more than the backward pass keeps states of at a time
    CAPTURE(length);
    Scan scan(length > 3 ? 1 : 2, length);
    KernelBench& bench = scan.bench;
    const Index r = scan.rows("inner:6");
    std::vector<Index> reads{r},
        gradients{scan.rows("packed:18"), bench.tensor("groups:2 convolved:10 taps:4"),
                  bench.tensor("groups:2 convolved:10")};
    for (int i = 0; i < 3; ++i) gradients.push_back(bench.tensor("groups:2 heads:2"));
    const std::vector<Index> inputs = scan.inputs();
    reads.insert(reads.end(), inputs.begin(), inputs.end());
    reads.push_back(scan.scanned);
    const auto loss = [&] {
      scan.run();
      return bench.dot(scan.gated, r);
    };
    loss();
    bench.run(bench.instruction(Opcode::scan_backward, Function::none, reads, gradients));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      CAPTURE(i);
      CHECK(bench.error(inputs[i], gradients[i], loss) < gradient_tolerance);
    }
  }
}

TEST_CASE("of a scan whose parameters are frozen there is the gradient of its rows alone, and the reverse") {
  Scan scan(1, 5);
  KernelBench& bench = scan.bench;
  scan.run();
  const Index r = scan.rows("inner:6");
  std::vector<Index> reads{r}, all{scan.rows("packed:18"), bench.tensor("groups:2 convolved:10 taps:4"),
                                   bench.tensor("groups:2 convolved:10")};
  for (int i = 0; i < 3; ++i) all.push_back(bench.tensor("groups:2 heads:2"));
  for (const Index input : scan.inputs()) reads.push_back(input);
  reads.push_back(scan.scanned);
  const auto run = [&](const std::vector<Index>& gradients) {
    bench.run(bench.instruction(Opcode::scan_backward, Function::none, reads, gradients));
  };
  run(all);
  const Index rows = scan.rows("packed:18"), weight = bench.tensor("groups:2 convolved:10 taps:4");
  run({rows});
  CHECK(bench.values(rows) == bench.values(all[0]));
  run({weight, all[2], all[3], all[4], all[5]});
  CHECK(bench.values(weight) == bench.values(all[1]));
}

TEST_CASE("an RMS norm of rows by group has the weight of the row's group") {
  KernelBench bench;
  const char* rows = "batch:1 sequence:3 groups:2 inner:4";
  const Index x = bench.tensor(rows), w = bench.tensor("groups:2 inner:4"), y = bench.tensor(rows),
              statistics = bench.tensor("batch:1 sequence:3 groups:2 one:1");
  const Index r = bench.tensor(rows), dx = bench.tensor(rows), dw = bench.tensor("groups:2 inner:4");
  Instruction forward = bench.instruction(Opcode::norm, Function::rms_norm, {x, w}, {y, statistics});
  Instruction backward =
      bench.instruction(Opcode::norm_backward, Function::rms_norm, {r, x, w, statistics}, {dx, dw});
  forward.constants = backward.constants = {0.01};
  const auto loss = [&] {
    bench.run(forward);
    return bench.dot(y, r);
  };
  loss();
  const std::vector<double>& of = bench.values(x);
  const double squares = of[4] * of[4] + of[5] * of[5] + of[6] * of[6] + of[7] * of[7];
  CHECK(bench.values(y)[5] == Approx(of[5] / std::sqrt(squares / 4 + 0.01) * bench.values(w)[5]));
  bench.run(backward);
  CHECK(bench.error(x, dx, loss) < gradient_tolerance);
  CHECK(bench.error(w, dw, loss) < gradient_tolerance);
}

}  // namespace simrun
