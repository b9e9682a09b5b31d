#include "schedules/layout.h"

#include <catch2/catch.hpp>
#include <stdexcept>

#include "models/decoder.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

const DeviceMesh mesh = device_mesh({.tp = 4, .dp = 2});

const Operator& operator_named(const Graph& graph, const std::string& name) {
  for (const Operator& op : graph.operators)
    if (op.name == name) return op;
  throw std::logic_error("no operator " + name);
}

std::string words(const Layout& layout, const Graph& graph) { return describe(layout, graph, mesh); }

Job sequence_parallel_job() {
  return job_from(small_gpt(1, 4, 1, 1), {{"parallelism.sequence_parallel", "true"}});
}

TEST_CASE("layout: column- and row-parallel products follow from heads and ffn split over tp") {
  const Job job = job_from(small_gpt(1, 4, 1, 1));
  const Graph graph = decoder_graph(job);
  const std::vector<LayoutRule> rules = strategy_rules(job);
  const Operator& qkv = operator_named(graph, "qkv");
  const Layout qkv_layout = operator_layout(graph, qkv, rules, mesh);
  CHECK(words(output_layout(graph, qkv, qkv_layout, 0), graph) ==
        "batch split over dp, kv_heads split over tp");
  CHECK(words(gradient_layout(graph, qkv, qkv_layout, 0), graph) ==
        "batch split over dp, partial sum over tp");
  CHECK(words(gradient_layout(graph, qkv, qkv_layout, 1), graph) ==
        "kv_heads split over tp, partial sum over dp");
  const Operator& fc2 = operator_named(graph, "fc2");
  const Layout fc2_layout = operator_layout(graph, fc2, rules, mesh);
  CHECK(words(output_layout(graph, fc2, fc2_layout, 0), graph) == "batch split over dp, partial sum over tp");
}

TEST_CASE("layout: sequence parallelism takes tp exactly where no head, ffn or vocabulary has it") {
  const Job job = sequence_parallel_job();
  const Graph graph = decoder_graph(job);
  const std::vector<LayoutRule> rules = strategy_rules(job);
  const auto layout = [&](const char* name) {
    return operator_layout(graph, operator_named(graph, name), rules, mesh);
  };
  const DimensionId sequence = graph.dimension("sequence");
  for (const char* split : {"input_norm", "attention_add", "mlp_norm", "mlp_add", "final_norm",
                            "embedding_dropout", "position_embedding"})
    CHECK(layout(split).split_of(sequence) != nullptr);
  for (const char* whole : {"qkv", "core_attention", "attention_projection", "fc1", "mlp_activation", "fc2",
                            "logits", "word_embedding", "cross_entropy", "tokens"})
    CHECK(layout(whole).split_of(sequence) == nullptr);
}

TEST_CASE("conversions: every change of layout is one collective, named by what differs") {
  const Layout replicated;
  Layout by_sequence{{{1, {0}}}, {}, {}};
  Layout by_heads{{{3, {0}}}, {}, {}};
  Layout partial{{}, {0}, {}};
  Layout partial_max{{}, {}, {0}};
  const auto only = [](const Layout& from, const Layout& to) {
    const std::vector<Conversion> steps = conversions(from, to);
    REQUIRE(steps.size() == 1);
    CHECK(steps[0].result == to);
    CHECK(steps[0].axes == std::vector<AxisId>{0});
    return steps[0];
  };
  CHECK(only(partial, replicated).opcode == Opcode::all_reduce);
  CHECK(only(partial_max, replicated).reduction == Reduction::max);
  CHECK(only(partial, by_sequence).opcode == Opcode::reduce_scatter);
  CHECK(only(by_sequence, replicated).opcode == Opcode::all_gather);
  CHECK(only(by_sequence, by_heads).opcode == Opcode::all_to_all);
  CHECK(only(replicated, by_sequence).opcode == Opcode::copy);
  CHECK(conversions(by_heads, by_heads).empty());
}

TEST_CASE("conversions: any layout over three axes reaches any other without partial sums") {
  // Every assignment of three axes to {free, dimension 0, dimension 1, partial sum, partial max}.
  const auto layout_of = [](int code) {
    Layout layout;
    for (DimensionId dim : {DimensionId{0}, DimensionId{1}}) {
      DimensionSplit split{dim, {}};
      for (AxisId axis = 0; axis < 3; ++axis)
        if ((axis == 0 ? code : axis == 1 ? code / 5 : code / 25) % 5 == 1 + dim) split.axes.push_back(axis);
      if (!split.axes.empty()) layout.splits.push_back(split);
    }
    for (AxisId axis = 0; axis < 3; ++axis) {
      const int place = (axis == 0 ? code : axis == 1 ? code / 5 : code / 25) % 5;
      if (place == 3) layout.partial_sum.push_back(axis);
      if (place == 4) layout.partial_max.push_back(axis);
    }
    return layout;
  };
  for (int from = 0; from < 125; ++from)
    for (int to = 0; to < 125; ++to) {
      const Layout target = layout_of(to);
      if (!target.partial_sum.empty() || !target.partial_max.empty()) continue;
      const std::vector<Conversion> steps = conversions(layout_of(from), target);
      CHECK((steps.empty() ? layout_of(from) : steps.back().result) == target);
    }
}

TEST_CASE("layout: an extent that does not divide names operator, dimension and both numbers") {
  const Job job = job_from(small_gpt(1, 4, 1, 1));
  const Graph graph = decoder_graph(job);
  const DeviceMesh odd = device_mesh({.tp = 3});
  CHECK_THROWS_WITH(operator_layout(graph, operator_named(graph, "fc1"), strategy_rules(job), odd),
                    "fc1: ffn 4096 does not divide over 3 ranks");
}

}  // namespace
}  // namespace simrun
