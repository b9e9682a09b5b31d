#include "planner/alpa_graph.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "planner/choice_chain.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

Job gpt_of(int layers) { return job_from(small_gpt(layers, 1, 1, 1), {{"training.hidden_dropout", "0"}}); }

std::size_t strategies_of(const StageGraph& stage, const std::string& name) {
  for (std::size_t o = 0; o < stage.strategies.size(); ++o)
    if (stage.graph.operators[o].name == name) return stage.strategies[o].size();
  return 0;
}

}  // namespace

TEST_CASE("a strategy gives each mesh axis one of an operator's loops, or repeats the operator") {
  const StageGraph stage = stage_graph(gpt_of(1), {{4, 2}, 16, 4});
  CHECK(stage.axes == std::vector<std::string>{"x", "y"});
  CHECK(strategies_of(stage, "fc1") == 25);            // batch, sequence, hidden, ffn, repeated: 5 x 5
  CHECK(strategies_of(stage, "core_attention") == 9);  // batch, kv_heads, repeated: it needs sequences whole
  CHECK(strategies_of(stage, "input_norm") == 9);      // batch, sequence, repeated: it needs rows whole
  // Of 12 heads 8 ranks cannot have equal parts; 4 can, and 2.
  const Job twelve =
      job_from(small_gpt(1, 1, 1, 1), {{"model.num_attention_heads", "12"}, {"model.hidden_size", "1536"}});
  CHECK(strategies_of(stage_graph(twelve, {{4, 2}, 16, 4}), "core_attention") == 8);
  CHECK(strategies_of(stage_graph(twelve, {{1, 1}, 16, 4}), "core_attention") == 1);
}

TEST_CASE("collectives follow from layouts: neighbours in one layout are free, a partial sum is not") {
  const StageGraph stage = stage_graph(gpt_of(1), {{8, 1}, 16, 4});
  int edges = 0;
  for (const ChoiceEdge& edge : stage.edges) {
    const Operator& from = stage.graph.operators[edge.from];
    const Operator& to = stage.graph.operators[edge.to];
    if (from.name != "fc2" || to.name != "mlp_add") continue;
    ++edges;
    const std::size_t columns = stage.strategies[edge.to].size();
    const auto loop_of = [&](std::size_t o, std::size_t strategy) {
      const std::int32_t loop = stage.strategies[o][strategy].loop_of_axis.front();
      const auto loops = loops_of(stage.graph, stage.graph.operators[o]);
      return loop < 0 ? std::string("repeated")
                      : stage.graph.dimensions[loops[static_cast<std::size_t>(loop)]].name;
    };
    for (std::size_t a = 0; a < stage.strategies[edge.from].size(); ++a)
      for (std::size_t b = 0; b < columns; ++b) {
        CAPTURE(loop_of(edge.from, a), loop_of(edge.to, b));
        const double seconds = edge.cost[a * columns + b];
        if (loop_of(edge.from, a) == loop_of(edge.to, b))
          CHECK(seconds == 0);
        else if (loop_of(edge.from, a) == "ffn")  // summed over
          CHECK(seconds > 0);
      }
  }
  CHECK(edges == 1);
}

TEST_CASE("a choice takes no more memory than its limit, and less memory takes more time") {
  const StageGraph stage = stage_graph(gpt_of(3), {{2, 2}, 32, 2});
  const StageChoices part = choices_of(stage, {0, stage.segments(), 1});
  const std::vector<Choice> free = choose_strategies(part.choices, {});
  REQUIRE(free.size() == 1);
  const double most = free.front().memory;
  const std::vector<Choice> front =
      choose_strategies(part.choices, {.memory = most, .front = true, .buckets = 512});
  const double least = front.front().memory;
  REQUIRE(least < 0.9 * most);
  double seconds = free.front().cost;
  for (const double share : {0.8, 0.5, 0.2}) {
    const double limit = least + share * (most - least);
    const std::vector<Choice> limited =
        choose_strategies(part.choices, {.memory = limit, .front = true, .buckets = 512, .choices = 1});
    REQUIRE(limited.size() == 1);
    CHECK(limited.front().memory <= limit);
    CHECK(limited.front().cost >= seconds);
    seconds = limited.front().cost;
    // Four times as many buckets change nothing.
    const std::vector<Choice> finer =
        choose_strategies(part.choices, {.memory = limit, .front = true, .buckets = 2048, .choices = 1});
    CHECK(finer.front().cost == Approx(limited.front().cost).epsilon(1e-3));
  }
}

TEST_CASE("more microbatches in flight keep more activations, and nothing else") {
  const StageGraph stage = stage_graph(gpt_of(2), {{2, 1}, 8, 8});
  const StageChoices one = choices_of(stage, {1, 3, 1}), three = choices_of(stage, {1, 3, 3});
  for (std::size_t v = 0; v < one.choices.nodes.size(); ++v) {
    const std::size_t o = one.operators[v];
    CHECK(one.choices.nodes[v].cost == three.choices.nodes[v].cost);
    for (std::size_t s = 0; s < stage.strategies[o].size(); ++s)
      CHECK(three.choices.nodes[v].memory[s] - one.choices.nodes[v].memory[s] ==
            Approx(2 * stage.activation_bytes[o][s]));
  }
}

TEST_CASE("ZeRO divides what data-parallel ranks keep of a matrix") {
  // fc1, 1024 x 4096 on 8 ranks with other tokens: 2 B weights, 4 B gradients, 12 B of Adam in fp32.
  const double elements = 1024 * 4096;
  for (const auto& [zero_stage, bytes] :
       {std::pair{0, 18.0}, {1, 6 + 12 / 8.0}, {2, 2 + 16 / 8.0}, {3, 18 / 8.0}}) {
    Job job = gpt_of(1);
    job.optimizer.zero_stage = zero_stage;
    const StageGraph stage = stage_graph(job, {{8, 1}, 16, 4});
    int matrices = 0;
    for (std::size_t o = 0; o < stage.strategies.size(); ++o) {
      if (stage.graph.operators[o].name != "fc1") continue;
      ++matrices;
      const double biases = stage.static_bytes[o].front() - bytes * elements;
      CHECK(biases >= 0);
      CHECK(biases <= 4096 * 18);
    }
    CHECK(matrices == 1);
  }
}

}  // namespace simrun
