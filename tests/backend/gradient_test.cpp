#include <catch2/catch.hpp>

#include "tests/backend/kernel_bench.h"

// Every kernel's gradient against central finite differences in f64: for a random direction r over the
// outputs, d/dx of r . f(x) is what the backward kernel makes of r.
namespace simrun {

TEST_CASE("the gradients of a product are those of finite differences, in whatever order dimensions lie") {
  struct Case {
    const char *a, *b, *d;
  };
  for (const Case& c :
       {Case{"batch:2 sequence:3 hidden:4", "hidden:4 ffn:5", "batch:2 sequence:3 ffn:5"},
        Case{"batch:2 sequence:3 hidden:4", "vocab:6 hidden:4", "batch:2 sequence:3 vocab:6"},
        Case{"experts:2 rows:3 hidden:4", "experts:2 hidden:4 ffn:5", "experts:2 rows:3 ffn:5"},
        Case{"rows:3 experts:2 hidden:4", "hidden:4 experts:2 ffn:5", "ffn:5 rows:3 experts:2"},
        Case{"batch:2 sequence:3 kv_heads:2 head_dim:4", "kv_heads:2 head_dim:4 hidden:5",
             "batch:2 sequence:3 hidden:5"}}) {
    CAPTURE(c.a, c.b, c.d);
    KernelBench bench;
    const Index a = bench.tensor(c.a), b = bench.tensor(c.b), d = bench.tensor(c.d), r = bench.tensor(c.d);
    const Index da = bench.tensor(c.a), db = bench.tensor(c.b);
    bench.run(bench.instruction(Opcode::gemm, Function::none, {r, b}, {da}));
    bench.run(bench.instruction(Opcode::gemm, Function::none, {a, r}, {db}));
    const auto loss = [&] {
      bench.run(bench.instruction(Opcode::gemm, Function::none, {a, b}, {d}));
      return bench.dot(d, r);
    };
    CHECK(bench.error(a, da, loss) < gradient_tolerance);
    CHECK(bench.error(b, db, loss) < gradient_tolerance);
  }
}

TEST_CASE("the gradients of norms are those of finite differences") {
  for (const Function function : {Function::layer_norm, Function::rms_norm, Function::qk_norm}) {
    CAPTURE(to_string(function));
    KernelBench bench;
    const bool centred = function == Function::layer_norm, heads = function == Function::qk_norm;
    const char* rows =
        heads ? "batch:2 sequence:3 kv_heads:2 qkv:4 head_dim:4" : "batch:2 sequence:3 hidden:7";
    const char* weights = heads ? "qk:2 head_dim:4" : "hidden:7";
    const char* kept = heads     ? "batch:2 sequence:3 kv_heads:2 qkv:4 one:1"
                       : centred ? "batch:2 sequence:3 pair:2"
                                 : "batch:2 sequence:3 one:1";
    const Index x = bench.tensor(rows), w = bench.tensor(weights), y = bench.tensor(rows),
                s = bench.tensor(kept);
    const Index r = bench.tensor(rows), dx = bench.tensor(rows), dw = bench.tensor(weights);
    const Index bias = bench.tensor(weights), dbias = bench.tensor(weights);
    std::vector<Index> inputs{x, w}, gradients{dx, dw};
    if (centred) inputs.push_back(bias), gradients.push_back(dbias);
    Instruction forward = bench.instruction(Opcode::norm, function, inputs, {y, s});
    forward.constants = {1e-5};
    const auto loss = [&] {
      bench.run(forward);
      return bench.dot(y, r);
    };
    loss();
    bench.run(bench.instruction(Opcode::norm_backward, function, {r, x, w, s}, gradients));
    CHECK(bench.error(x, dx, loss) < gradient_tolerance);
    CHECK(bench.error(w, dw, loss) < gradient_tolerance);
    if (centred) CHECK(bench.error(bias, dbias, loss) < gradient_tolerance);
  }
}

TEST_CASE(
    "the gradients of norms of heads with their own weights, or none, are those of finite differences") {
  for (const bool weighted : {true, false}) {
    CAPTURE(weighted);
    KernelBench bench;
    const char* rows = "batch:2 sequence:3 kv_heads:2 qkv:4 head_dim:4";
    const char* weights = "kv_heads:2 qk_heads:3 head_dim:4";
    const char* kept = weighted ? "batch:2 sequence:3 kv_heads:2 qkv:4 statistics:2"
                                : "batch:2 sequence:3 kv_heads:2 qkv:4 one:1";
    const Index x = bench.tensor(rows), w = bench.tensor(weights), y = bench.tensor(rows),
                s = bench.tensor(kept), r = bench.tensor(rows), dx = bench.tensor(rows),
                dw = bench.tensor(weights);
    const Function function = weighted ? Function::qk_layer_norm : Function::qk_norm;
    const std::vector<Index> inputs = weighted ? std::vector{x, w} : std::vector{x};
    const std::vector<Index> reads = weighted ? std::vector{r, x, w, s} : std::vector{r, x, s};
    const std::vector<Index> gradients = weighted ? std::vector{dx, dw} : std::vector{dx};
    Instruction forward = bench.instruction(Opcode::norm, function, inputs, {y, s});
    forward.constants = {1e-5};
    const auto loss = [&] {
      bench.run(forward);
      return bench.dot(y, r);
    };
    loss();
    bench.run(bench.instruction(Opcode::norm_backward, function, reads, gradients));
    CHECK(bench.error(x, dx, loss) < gradient_tolerance);
    if (weighted) CHECK(bench.error(w, dw, loss) < gradient_tolerance);
  }
}

TEST_CASE("the gradients of clipped and scaled heads and of scaled rows are those of finite differences") {
  KernelBench bench;
  const char* rows = "batch:2 sequence:5 kv_heads:2 qkv:4 head_dim:3";
  const Index x = bench.tensor(rows), y = bench.tensor(rows), r = bench.tensor(rows), dx = bench.tensor(rows);
  struct Case {
    Function forward, backward;
    std::vector<double> constants;
  };
  for (const Case& c : {Case{Function::clip, Function::clip_backward, {0.4}},
                        Case{Function::scale_queries, Function::scale_queries, {0.5, 2}}}) {
    CAPTURE(to_string(c.forward));
    Instruction forward = bench.instruction(Opcode::map, c.forward, {x}, {y});
    Instruction backward = bench.instruction(
        Opcode::map, c.backward, c.forward == Function::clip ? std::vector{r, x} : std::vector{r}, {dx});
    forward.constants = backward.constants = c.constants;
    const auto loss = [&] {
      bench.run(forward);
      return bench.dot(y, r);
    };
    loss();
    bench.run(backward);
    CHECK(bench.error(x, dx, loss) < gradient_tolerance);
  }
  // Position 3 is behind two steps of 2: 1 + 0.5 log(1 + 2). The last slots are key and value.
  const auto at = [](int sequence, int slot) { return (sequence * 2 * 4 + slot) * 3; };
  CHECK(bench.values(y)[at(3, 0)] == Approx(bench.values(x)[at(3, 0)] * (1 + 0.5 * std::log(3))));
  CHECK(bench.values(y)[at(3, 2)] == bench.values(x)[at(3, 2)]);
  CHECK(bench.values(y)[at(0, 0)] == bench.values(x)[at(0, 0)]);

  const Index w = bench.tensor("batch:2 sequence:5 kv_heads:2 qkv:4 one:1"),
              dw = bench.tensor("batch:2 sequence:5 kv_heads:2 qkv:4 one:1");
  const auto loss = [&] {
    bench.run(bench.instruction(Opcode::map, Function::scale_rows, {x, w}, {y}));
    return bench.dot(y, r);
  };
  loss();
  bench.run(bench.instruction(Opcode::map, Function::scale_rows_backward, {r, x, w}, {dx, dw}));
  CHECK(bench.error(x, dx, loss) < gradient_tolerance);
  CHECK(bench.error(w, dw, loss) < gradient_tolerance);
}

TEST_CASE("the gradients of activations are those of finite differences") {
  struct Case {
    Function forward, backward;
    bool gated, from_output;
  };
  for (const Case& c : {Case{Function::gelu, Function::gelu_backward, false, false},
                        Case{Function::squared_relu, Function::squared_relu_backward, false, false},
                        Case{Function::swiglu, Function::swiglu_backward, true, false},
                        Case{Function::geglu, Function::geglu_backward, true, false},
                        Case{Function::soft_cap, Function::soft_cap_backward, false, true}}) {
    CAPTURE(to_string(c.forward));
    KernelBench bench;
    const char* in = c.gated ? "batch:2 sequence:3 gate:2 ffn:4" : "batch:2 sequence:3 ffn:4";
    const Index x = bench.tensor(in), y = bench.tensor("batch:2 sequence:3 ffn:4");
    const Index bias = bench.tensor(c.gated ? "gate:2 ffn:4" : "ffn:4");
    const Index r = bench.tensor("batch:2 sequence:3 ffn:4"), dx = bench.tensor(in);
    std::vector<Index> inputs{x, bias}, read{r, x, bias};
    if (c.from_output) inputs = {x}, read = {r, y};
    Instruction forward = bench.instruction(Opcode::map, c.forward, inputs, {y});
    Instruction backward = bench.instruction(Opcode::map, c.backward, read, {dx});
    forward.constants = backward.constants = {2.5};
    const auto loss = [&] {
      bench.run(forward);
      return bench.dot(y, r);
    };
    loss();
    bench.run(backward);
    CHECK(bench.error(x, dx, loss) < gradient_tolerance);
  }
}

TEST_CASE("rope turns back in its gradient and leaves values alone") {
  KernelBench bench;
  const char* dims = "batch:2 sequence:5 kv_heads:2 qkv:4 head_dim:6";
  const Index x = bench.tensor(dims), y = bench.tensor(dims), r = bench.tensor(dims), dx = bench.tensor(dims);
  Instruction forward = bench.instruction(Opcode::map, Function::rope, {x}, {y});
  Instruction backward = bench.instruction(Opcode::map, Function::rope_backward, {r}, {dx});
  forward.constants = backward.constants = {10000, 0.67};
  const auto loss = [&] {
    bench.run(forward);
    return bench.dot(y, r);
  };
  loss();
  bench.run(backward);
  CHECK(bench.error(x, dx, loss) < gradient_tolerance);
  // Position 1, first pair of the first query: turned by one radian.
  const auto at = [](int sequence, int slot, int i) { return ((sequence * 2) * 4 + slot) * 6 + i; };
  const std::vector<double>&in = bench.values(x), &out = bench.values(y);
  CHECK(out[at(1, 0, 0)] == Approx(in[at(1, 0, 0)] * std::cos(1) - in[at(1, 0, 2)] * std::sin(1)));
  CHECK(out[at(3, 3, 0)] == in[at(3, 3, 0)]);
  CHECK(out[at(3, 0, 5)] == in[at(3, 0, 5)]);  // beyond the turned share: 2 x floor(0.67 x 6 / 2) = 4
}

TEST_CASE("the gradients of attention are those of finite differences, with masks, caps and dropout") {
  struct Case {
    Function function;
    CausalMask causal;
    bool capped;
    float dropout;
  };
  for (const Case& c :
       {Case{Function::flash, {true, 0}, false, 0}, Case{Function::flash, {false, 0}, false, 0},
        Case{Function::flash, {true, 2}, true, 0}, Case{Function::flash, {true, 2, true}, false, 0},
        Case{Function::flash, {true, 0}, false, 0.3f}, Case{Function::unfused, {true, 0}, false, 0.3f}}) {
    CAPTURE(to_string(c.function), c.causal.on, c.causal.window, c.capped, c.dropout);
    KernelBench bench;
    const char* packed = "batch:2 sequence:5 kv_heads:2 qkv:4 head_dim:3";
    const char* context = "batch:2 sequence:5 kv_heads:2 group:2 head_dim:3";
    const char* square = "batch:2 kv_heads:2 group:2 sequence:5 key_sequence:5";
    const Index x = bench.tensor(packed), y = bench.tensor(context), r = bench.tensor(context);
    const Index dx = bench.tensor(packed);
    std::vector<Index> outputs{y};
    if (c.function == Function::flash)
      outputs.push_back(bench.tensor("batch:2 kv_heads:2 group:2 sequence:5"));
    else
      outputs = {y, bench.tensor(square), bench.tensor(square, Dtype::uint8), bench.tensor(square)};
    Instruction forward = bench.instruction(Opcode::attention, c.function, {x}, outputs);
    Instruction backward = bench.instruction(Opcode::attention_backward, c.function, {r, x, y}, {dx});
    forward.causal = backward.causal = c.causal;
    forward.soft_cap = backward.soft_cap = c.capped;
    forward.dropout = backward.dropout = c.dropout;
    forward.constants = backward.constants = {0.6, 1.5};
    const auto loss = [&] {
      bench.run(forward);
      return bench.dot(y, r);
    };
    loss();
    bench.run(backward);
    CHECK(bench.error(x, dx, loss) < gradient_tolerance);
  }
}

TEST_CASE("the gradient of the cross entropy is that of finite differences; padding takes no part") {
  KernelBench bench;
  const char* rows = "batch:2 sequence:3";
  const char* logits_of = "batch:2 sequence:3 vocab:6";
  const Index x = bench.tensor(logits_of), dx = bench.tensor(logits_of),
              labels = bench.tensor(rows, Dtype::int64);
  const Index maximum = bench.tensor(rows), sums = bench.tensor("batch:2 sequence:3 sums:2");
  const Index losses = bench.tensor(rows);
  const auto loss = [&] {
    bench.run(bench.instruction(Opcode::reduce, Function::max, {x}, {maximum}));
    bench.run(bench.instruction(Opcode::cross_entropy, Function::none, {x, maximum, labels}, {sums}));
    bench.run(bench.instruction(Opcode::map, Function::log_loss, {sums, maximum}, {losses}));
    double sum = 0;
    for (const double row : bench.values(losses)) sum += row;
    return sum / 6;  // tokens of the step
  };
  loss();
  bench.run(
      bench.instruction(Opcode::cross_entropy_backward, Function::none, {sums, maximum, x, labels}, {dx}));
  CHECK(bench.error(x, dx, loss) < gradient_tolerance);
  for (std::size_t row = 0; row < 6; ++row) CHECK(bench.values(dx)[6 * row + 5] == 0);
}

TEST_CASE("the gradients of look-ups and sums are those of finite differences") {
  KernelBench bench;
  const Index table = bench.tensor("vocab:6 hidden:4"),
              tokens = bench.tensor("batch:2 sequence:3", Dtype::int64);
  const Index positions = bench.tensor("positions:5 hidden:4");
  const char* rows = "batch:2 sequence:3 hidden:4";
  const Index x = bench.tensor(rows), z = bench.tensor(rows), r = bench.tensor(rows);
  const Index dtable = bench.tensor("vocab:6 hidden:4"), dpositions = bench.tensor("positions:5 hidden:4");
  const Index bias = bench.tensor("hidden:4"), dbias = bench.tensor("hidden:4"), y = bench.tensor(rows);
  Instruction by_position = bench.instruction(Opcode::gather, Function::none, {positions, x}, {z});
  Instruction back = bench.instruction(Opcode::scatter, Function::none, {r}, {dpositions});
  by_position.constants = back.constants = {2};
  const auto loss = [&] {
    bench.run(bench.instruction(Opcode::gather, Function::none, {table, tokens}, {x}));
    bench.run(by_position);
    bench.run(bench.instruction(Opcode::map, Function::add, {z, bias}, {y}));
    return bench.dot(y, r);
  };
  loss();
  bench.run(bench.instruction(Opcode::scatter, Function::none, {r, tokens}, {dtable}));
  bench.run(back);
  bench.run(bench.instruction(Opcode::reduce, Function::sum, {r}, {dbias}));
  CHECK(bench.error(table, dtable, loss) < gradient_tolerance);
  CHECK(bench.error(positions, dpositions, loss) < gradient_tolerance);
  CHECK(bench.error(bias, dbias, loss) < gradient_tolerance);
}

TEST_CASE("dropout keeps what its mask says, scaled, and its gradient goes the same way") {
  KernelBench bench;
  const char* rows = "batch:2 sequence:30 hidden:40";
  const Index x = bench.tensor(rows), y = bench.tensor(rows), residual = bench.tensor(rows);
  const Index mask = bench.tensor(rows, Dtype::uint8), r = bench.tensor(rows), dx = bench.tensor(rows);
  Instruction forward = bench.instruction(Opcode::map, Function::add, {x, residual}, {y, mask});
  Instruction backward = bench.instruction(Opcode::map, Function::add_backward, {r, mask}, {dx});
  forward.dropout = backward.dropout = 0.25f;
  bench.run(forward);
  bench.run(backward);
  int kept = 0;
  for (std::size_t i = 0; i < bench.values(x).size(); ++i) {
    const bool keeps = bench.values(dx)[i] != 0;
    REQUIRE(bench.values(y)[i] ==
            Approx(bench.values(residual)[i] + (keeps ? bench.values(x)[i] / 0.75 : 0)));
    kept += keeps ? 1 : 0;
  }
  CHECK(kept / 2400.0 == Approx(0.75).margin(0.04));  // 4.5 standard deviations
}

}  // namespace simrun
