#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <memory>

#include "backend/cpu_device.h"
#include "backend/philox.h"

// Every kernel's gradient against central finite differences in f64: for a random direction r over the
// outputs, d/dx of r . f(x) is what the backward kernel makes of r.
namespace simrun {
namespace {

// Tensors by name with values, over a small plan of their own.
class Bench {
 public:
  struct Tensor {
    Index buffer = 0;
    std::vector<double> values;
    std::vector<std::int64_t> indices;
    std::vector<std::uint8_t> mask;
  };

  Bench() { plan_.job.tokens_per_step = 6; }

  Index tensor(const std::string& dims, Dtype dtype = Dtype::fp64) {
    Buffer buffer;
    buffer.dtype = dtype;
    for (std::size_t begin = 0; begin < dims.size();) {
      const std::size_t end = std::min(dims.find(' ', begin), dims.size());
      buffer.dims.push_back(dim(dims.substr(begin, end - begin)));
      begin = end + 1;
    }
    plan_.buffers.push_back(buffer);
    Tensor tensor;
    tensor.buffer = static_cast<Index>(plan_.buffers.size() - 1);
    const auto count = static_cast<std::size_t>(plan_.buffers.back().elements());
    const RandomStream random(1, "bench", tensor.buffer);
    for (std::size_t i = 0; i < count; ++i) {
      tensor.values.push_back(random.normal(static_cast<std::int64_t>(i)));
      tensor.indices.push_back(random.word(static_cast<std::int64_t>(i)) % 5);
      tensor.mask.push_back(1);
    }
    tensors_.push_back(tensor);
    return tensor.buffer;
  }
  std::vector<double>& values(Index tensor) { return tensors_[tensor].values; }

  Instruction instruction(Opcode opcode, Function function, std::vector<Index> inputs,
                          std::vector<Index> outputs) const {
    Instruction what;
    what.opcode = opcode;
    what.function = function;
    what.inputs = std::move(inputs);
    what.outputs = std::move(outputs);
    what.label = "bench";
    return what;
  }

  void run(const Instruction& what) {
    KernelCall call{plan_, what, {}, {}, 0, 0, training_};
    for (const Index input : what.inputs) call.inputs.push_back(argument(input));
    for (const Index output : what.outputs) call.outputs.push_back(argument(output));
    device_->run(call);
  }

  // Largest difference between the gradient that is there and finite differences, by the largest element:
  // `loss` runs the forward kernel and returns r . outputs.
  double error(Index input, Index gradient, const std::function<double()>& loss) {
    constexpr double step = 1e-4;
    double worst = 0, largest = 1e-3;
    for (std::size_t i = 0; i < values(input).size(); ++i) {
      const double x = values(input)[i];
      const auto at = [&](double shift) {
        values(input)[i] = x + shift;
        return loss();
      };
      // Fourth order: the error of the difference is below 1e-12.
      const double slope = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
      values(input)[i] = x;
      worst = std::max(worst, std::abs(slope - values(gradient)[i]));
      largest = std::max(largest, std::abs(slope));
    }
    return worst / largest;
  }

  double dot(Index a, Index b) {
    double sum = 0;
    for (std::size_t i = 0; i < values(a).size(); ++i) sum += values(a)[i] * values(b)[i];
    return sum;
  }

 private:
  // "hidden:4"
  BufferDim dim(const std::string& text) {
    const std::size_t colon = text.find(':');
    const std::string name = text.substr(0, colon);
    const std::int64_t extent = std::stoll(text.substr(colon + 1));
    auto& names = plan_.dimension_names;
    const auto at = std::find(names.begin(), names.end(), name);
    const auto index = static_cast<std::uint16_t>(at - names.begin());
    if (at == names.end()) {
      names.push_back(name);
      plan_.dimension_sizes.push_back(name == "vocab" ? extent - 1 : extent);  // one column is padding
    }
    return {index, -1, extent};
  }
  Argument argument(Index tensor) {
    const Buffer& buffer = plan_.buffers[tensor];
    Argument argument{&buffer, {}, tensors_[tensor].values.data()};
    if (buffer.dtype == Dtype::int64) argument.data = tensors_[tensor].indices.data();
    if (buffer.dtype == Dtype::uint8) argument.data = tensors_[tensor].mask.data();
    for (const BufferDim& of : buffer.dims) argument.part.push_back({0, of.extent, of.extent});
    return argument;
  }

  Plan plan_;
  std::vector<Tensor> tensors_;
  Hyperparameters training_;
  std::unique_ptr<Device> device_ = make_cpu_device_f64();
};

constexpr double tolerance = 1e-7;

}  // namespace

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
    Bench bench;
    const Index a = bench.tensor(c.a), b = bench.tensor(c.b), d = bench.tensor(c.d), r = bench.tensor(c.d);
    const Index da = bench.tensor(c.a), db = bench.tensor(c.b);
    bench.run(bench.instruction(Opcode::gemm, Function::none, {r, b}, {da}));
    bench.run(bench.instruction(Opcode::gemm, Function::none, {a, r}, {db}));
    const auto loss = [&] {
      bench.run(bench.instruction(Opcode::gemm, Function::none, {a, b}, {d}));
      return bench.dot(d, r);
    };
    CHECK(bench.error(a, da, loss) < tolerance);
    CHECK(bench.error(b, db, loss) < tolerance);
  }
}

TEST_CASE("the gradients of norms are those of finite differences") {
  for (const Function function : {Function::layer_norm, Function::rms_norm, Function::qk_norm}) {
    CAPTURE(to_string(function));
    Bench bench;
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
    CHECK(bench.error(x, dx, loss) < tolerance);
    CHECK(bench.error(w, dw, loss) < tolerance);
    if (centred) CHECK(bench.error(bias, dbias, loss) < tolerance);
  }
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
    Bench bench;
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
    CHECK(bench.error(x, dx, loss) < tolerance);
  }
}

TEST_CASE("rope turns back in its gradient and leaves values alone") {
  Bench bench;
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
  CHECK(bench.error(x, dx, loss) < tolerance);
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
        Case{Function::flash, {true, 2}, true, 0}, Case{Function::flash, {true, 0}, false, 0.3f},
        Case{Function::unfused, {true, 0}, false, 0.3f}}) {
    CAPTURE(to_string(c.function), c.causal.on, c.causal.window, c.capped, c.dropout);
    Bench bench;
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
    CHECK(bench.error(x, dx, loss) < tolerance);
  }
}

TEST_CASE("the gradient of the cross entropy is that of finite differences; padding takes no part") {
  Bench bench;
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
  CHECK(bench.error(x, dx, loss) < tolerance);
  for (std::size_t row = 0; row < 6; ++row) CHECK(bench.values(dx)[6 * row + 5] == 0);
}

TEST_CASE("the gradients of look-ups and sums are those of finite differences") {
  Bench bench;
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
  CHECK(bench.error(table, dtable, loss) < tolerance);
  CHECK(bench.error(positions, dpositions, loss) < tolerance);
  CHECK(bench.error(bias, dbias, loss) < tolerance);
}

TEST_CASE("dropout keeps what its mask says, scaled, and its gradient goes the same way") {
  Bench bench;
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
