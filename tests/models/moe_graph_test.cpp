#include <catch2/catch.hpp>

#include "models/backward.h"
#include "models/decoder.h"
#include "models/flops.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

Graph moe_graph(const std::string& model, const std::string& moe = "{}", int sequence = 512) {
  return decoder_graph(job_from("simrun: 1\nmodel: " + model +
                                "\ntraining: {seq_length: " + std::to_string(sequence) +
                                ", micro_batch_size: 1, global_batch_size: 8, precision: bf16}\nmoe: " + moe +
                                "\ncluster: {from: dgx_h100, nodes: 1}\n"));
}

const Operator& moe_operator(const Graph& graph, const std::string& name, std::int32_t layer = 0) {
  for (const Operator& op : graph.operators)
    if (op.layer == layer && op.name == name) return op;
  throw std::logic_error("no operator " + name);
}

std::vector<std::string> dims_of(const Graph& graph, TensorId tensor) {
  std::vector<std::string> names;
  for (const DimensionId dim : graph.tensors[tensor].dims) names.push_back(graph.dimensions[dim].name);
  return names;
}

using Words = std::vector<std::string>;

TEST_CASE("Mixtral: an MLP's place is taken by router, dispatch, two grouped products and combine") {
  const Graph graph = moe_graph("{from: mixtral-8x7b, num_hidden_layers: 2}");
  Words names;
  for (const Operator& op : graph.operators)
    if (op.layer == 1) names.push_back(op.name);
  CHECK(names == Words{"input_norm", "qkv", "rope", "core_attention", "attention_projection", "attention_add",
                       "mlp_norm", "router", "route", "dispatch", "expert_fc1", "expert_activation",
                       "expert_fc2", "combine", "mlp_add"});
  const Operator& fc1 = moe_operator(graph, "expert_fc1");
  CHECK(dims_of(graph, fc1.inputs[0]) == Words{"experts", "capacity", "hidden"});
  CHECK(dims_of(graph, fc1.inputs[1]) == Words{"experts", "hidden", "gate", "expert_ffn"});
  CHECK(dims_of(graph, fc1.outputs[0]) == Words{"experts", "capacity", "gate", "expert_ffn"});
  const Operator& route = moe_operator(graph, "route");
  CHECK(dims_of(graph, route.outputs[0]) == Words{"batch", "sequence", "topk"});
  CHECK(graph.tensors[route.inputs[0]].dtype == Dtype::fp32);
  CHECK(graph.tensors[route.outputs[1]].dtype == Dtype::int32);
  for (const char* name : {"dispatch", "combine"}) {
    const Operator& op = moe_operator(graph, name);
    REQUIRE(op.regroup);
    CHECK(op.regroup->from ==
          std::vector<DimensionId>{graph.dimension("batch"), graph.dimension("sequence")});
    CHECK(op.regroup->to == graph.dimension("capacity"));
  }
}

TEST_CASE("a hybrid model's layers are halves of layers: the same operators, FLOPs and parameters") {
  const std::string shape =
      "hidden_size: 512, num_attention_heads: 8, vocab_size: 1000, max_position_embeddings: 512";
  const auto dense = [&](const std::string& layers) {
    return decoder_graph(job_from("simrun: 1\nmodel: {model_type: gpt, " + layers + ", " + shape +
                                  "}\ntraining: {seq_length: 512, micro_batch_size: 1, global_batch_size: 8, "
                                  "precision: bf16}\ncluster: {from: dgx_h100, nodes: 1}\n"));
  };
  const Graph whole = dense("num_layers: 3");
  const Graph halves = dense("num_layers: 6, hybrid_override_pattern: \"*-*-*-\"");
  REQUIRE(whole.operators.size() == halves.operators.size());
  for (std::size_t i = 0; i < whole.operators.size(); ++i) {
    const Operator &of_whole = whole.operators[i], &of_half = halves.operators[i];
    CHECK(of_whole.name == of_half.name);
    if (of_whole.layer < 0) continue;
    const bool is_attention = of_whole.name == "input_norm" || of_whole.name == "qkv" ||
                              of_whole.name.starts_with("core_") || of_whole.name.starts_with("attention_");
    CHECK(of_half.layer == 2 * of_whole.layer + (is_attention ? 0 : 1));
  }
  CHECK(model_flops(whole) == model_flops(halves));
  const Graph experts = moe_graph(
      "{model_type: gpt, num_layers: 2, num_experts: 8, hybrid_override_pattern: \"*E\", " + shape + "}");
  CHECK(moe_operator(experts, "router", 1).layer == 1);
  for (const Operator& op : experts.operators) CHECK(op.name != "fc1");
}

TEST_CASE(
    "experts hold the even load, padded to whole rows on each rank, or that times the capacity factor") {
  // 8 ranks x 1 sequence x 500 tokens x 2 experts each / 8 experts = 1000 rows; x 1.25 = 1250, padded 1256.
  const std::string mixtral = "{from: mixtral-8x7b, num_hidden_layers: 2}";
  const Graph dropless = moe_graph(mixtral, "{}", 500);
  const Graph dropping = moe_graph(mixtral, "{capacity_factor: 1.25}", 500);
  CHECK(dropless.dimensions[dropless.dimension("capacity")].padded_size == 1000);
  CHECK(dropping.dimensions[dropping.dimension("capacity")].padded_size == 1256);
  CHECK(model_flops(dropping) == model_flops(dropless));
  CHECK(operator_flops(dropping, moe_operator(dropping, "expert_fc1"), Extents::padded).forward ==
        Approx(1.256 *
               operator_flops(dropless, moe_operator(dropless, "expert_fc1"), Extents::padded).forward));
}

TEST_CASE("experts' FLOPs are those of the routed tokens, to the row") {
  // 8 x 501 tokens x 2 experts, each 3 products of 4096 x 14336: no expert count divides 8016 rows.
  const Graph graph = moe_graph("{from: mixtral-8x7b, num_hidden_layers: 1}", "{}", 501);
  const double up = operator_flops(graph, moe_operator(graph, "expert_fc1"), Extents::unpadded).forward;
  const double down = operator_flops(graph, moe_operator(graph, "expert_fc2"), Extents::unpadded).forward;
  CHECK(up + down == Approx(2.0 * 8 * 501 * 2 * 3 * 4096 * 14336).epsilon(1e-12));
}

TEST_CASE("experts' backward pass: tokens' gradients are gathered, probabilities' made beside the rows'") {
  const Graph graph = moe_graph("{from: mixtral-8x7b, num_hidden_layers: 1}");
  const std::vector<BackwardStep> dispatch = backward_steps(graph, moe_operator(graph, "dispatch"));
  REQUIRE(dispatch.size() == 1);
  CHECK(dispatch[0].opcode == Opcode::scatter);
  CHECK(dispatch[0].gradients_of == std::vector<std::uint8_t>{0});
  const std::vector<BackwardStep> combine = backward_steps(graph, moe_operator(graph, "combine"));
  REQUIRE(combine.size() == 1);
  CHECK(combine[0].gradients_of == std::vector<std::uint8_t>{0, 1});
  CHECK(!combine[0].weight);
  const std::vector<BackwardStep> route = backward_steps(graph, moe_operator(graph, "route"));
  REQUIRE(route.size() == 1);
  CHECK(route[0].opcode == Opcode::route_backward);
  CHECK(route[0].gradients_of == std::vector<std::uint8_t>{0});
}

}  // namespace
}  // namespace simrun
