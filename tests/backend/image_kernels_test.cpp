#include <catch2/catch.hpp>

#include "tests/backend/kernel_bench.h"

namespace simrun {
namespace {

struct ConvolutionCase {
  const char *x, *weight, *y;
  double stride;
};

}  // namespace

TEST_CASE("the gradients of a convolution are those of finite differences, with strides and padding") {
  for (const ConvolutionCase& c :
       {ConvolutionCase{"batch:2 height:5 width:4 channels:3", "out:2 rows:3 columns:3 channels:3",
                        "batch:2 height:5 width:4 out:2", 1},
        ConvolutionCase{"batch:2 height:5 width:6 channels:2", "out:3 rows:3 columns:3 channels:2",
                        "batch:2 fewer_rows:3 fewer_columns:3 out:3", 2},
        ConvolutionCase{"batch:1 height:9 width:8 channels:2", "out:2 rows:7 columns:7 channels:2",
                        "batch:1 fewer_rows:5 fewer_columns:4 out:2", 2},
        ConvolutionCase{"batch:2 height:3 width:4 channels:3", "out:4 rows:1 columns:1 channels:3",
                        "batch:2 fewer_rows:2 fewer_columns:2 out:4", 2}}) {
    CAPTURE(c.x, c.weight, c.y);
    KernelBench bench;
    const Index x = bench.tensor(c.x), w = bench.tensor(c.weight), y = bench.tensor(c.y);
    const Index bias = bench.tensor("out:" + std::string(1, c.weight[4]));
    const Index r = bench.tensor(c.y), dx = bench.tensor(c.x), dw = bench.tensor(c.weight);
    const Index dbias = bench.tensor("out:" + std::string(1, c.weight[4]));
    const auto run = [&](Function function, std::vector<Index> inputs, Index output) {
      Instruction what = bench.instruction(Opcode::conv, function, std::move(inputs), {output});
      what.constants = {c.stride};
      bench.run(what);
    };
    run(Function::convolution_input_gradient, {r, w}, dx);
    run(Function::convolution_weight_gradient, {x, r}, dw);
    bench.run(bench.instruction(Opcode::reduce, Function::sum, {r}, {dbias}));
    const auto loss = [&] {
      run(Function::none, {x, w, bias}, y);
      return bench.dot(y, r);
    };
    CHECK(bench.error(x, dx, loss) < gradient_tolerance);
    CHECK(bench.error(w, dw, loss) < gradient_tolerance);
    CHECK(bench.error(bias, dbias, loss) < gradient_tolerance);
  }
}

TEST_CASE("a window of a 3x3 convolution is centred on its pixel, and what lies outside the image is zero") {
  KernelBench bench;
  const Index x = bench.tensor("batch:1 height:2 width:2 channels:1");
  const Index w = bench.tensor("out:1 rows:3 columns:3 channels:1");
  const Index y = bench.tensor("batch:1 height:2 width:2 out:1");
  bench.values(x) = {1, 2, 3, 4};
  bench.values(w) = {10, 20, 30, 40, 50, 60, 70, 80, 90};
  Instruction what = bench.instruction(Opcode::conv, Function::none, {x, w}, {y});
  what.constants = {1};
  bench.run(what);
  // Upper left: 50 x 1 + 60 x 2 + 80 x 3 + 90 x 4 = 770; lower right: 10 x 1 + 20 x 2 + 40 x 3 + 50 x 4.
  CHECK(bench.values(y) == std::vector<double>{770, 40 + 100 + 210 + 320, 20 + 60 + 150 + 240, 370});
}

TEST_CASE("the gradients of poolings are those of finite differences") {
  struct Case {
    const char *x, *y;
    double window, stride;
  };
  for (const Case& c :
       {Case{"batch:2 height:5 width:6 channels:3", "batch:2 fewer_rows:3 fewer_columns:3 channels:3", 3, 2},
        Case{"batch:2 height:4 width:5 channels:2", "batch:2 fewer_rows:2 fewer_columns:3 channels:2", 2,
             2}}) {
    CAPTURE(c.x, c.window);
    KernelBench bench;
    const Index x = bench.tensor(c.x), y = bench.tensor(c.y), r = bench.tensor(c.y), dx = bench.tensor(c.x);
    const Index at = bench.tensor(c.y, Dtype::int64);
    Instruction forward = bench.instruction(Opcode::pool, Function::max_pool, {x}, {y, at});
    Instruction backward = bench.instruction(Opcode::pool_backward, Function::max_pool, {r, at}, {dx});
    forward.constants = backward.constants = {c.window, c.stride};
    const auto loss = [&] {
      bench.run(forward);
      return bench.dot(y, r);
    };
    loss();
    bench.run(backward);
    CHECK(bench.error(x, dx, loss) < gradient_tolerance);
  }
  KernelBench bench;
  const char *image = "batch:2 height:3 width:4 channels:5", *features = "batch:2 channels:5";
  const Index x = bench.tensor(image), y = bench.tensor(features), r = bench.tensor(features),
              dx = bench.tensor(image);
  const auto loss = [&] {
    bench.run(bench.instruction(Opcode::pool, Function::average_pool, {x}, {y}));
    return bench.dot(y, r);
  };
  bench.run(bench.instruction(Opcode::pool_backward, Function::average_pool, {r}, {dx}));
  CHECK(bench.error(x, dx, loss) < gradient_tolerance);
  for (const double slope : bench.values(dx)) CHECK(std::abs(slope) < 4.0 / 12);  // r / 12, |r| < 4
}

TEST_CASE("the gradients of batch norm are those of finite differences, through its statistics") {
  KernelBench bench;
  const char *image = "batch:3 height:2 width:3 channels:4", *channels = "channels:4";
  const Index x = bench.tensor(image), y = bench.tensor(image), r = bench.tensor(image),
              dx = bench.tensor(image);
  const Index w = bench.tensor(channels), b = bench.tensor(channels), dw = bench.tensor(channels),
              db = bench.tensor(channels);
  const Index s = bench.tensor("channels:4 statistics:2");
  Instruction forward = bench.instruction(Opcode::norm, Function::batch_norm, {x, w, b}, {y, s});
  forward.constants = {1e-5};
  const auto loss = [&] {
    bench.run(forward);
    return bench.dot(y, r);
  };
  loss();
  // Every channel of y has its bias as mean and (but for epsilon) its weight as deviation.
  for (std::size_t c = 0; c < 4; ++c) {
    double mean = 0, squares = 0;
    for (std::size_t row = 0; row < 18; ++row) mean += bench.values(y)[4 * row + c] / 18;
    for (std::size_t row = 0; row < 18; ++row)
      squares += std::pow(bench.values(y)[4 * row + c] - mean, 2) / 18;
    CHECK(mean == Approx(bench.values(b)[c]));
    CHECK(std::sqrt(squares) == Approx(std::abs(bench.values(w)[c])).epsilon(1e-4));
  }
  bench.run(bench.instruction(Opcode::norm_backward, Function::batch_norm, {r, x, w, s}, {dx, dw, db}));
  CHECK(bench.error(x, dx, loss) < gradient_tolerance);
  CHECK(bench.error(w, dw, loss) < gradient_tolerance);
  CHECK(bench.error(b, db, loss) < gradient_tolerance);
}

TEST_CASE("joined tensors lie behind one another and their gradients come apart in the same way") {
  struct Case {
    const char *a, *b, *whole;
    std::vector<double> first_row;  // numbers of a's and b's elements: 0.., 100..
  };
  const Case rows{"batch:2 patches:2 hidden:3", "hidden:3", "batch:2 sequence:3 hidden:3", {}};
  const Case features{
      "batch:2 sequence:2 hidden:2", "batch:2 sequence:2 hidden:2", "batch:2 sequence:2 both:4", {}};
  const Case images{
      "images:4 patches:1 hidden:2", "batch:2 text:1 hidden:2", "batch:2 sequence:3 hidden:2", {}};
  for (const auto& [c, wanted] :
       {std::pair{rows,
                  std::vector<double>{100, 101, 102, 0, 1, 2, 3, 4, 5, 100, 101, 102, 6, 7, 8, 9, 10, 11}},
        std::pair{features,
                  std::vector<double>{0, 1, 100, 101, 2, 3, 102, 103, 4, 5, 104, 105, 6, 7, 106, 107}},
        std::pair{images, std::vector<double>{0, 1, 2, 3, 100, 101, 4, 5, 6, 7, 102, 103}}}) {
    CAPTURE(c.a, c.whole);
    KernelBench bench;
    const Index a = bench.tensor(c.a), b = bench.tensor(c.b), y = bench.tensor(c.whole),
                r = bench.tensor(c.whole);
    const Index da = bench.tensor(c.a), db = bench.tensor(c.b);
    bench.run(bench.instruction(Opcode::map, Function::concatenate_backward, {r}, {da, db}));
    const auto loss = [&] {
      bench.run(bench.instruction(Opcode::map, Function::concatenate, {a, b}, {y}));
      return bench.dot(y, r);
    };
    CHECK(bench.error(a, da, loss) < gradient_tolerance);
    CHECK(bench.error(b, db, loss) < gradient_tolerance);
    for (std::size_t i = 0; i < bench.values(a).size(); ++i) bench.values(a)[i] = static_cast<double>(i);
    for (std::size_t i = 0; i < bench.values(b).size(); ++i)
      bench.values(b)[i] = 100 + static_cast<double>(i);
    loss();
    CHECK(bench.values(y) == wanted);
  }
}

TEST_CASE("the first position is read alone, or all behind it; the others' gradient is zero") {
  for (const char* part : {"batch:2 hidden:3", "batch:2 patches:3 hidden:3"}) {
    CAPTURE(part);
    KernelBench bench;
    const char* rows = "batch:2 sequence:4 hidden:3";
    const Index x = bench.tensor(rows), y = bench.tensor(part), r = bench.tensor(part),
                dx = bench.tensor(rows);
    const auto loss = [&] {
      bench.run(bench.instruction(Opcode::map, Function::select, {x}, {y}));
      return bench.dot(y, r);
    };
    bench.run(bench.instruction(Opcode::map, Function::select_backward, {r}, {dx}));
    CHECK(bench.error(x, dx, loss) < gradient_tolerance);
    loss();
    const bool is_first = bench.values(y).size() == 6;
    CHECK(bench.values(y)[0] == bench.values(x)[is_first ? 0 : 3]);
    CHECK(bench.values(dx)[is_first ? 3 : 0] == 0);
  }
}

}  // namespace simrun
