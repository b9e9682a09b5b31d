#include <catch2/catch.hpp>

#include "tests/backend/kernel_bench.h"

namespace simrun {

TEST_CASE("the gradients of an LSTM are those of finite differences, read from the front and from the back") {
  for (const double direction : {1.0, -1.0}) {
    CAPTURE(direction);
    KernelBench bench;
    const char *gates = "batch:2 sequence:4 gates:4 cell:3", *states = "batch:2 sequence:4 hidden:3";
    const Index x = bench.tensor(gates), w = bench.tensor("gates:4 cell:3 hidden:3"),
                y = bench.tensor(states);
    const Index kept = bench.tensor(gates), cells = bench.tensor("batch:2 sequence:4 cell:3");
    const Index r = bench.tensor(states), dx = bench.tensor(gates),
                dw = bench.tensor("gates:4 cell:3 hidden:3");
    Instruction forward = bench.instruction(Opcode::lstm, Function::none, {x, w}, {y, kept, cells});
    Instruction backward =
        bench.instruction(Opcode::lstm_backward, Function::none, {r, w, kept, cells}, {dx});
    Instruction weight = bench.instruction(Opcode::gemm, Function::none, {dx, y}, {dw});
    forward.constants = backward.constants = weight.constants = {direction};
    const auto loss = [&] {
      bench.run(forward);
      return bench.dot(y, r);
    };
    loss();
    bench.run(backward);
    bench.run(weight);
    CHECK(bench.error(x, dx, loss) < gradient_tolerance);
    CHECK(bench.error(w, dw, loss) < gradient_tolerance);
  }
}

TEST_CASE("an LSTM's gates lie as input, forget, candidate, output, and its first position forgets nothing") {
  KernelBench bench;
  const char* gates = "batch:1 sequence:2 gates:4 cell:1";
  const Index x = bench.tensor(gates), w = bench.tensor("gates:4 cell:1 hidden:1"),
              y = bench.tensor("batch:1 sequence:2 hidden:1");
  const Index kept = bench.tensor(gates), cells = bench.tensor("batch:1 sequence:2 cell:1");
  bench.values(x) = {0.1, 0.2, 0.3, 0.4, -0.5, 0.6, 0.7, -0.8};
  bench.values(w) = {0.9, -1.0, 1.1, 1.2};
  Instruction what = bench.instruction(Opcode::lstm, Function::none, {x, w}, {y, kept, cells});
  what.constants = {1};
  bench.run(what);
  const auto sigmoid = [](double z) { return 1 / (1 + std::exp(-z)); };
  const double c0 = sigmoid(0.1) * std::tanh(0.3), h0 = sigmoid(0.4) * std::tanh(c0);
  const double c1 = sigmoid(0.6 - h0) * c0 + sigmoid(-0.5 + 0.9 * h0) * std::tanh(0.7 + 1.1 * h0);
  CHECK(bench.values(y)[0] == Approx(h0));
  CHECK(bench.values(y)[1] == Approx(sigmoid(-0.8 + 1.2 * h0) * std::tanh(c1)));
}

TEST_CASE("the gradients of attention over content are those of finite differences") {
  KernelBench bench;
  const char *queries = "batch:2 target:3 attention_head:1 group:1 head_dim:4",
             *keys = "batch:2 source:5 attention_head:1 head_dim:4", *content = "batch:2 source:5 hidden:3",
             *context = "batch:2 target:3 hidden:3";
  const Index q = bench.tensor(queries), k = bench.tensor(keys), v = bench.tensor(content),
              y = bench.tensor(context), r = bench.tensor(context);
  const Index p = bench.tensor("batch:2 attention_head:1 group:1 target:3 source:5");
  const Index dq = bench.tensor(queries), dk = bench.tensor(keys), dv = bench.tensor(content);
  Instruction forward = bench.instruction(Opcode::attention, Function::unfused, {q, k, v}, {y, p});
  Instruction backward =
      bench.instruction(Opcode::attention_backward, Function::unfused, {r, q, k, v, p}, {dq, dk, dv});
  forward.constants = backward.constants = {0.7, 0};
  const auto loss = [&] {
    bench.run(forward);
    return bench.dot(y, r);
  };
  loss();
  bench.run(backward);
  CHECK(bench.error(q, dq, loss) < gradient_tolerance);
  CHECK(bench.error(k, dk, loss) < gradient_tolerance);
  CHECK(bench.error(v, dv, loss) < gradient_tolerance);
}

}  // namespace simrun
