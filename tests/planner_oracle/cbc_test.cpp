// The exact minimum against Debian's CBC on Alpa's integer program (Zheng et al. 2022, section 4.2, with one
// binary per strategy and per pair of strategies). Built where CBC is found; nothing else needs it.
#include <coin/Cbc_C_Interface.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "planner/alpa_graph.h"
#include "planner/choice_chain.h"
#include "tests/jobs.h"
#include "tests/planner/random_choices.h"

namespace simrun {
namespace {

// Columns: a binary for each strategy of each node, then one in [0, 1] for each pair of each edge.
class ChoiceProgram {
 public:
  ChoiceProgram(const ChoiceGraph& graph, double memory) : graph_(graph), model_(Cbc_newModel()) {
    Cbc_setLogLevel(model_, 0);
    for (const ChoiceNode& node : graph.nodes) {
      first_.push_back(Cbc_getNumCols(model_));
      for (const double cost : node.cost) add_column(cost, true);
    }
    for (std::size_t v = 0; v < graph.nodes.size(); ++v) add_one_of(v);
    for (const ChoiceEdge& edge : graph.edges) add_edge(edge);
    if (std::isfinite(memory)) add_memory(memory);
  }
  ~ChoiceProgram() { Cbc_deleteModel(model_); }
  ChoiceProgram(const ChoiceProgram&) = delete;
  ChoiceProgram& operator=(const ChoiceProgram&) = delete;

  // Infinite where nothing fits.
  double minimum() {
    Cbc_solve(model_);
    return Cbc_isProvenOptimal(model_) != 0 ? Cbc_getObjValue(model_) : forbidden_cost;
  }

 private:
  // What is forbidden is zero.
  int add_column(double cost, bool is_binary) {
    const bool allowed = std::isfinite(cost);
    Cbc_addCol(model_, "x", 0, allowed ? 1 : 0, allowed ? cost : 0, is_binary ? 1 : 0, 0, nullptr, nullptr);
    return Cbc_getNumCols(model_) - 1;
  }
  void add_row(const std::vector<int>& columns, const std::vector<double>& factors, char sense,
               double right) {
    Cbc_addRow(model_, "r", static_cast<int>(columns.size()), columns.data(), factors.data(), sense, right);
  }
  void add_one_of(std::size_t v) {
    std::vector<int> columns;
    for (std::size_t s = 0; s < graph_.nodes[v].cost.size(); ++s)
      columns.push_back(first_[v] + static_cast<int>(s));
    add_row(columns, std::vector<double>(columns.size(), 1), 'E', 1);
  }
  // The pairs with a strategy are as much as the strategy, at both ends.
  void add_edge(const ChoiceEdge& edge) {
    const std::size_t rows = graph_.nodes[edge.from].cost.size(), columns = graph_.nodes[edge.to].cost.size();
    std::vector<int> pair;
    for (const double cost : edge.cost) pair.push_back(add_column(cost, false));
    for (std::size_t i = 0; i < rows + columns; ++i) {
      const bool of_from = i < rows;
      const std::size_t s = of_from ? i : i - rows;
      std::vector<int> terms{first_[of_from ? edge.from : edge.to] + static_cast<int>(s)};
      for (std::size_t other = 0; other < (of_from ? columns : rows); ++other)
        terms.push_back(pair[of_from ? s * columns + other : other * columns + s]);
      std::vector<double> factors(terms.size(), 1);
      factors.front() = -1;
      add_row(terms, factors, 'E', 0);
    }
  }
  void add_memory(double memory) {
    std::vector<int> columns;
    std::vector<double> factors;
    for (std::size_t v = 0; v < graph_.nodes.size(); ++v)
      for (std::size_t s = 0; s < graph_.nodes[v].memory.size(); ++s) {
        columns.push_back(first_[v] + static_cast<int>(s));
        factors.push_back(graph_.nodes[v].memory[s]);
      }
    add_row(columns, factors, 'L', memory);
  }

  const ChoiceGraph& graph_;
  Cbc_Model* model_;
  std::vector<int> first_;  // column by node
};

double minimum_of(const std::vector<Choice>& choices) {
  return choices.empty() ? forbidden_cost : choices.back().cost;
}

// Costs in microseconds: CBC's tolerances are absolute.
ChoiceGraph in_microseconds(ChoiceGraph graph) {
  for (ChoiceNode& node : graph.nodes)
    for (double& cost : node.cost) cost *= 1e6;
  for (ChoiceEdge& edge : graph.edges) {
    std::vector<double> costs(edge.cost.begin(), edge.cost.end());
    for (double& cost : costs) cost *= 1e6;
    edge.cost = std::move(costs);
  }
  return graph;
}

void check_layer(const Job& job, const LogicalMesh& mesh, std::int64_t sequences) {
  const StageGraph stage = stage_graph(job, {mesh, sequences, 4});
  const StageChoices part = choices_of(stage, {1, std::min(3, stage.segments()), 1});
  const ChoiceGraph graph = in_microseconds(part.choices);
  const double expected = ChoiceProgram(graph, forbidden_cost).minimum();
  CAPTURE(job.model.model_type, graph.nodes.size(), graph.edges.size());
  REQUIRE(std::isfinite(expected));
  CHECK(minimum_of(choose_strategies(graph, {})) == Approx(expected).epsilon(1e-6));
}

}  // namespace

TEST_CASE("on 50 random graphs the minimum is CBC's, with and without a limit of memory") {
  std::mt19937 random(17);
  for (int round = 0; round < 50; ++round) {
    const ChoiceGraph graph = random_choices({.nodes = 5 + random() % 20,
                                              .most_strategies = 6,
                                              .edges = 5 + random() % 30,
                                              .forbidden_share = 0.05},
                                             random);
    CAPTURE(round, graph.nodes.size(), graph.edges.size());
    const std::vector<Choice> front = eliminate_all(graph, {.memory = 1e9, .front = true});
    const double expected = ChoiceProgram(graph, forbidden_cost).minimum();
    CHECK(minimum_of(front) == expected);
    if (front.empty()) continue;
    const double limit = front[front.size() / 2].memory;
    const std::vector<Choice> limited = eliminate_all(graph, {.memory = limit, .front = true});
    CHECK(minimum_of(limited) == Approx(ChoiceProgram(graph, limit).minimum()).epsilon(1e-9));
  }
}

TEST_CASE("on two layers of a GPT, a mixture of experts and a Wide-ResNet the minimum is CBC's") {
  check_layer(job_from(small_gpt(4, 1, 1, 1)), {4, 2}, 8);
  check_layer(preset_job("tiny-moe-8ranks"), {4, 2}, 8);
  const std::string image =
      "simrun: 1\nmodel: {from: wide-resnet-250m}\n"
      "training: {micro_batch_size: 8, global_batch_size: 64, precision: fp32}\n"
      "cluster: {from: dgx_a100, nodes: 1}\n";
  check_layer(job_from(image), {4, 2}, 32);
}

}  // namespace simrun
