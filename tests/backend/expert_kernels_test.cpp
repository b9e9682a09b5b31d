#include <catch2/catch.hpp>
#include <numeric>

#include "tests/backend/kernel_bench.h"

// Kernels of mixtures of experts: hand-checked choices, and gradients against central finite differences in
// f64.
namespace simrun {
namespace {

constexpr int tokens = 6, experts = 4, width = 3;

// Instruction::constants of a router (backend/operations.h).
struct Router {
  bool sigmoid = false, normalizes = false;
  double scaling = 1;
  int groups = 0, topk_groups = 0, group_best = 1;
  double balance = 0;
  int parts = 1;
  bool by_sequence = false;  // two of 3 tokens, not one of 6
  std::vector<double> constants() const {
    return {sigmoid ? 1.0 : 0.0,
            normalizes ? 1.0 : 0.0,
            scaling,
            double(groups),
            double(topk_groups),
            double(group_best),
            balance,
            double(parts),
            1,
            by_sequence ? 1.0 : 0.0};
  }
};

struct Routed {
  KernelBench bench;
  Index logits, bias, weights, chosen;
  Instruction route;

  Routed(const Router& router, int topk, bool has_bias) {
    const std::string row = router.by_sequence ? "batch:2 sequence:3 " : "batch:1 sequence:6 ";
    logits = bench.tensor(row + "expert_scores:" + std::to_string(experts));
    bias = bench.tensor("expert_scores:" + std::to_string(experts));
    weights = bench.tensor(row + "topk:" + std::to_string(topk));
    chosen = bench.tensor(row + "topk:" + std::to_string(topk), Dtype::int32);
    bench.at(chosen).choices.resize(static_cast<std::size_t>(tokens * topk));
    std::vector<Index> inputs{logits};
    if (has_bias) inputs.push_back(bias);
    route = bench.instruction(Opcode::route, Function::none, inputs, {weights, chosen});
    route.constants = router.constants();
  }
  std::vector<std::int32_t> choices_of(std::size_t token) {
    const std::vector<std::int32_t>& all = bench.at(chosen).choices;
    const std::size_t topk = all.size() / tokens;
    return {all.begin() + static_cast<std::ptrdiff_t>(token * topk),
            all.begin() + static_cast<std::ptrdiff_t>((token + 1) * topk)};
  }
};

// balance x experts sum over e of (share of the choices) x (mean share of the scores), of each part of the
// sequence by its share of the 6 tokens.
double balance_loss(Routed& of, const Router& router) {
  const auto topk = of.bench.at(of.chosen).choices.size() / tokens;
  double loss = 0;
  const int scopes = router.by_sequence ? 2 : router.parts, length = tokens / scopes;
  for (int part = 0; part < scopes; ++part) {
    std::vector<double> choices(experts, 0), shares(experts, 0);
    for (int t = part * length; t < (part + 1) * length; ++t) {
      std::vector<double> s;
      for (int e = 0; e < experts; ++e) {
        const double x = of.bench.values(of.logits)[static_cast<std::size_t>(t * experts + e)];
        s.push_back(router.sigmoid ? 1 / (1 + std::exp(-x)) : std::exp(x));
      }
      const double sum = std::accumulate(s.begin(), s.end(), 0.0);
      for (std::size_t e = 0; e < s.size(); ++e) shares[e] += s[e] / sum / length;
      for (const std::int32_t e : of.choices_of(static_cast<std::size_t>(t)))
        choices[static_cast<std::size_t>(e)] += 1.0 / static_cast<double>(length * static_cast<int>(topk));
    }
    for (std::size_t e = 0; e < experts; ++e)
      loss += router.balance * experts * choices[e] * shares[e] / scopes;
  }
  return loss;
}

// Five rows of three experts over three tokens: expert 0 has none, expert 2 the tokens 0 and 2, and so on.
SharedRows some_rows() {
  return std::make_shared<const ExpertRows>(
      DimPart{0, 3, 3},
      std::vector<ExpertRow>{{2, 0, 1, 0}, {0, 0, 2, 0}, {1, 0, 1, 1}, {2, 0, 2, 1}, {no_token, 0, 1, 0}});
}

Index rows_tensor(KernelBench& bench, const std::string& columns) {
  const Index tensor = bench.tensor("experts:1 capacity:5 " + columns);
  bench.at(tensor).rows = some_rows();
  return tensor;
}

}  // namespace

TEST_CASE("a token's experts are the best, the best first, of equals the lower number") {
  Routed of({}, 2, false);
  of.bench.values(of.logits) = {0, 1, 1, 2, 3, 3, 3, 3, 1, 0, 0, 0, 0, 0, 0, 1, 9, 0, 9, 0, 0, 0, 0, 0};
  of.bench.run(of.route);
  CHECK(of.bench.at(of.chosen).choices == std::vector<std::int32_t>{3, 1, 0, 1, 0, 1, 3, 0, 0, 2, 0, 1});
  // Four equal scores: a quarter each, not divided by the sum of the chosen.
  CHECK(of.bench.values(of.weights)[2] == Approx(0.25));
}

TEST_CASE("a bias chooses and has no weight; weights of the chosen sum to the scaling") {
  Router router{.sigmoid = true, .normalizes = true, .scaling = 2.5};
  Routed of(router, 2, true);
  of.bench.values(of.logits) = std::vector<double>(24, 0);
  of.bench.values(of.bias) = {-1, 0, 1, 2};
  of.bench.run(of.route);
  CHECK(of.choices_of(0) == std::vector<std::int32_t>{3, 2});
  CHECK(of.bench.values(of.weights)[0] == Approx(1.25));
}

TEST_CASE("experts are chosen from the best groups: by their best expert, or by the sum of two") {
  // Groups {5, 0} and {3, 4}: the first has the best expert, the second the larger sum.
  for (const int best : {1, 2}) {
    Routed of({.sigmoid = true, .groups = 2, .topk_groups = 1, .group_best = best}, 2, true);
    of.bench.values(of.logits) = std::vector<double>(24, 0);
    of.bench.values(of.bias) = {5, 0, 3, 4};
    of.bench.run(of.route);
    CHECK(of.choices_of(0) ==
          (best == 1 ? std::vector<std::int32_t>{0, 1} : std::vector<std::int32_t>{3, 2}));
  }
}

TEST_CASE("the gradients of routers are those of finite differences, balance loss included") {
  for (const bool sigmoid : {false, true})
    for (const bool normalizes : {false, true})
      for (const int groups : {0, 2})
        for (const double balance : {0.0, 0.7})
          for (const int scopes : {1, 2, 3}) {  // one, two parts of one sequence, two sequences
            CAPTURE(sigmoid, normalizes, groups, balance, scopes);
            const Router router{sigmoid, normalizes,          1.5,        groups, groups / 2, 2,
                                balance, scopes == 2 ? 2 : 1, scopes == 3};
            Routed of(router, 2, true);
            for (double& bias : of.bench.values(of.bias)) bias *= 0.1;
            const std::string row = router.by_sequence ? "batch:2 sequence:3 " : "batch:1 sequence:6 ";
            const Index r = of.bench.tensor(row + "topk:2");
            const Index gradient = of.bench.tensor(row + "expert_scores:4");
            const auto loss = [&] {
              of.bench.run(of.route);
              return of.bench.dot(of.weights, r) + balance_loss(of, router);
            };
            loss();
            Instruction backward = of.bench.instruction(Opcode::route_backward, Function::none,
                                                        {r, of.logits, of.chosen}, {gradient});
            backward.constants = router.constants();
            of.bench.run(backward);
            CHECK(of.bench.error(of.logits, gradient, loss) < gradient_tolerance);
          }
}

TEST_CASE("what an expert has above the mean takes the place of its bias's gradient") {
  // 12 choices, 3 for each of 4 experts on average; expert 1 has 6, expert 2 none: +3 and -3, by 6 tokens.
  Routed of({}, 2, false);
  of.bench.at(of.chosen).choices = {1, 0, 1, 0, 1, 3, 1, 3, 1, 3, 1, 0};
  of.bench.run(of.bench.instruction(Opcode::reduce, Function::sum, {of.chosen}, {of.bias}));
  CHECK(of.bench.values(of.bias) == std::vector<double>{0, 0.5, -0.5, 0});
}

TEST_CASE("rows lie by expert, then token, and empty ones last of their expert") {
  const SharedRows rows = some_rows();
  std::vector<std::pair<std::int32_t, std::int64_t>> order;
  for (const ExpertRow& row : rows->rows()) order.emplace_back(row.expert, row.token);
  CHECK(order ==
        std::vector<std::pair<std::int32_t, std::int64_t>>{{1, 1}, {1, 2}, {1, no_token}, {2, 0}, {2, 2}});
  CHECK(rows->begin(0) == 0);
  CHECK(rows->begin(1) == 0);
  CHECK(rows->begin(2) == 3);
  CHECK(rows->begin(3) == 5);
}

// Experts 0 to 5, two on each of three GPUs. Token 4 goes to 1, 0 and 5, token 7 to 4, 5 and 3.
TEST_CASE("where a token has one row for each GPU, it lies where the first of its choices there would") {
  const std::vector<ExpertRow> choices{{4, 0, 1, 0}, {4, 0, 0, 1}, {4, 0, 5, 2},
                                       {7, 0, 4, 0}, {7, 0, 5, 1}, {7, 0, 3, 2}};
  const ExpertRows rows({0, 6, 6}, choices, {}, 2);
  std::vector<std::pair<std::int32_t, std::int64_t>> order;
  for (const ExpertRow& row : rows.rows()) order.emplace_back(row.expert, row.token);
  CHECK(order == std::vector<std::pair<std::int32_t, std::int64_t>>{{0, 4}, {3, 7}, {4, 7}, {5, 4}});
  // By expert: 0 and 1 of token 4, 3, 4 and 5 of token 7, but 5 of token 4 before it.
  CHECK(rows.row_of_choice() == std::vector<std::int64_t>{0, 0, 1, 2, 3, 2});
  CHECK(rows.begin(3) == 1);
  CHECK(rows.begin(4) == 2);
  CHECK(ExpertRows({0, 6, 6}, choices).size() == 6);
}

TEST_CASE("the gradients of dispatch and combine are those of finite differences; empty rows take no part") {
  KernelBench bench;
  const std::string of_tokens = "batch:1 sequence:3 hidden:" + std::to_string(width);
  const Index x = bench.tensor(of_tokens), y = bench.tensor(of_tokens), r = bench.tensor(of_tokens);
  const Index weights = bench.tensor("batch:1 sequence:3 topk:2"),
              dweights = bench.tensor("batch:1 sequence:3 topk:2");
  const Index chosen = bench.tensor("batch:1 sequence:3 topk:2", Dtype::int32);
  const Index rows = rows_tensor(bench, "hidden:3"), drows = rows_tensor(bench, "hidden:3");
  const Index dx = bench.tensor(of_tokens), direction = rows_tensor(bench, "hidden:3");
  const Instruction combine =
      bench.instruction(Opcode::gather, Function::combine, {rows, weights, chosen}, {y});
  const auto combined = [&] {
    bench.run(combine);
    return bench.dot(y, r);
  };
  bench.run(
      bench.instruction(Opcode::scatter, Function::combine, {r, rows, weights, chosen}, {drows, dweights}));
  CHECK(bench.error(rows, drows, combined) < gradient_tolerance);
  CHECK(bench.error(weights, dweights, combined) < gradient_tolerance);
  // Token 0 has one row only: its second weight is of a choice that was dropped.
  CHECK(bench.values(dweights)[1] == 0);

  const auto dispatched = [&] {
    bench.run(bench.instruction(Opcode::gather, Function::dispatch, {x, chosen}, {rows}));
    return bench.dot(rows, direction);
  };
  dispatched();
  CHECK(bench.values(rows)[2 * width] == 0);  // the empty row
  bench.run(bench.instruction(Opcode::scatter, Function::dispatch, {direction, chosen}, {dx}));
  CHECK(bench.error(x, dx, dispatched) < gradient_tolerance);
}

TEST_CASE("masks have a token at its row with its expert; what a group of two has no row for is 0") {
  KernelBench bench;
  const Index weights = bench.tensor("batch:1 sequence:4 topk:1"),
              dweights = bench.tensor("batch:1 sequence:4 topk:1");
  const Index chosen = bench.tensor("batch:1 sequence:4 topk:1", Dtype::int32);
  const std::string places = "batch:1 sequence:4 mask_places:2";  // a row of each of two experts
  const Index combine = bench.tensor(places), dispatch = bench.tensor(places);
  bench.values(weights) = {0.5, 0.6, 0.7, 0.8};
  bench.at(chosen).choices = {0, 0, 1, 0};
  Instruction masks =
      bench.instruction(Opcode::map, Function::dispatch_masks, {weights, chosen}, {combine, dispatch});
  masks.constants = {1, 1, 2, 1};
  bench.run(masks);
  CHECK(bench.values(combine) == std::vector<double>{0.5, 0, 0, 0, 0, 0.7, 0.8, 0});
  CHECK(bench.values(dispatch) == std::vector<double>{1, 0, 0, 0, 0, 1, 1, 0});
  bench.values(combine) = {1, 0, 0, 0, 0, 2, 3, 0};
  Instruction back =
      bench.instruction(Opcode::map, Function::dispatch_masks_backward, {combine, chosen}, {dweights});
  back.constants = masks.constants;
  bench.run(back);
  CHECK(bench.values(dweights) == std::vector<double>{1, 0, 2, 3});
}

TEST_CASE("grouped products, their activations and biases have the gradients of finite differences") {
  KernelBench bench;
  const Index x = rows_tensor(bench, "hidden:3"), dx = rows_tensor(bench, "hidden:3");
  const Index w = bench.tensor("experts:3 hidden:3 gate:2 ffn:2"),
              dw = bench.tensor("experts:3 hidden:3 gate:2 ffn:2");
  const Index bias = bench.tensor("experts:3 gate:2 ffn:2"), dbias = bench.tensor("experts:3 gate:2 ffn:2");
  const Index h = rows_tensor(bench, "gate:2 ffn:2"), dh = rows_tensor(bench, "gate:2 ffn:2");
  const Index a = rows_tensor(bench, "ffn:2"), r = rows_tensor(bench, "ffn:2");
  const auto loss = [&] {
    bench.run(bench.instruction(Opcode::gemm, Function::none, {x, w}, {h}));
    bench.run(bench.instruction(Opcode::map, Function::swiglu, {h, bias}, {a}));
    return bench.dot(a, r);
  };
  loss();
  bench.run(bench.instruction(Opcode::map, Function::swiglu_backward, {r, h, bias}, {dh}));
  bench.run(bench.instruction(Opcode::gemm, Function::none, {dh, w}, {dx}));
  bench.run(bench.instruction(Opcode::gemm, Function::none, {x, dh}, {dw}));
  bench.run(bench.instruction(Opcode::reduce, Function::sum, {dh}, {dbias}));
  CHECK(bench.error(x, dx, loss) < gradient_tolerance);
  CHECK(bench.error(w, dw, loss) < gradient_tolerance);
  CHECK(bench.error(bias, dbias, loss) < gradient_tolerance);
  // Expert 0 has no row: its gradients are zero, not what was there.
  for (std::size_t i = 0; i < 12; ++i) CHECK(bench.values(dw)[i] == 0);
}

TEST_CASE("the gradient of a gate per token is that of finite differences") {
  KernelBench bench;
  const std::string rows = "batch:1 sequence:3 hidden:4", gates = "batch:1 sequence:3 one:1";
  const Index x = bench.tensor(rows), g = bench.tensor(gates), y = bench.tensor(rows), r = bench.tensor(rows);
  const Index dx = bench.tensor(rows), dg = bench.tensor(gates);
  const auto loss = [&] {
    bench.run(bench.instruction(Opcode::map, Function::sigmoid_gate, {x, g}, {y}));
    return bench.dot(y, r);
  };
  bench.run(bench.instruction(Opcode::map, Function::sigmoid_gate_backward, {r, x, g}, {dx, dg}));
  CHECK(bench.error(x, dx, loss) < gradient_tolerance);
  CHECK(bench.error(g, dg, loss) < gradient_tolerance);
}

}  // namespace simrun
