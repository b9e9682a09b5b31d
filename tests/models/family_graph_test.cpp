#include <catch2/catch.hpp>

#include "models/decoder.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

Graph graph_of(const std::string& model, const std::string& training = "") {
  return decoder_graph(job_from("simrun: 1\nmodel: " + model +
                                "\ntraining: {seq_length: 512, micro_batch_size: 1, global_batch_size: 8, "
                                "precision: bf16" +
                                training + "}\ncluster: {from: dgx_h100, nodes: 1}\n"));
}

// Names of the operators of one layer (-1: outside the layers), in order.
std::vector<std::string> operators_of(const Graph& graph, std::int32_t layer) {
  std::vector<std::string> names;
  for (const Operator& op : graph.operators)
    if (op.layer == layer) names.push_back(op.name);
  return names;
}

const Operator& find(const Graph& graph, const std::string& name, std::int32_t layer) {
  for (const Operator& op : graph.operators)
    if (op.layer == layer && op.name == name) return op;
  throw std::logic_error("no operator " + name);
}

using Names = std::vector<std::string>;

TEST_CASE("GPT-NeoX: attention and MLP read the same x, each through a norm of its own") {
  const Graph graph = graph_of("{from: gpt-neox-20b, num_hidden_layers: 2}");
  CHECK(operators_of(graph, 1) == Names{"input_norm", "qkv", "rope", "core_attention", "attention_projection",
                                        "mlp_norm", "fc1", "mlp_activation", "fc2", "branch_sum", "mlp_add"});
  const TensorId x = find(graph, "mlp_add", 0).outputs[0];
  CHECK(find(graph, "input_norm", 1).inputs[0] == x);
  CHECK(find(graph, "mlp_norm", 1).inputs[0] == x);
  // branch sum, both biases, residual
  CHECK(find(graph, "mlp_add", 1).inputs.size() == 4);
  CHECK(find(graph, "mlp_add", 1).inputs.back() == x);
  // Dropout takes each branch by itself.
  const Graph dropped = graph_of("{from: gpt-neox-20b, num_hidden_layers: 2, hidden_dropout: 0.1}");
  CHECK(find(dropped, "mlp_add", 1).inputs.back() == find(dropped, "attention_add", 1).outputs[0]);
  const Graph serial = graph_of("{from: gpt-neox-20b, num_hidden_layers: 2, use_parallel_residual: false}");
  CHECK(find(serial, "mlp_norm", 1).inputs[0] == find(serial, "attention_add", 1).outputs[0]);
}

TEST_CASE("Gemma 2: norms before and behind, each residual added to the second; every other layer a window") {
  const Graph graph = graph_of("{from: gemma2-9b, num_hidden_layers: 3}");
  CHECK(operators_of(graph, 0) == Names{"input_norm", "qkv", "rope", "core_attention", "attention_projection",
                                        "attention_output_norm", "attention_add", "mlp_norm", "fc1",
                                        "mlp_activation", "fc2", "mlp_output_norm", "mlp_add"});
  CHECK(find(graph, "attention_add", 0).inputs ==
        std::vector<TensorId>{find(graph, "attention_output_norm", 0).outputs[0],
                              find(graph, "embedding_scale", -1).outputs[0]});
  CHECK(find(graph, "mlp_activation", 0).function == Function::geglu);
  CHECK(find(graph, "core_attention", 0).causal == CausalMask{true, 4096});
  CHECK(find(graph, "core_attention", 1).causal == CausalMask{true, 0});
  CHECK(find(graph, "core_attention", 2).causal == CausalMask{true, 4096});
  CHECK(find(graph, "core_attention", 0).soft_cap == 50);
  CHECK(find(graph, "logits_soft_cap", -1).soft_cap == 30);
  // A bias between product and norm belongs to the product.
  const Graph biased = graph_of("{from: gemma2-9b, num_hidden_layers: 1, attention_bias: true}");
  CHECK(find(biased, "attention_projection", 0).inputs.size() == 3);
  CHECK(find(biased, "attention_add", 0).inputs.size() == 2);
}

TEST_CASE("BLOOM: a norm behind the embedding, no position operator, no dropout of the embedding") {
  const Graph graph = graph_of("{from: bloom-7b1, n_layer: 1, hidden_dropout: 0.1}");
  CHECK(operators_of(graph, -1) == Names{"tokens", "word_embedding", "embedding_norm", "final_norm", "logits",
                                         "logits_fp32", "labels", "logits_max", "cross_entropy", "loss"});
  CHECK(operators_of(graph, 0) == Names{"input_norm", "qkv", "core_attention", "attention_projection",
                                        "attention_add", "mlp_norm", "fc1", "mlp_activation", "fc2",
                                        "mlp_add"});
}

TEST_CASE("OPT: two rows more than positions, and ReLU, whose backward pass reads its output only") {
  const Graph graph = graph_of("{from: opt-1.3b, num_hidden_layers: 1}");
  CHECK(graph.dimensions[graph.dimension("positions")].size == 2050);
  CHECK(find(graph, "mlp_activation", 0).function == Function::relu);
}

TEST_CASE("post-norm layers: the norm is behind the addition, and no final norm follows") {
  const Graph graph = graph_of("{from: opt-1.3b, num_hidden_layers: 1, do_layer_norm_before: false}");
  CHECK(operators_of(graph, 0) == Names{"qkv", "core_attention", "attention_projection", "attention_add",
                                        "input_norm", "fc1", "mlp_activation", "fc2", "mlp_add", "mlp_norm"});
  CHECK(find(graph, "logits", -1).inputs[0] == find(graph, "mlp_norm", 0).outputs[0]);
}

TEST_CASE("Qwen3: queries and keys are normalised head by head, before the rotation") {
  const Graph graph = graph_of("{from: qwen3-8b, num_hidden_layers: 1}");
  const Operator& norm = find(graph, "qk_norm", 0);
  CHECK(norm.inputs[0] == find(graph, "qkv", 0).outputs[0]);
  CHECK(find(graph, "rope", 0).inputs[0] == norm.outputs[0]);
  CHECK(elements(graph, graph.tensors[norm.inputs[1]]) == 256);
}

TEST_CASE("Command R: one norm for attention and MLP; a full layer has no rotation, logits are scaled") {
  const Graph graph = graph_of("{from: command-r7b, num_hidden_layers: 4}");
  CHECK(operators_of(graph, 0) == Names{"input_norm", "qkv", "rope", "core_attention", "attention_projection",
                                        "fc1", "mlp_activation", "fc2", "branch_sum", "mlp_add"});
  CHECK(find(graph, "qkv", 0).inputs[0] == find(graph, "fc1", 0).inputs[0]);
  CHECK(operators_of(graph, 3) == Names{"input_norm", "qkv", "core_attention", "attention_projection", "fc1",
                                        "mlp_activation", "fc2", "branch_sum", "mlp_add"});
  CHECK(find(graph, "logits_scale", -1).inputs[0] == find(graph, "logits", -1).outputs[0]);
  // A weight of each of the 96 queries' and 8 keys' heads.
  const Graph plus = graph_of("{from: command-r-plus-104b, num_hidden_layers: 1}");
  CHECK(elements(plus, plus.tensors[find(plus, "qk_norm", 0).inputs[1]]) == (96 + 8) * 128);
}

TEST_CASE("Llama 4: a token's weight scales what its expert reads; chunks, and every fourth layer whole") {
  const Graph graph = graph_of("{from: llama4-scout, num_hidden_layers: 4, attention_chunk_size: 128}");
  CHECK(operators_of(graph, 0) == Names{"input_norm",
                                        "qkv",
                                        "qk_norm",
                                        "rope",
                                        "core_attention",
                                        "attention_projection",
                                        "attention_add",
                                        "mlp_norm",
                                        "router",
                                        "route",
                                        "expert_input_scale",
                                        "dispatch",
                                        "expert_fc1",
                                        "expert_activation",
                                        "expert_fc2",
                                        "combine",
                                        "shared_fc1",
                                        "shared_activation",
                                        "shared_fc2",
                                        "moe_add",
                                        "mlp_add"});
  CHECK(find(graph, "qk_norm", 0).inputs.size() == 1);  // no weight
  CHECK(find(graph, "combine", 0).inputs.size() == 2);  // rows and where they belong
  CHECK(find(graph, "core_attention", 2).causal == CausalMask{true, 128, true});
  CHECK(find(graph, "core_attention", 3).causal == CausalMask{true, 0});
  CHECK(find(graph, "query_scale", 3).outputs[0] == find(graph, "core_attention", 3).inputs[0]);
}

TEST_CASE(
    "Gemma 3 turns queries and keys of layers with a window by another base; Granite scales what it adds") {
  const Graph gemma = graph_of("{from: gemma3-27b, num_hidden_layers: 6}");
  CHECK(find(gemma, "rope", 0).constants == std::vector<double>{1e4, 1});
  CHECK(find(gemma, "rope", 5).constants == std::vector<double>{1e6, 1});
  const Graph granite = graph_of("{from: granite-3.1-8b, num_hidden_layers: 1}");
  CHECK(find(granite, "attention_output_scale", 0).constants == std::vector<double>{0.22});
  CHECK(find(granite, "mlp_add", 0).inputs[0] == find(granite, "mlp_output_scale", 0).outputs[0]);
  CHECK(find(granite, "embedding_scale", -1).constants == std::vector<double>{12});
  CHECK(find(granite, "logits_scale", -1).constants == std::vector<double>{1 / 16.0});
}

TEST_CASE("MPT: no biases anywhere, not of the norms either") {
  const Graph graph = graph_of("{from: mpt-7b, n_layers: 1}");
  for (const Tensor& tensor : graph.tensors) {
    CAPTURE(tensor.name);
    CHECK(tensor.name.find("bias") == std::string::npos);
  }
  // 3 h of qkv, h of the projection, 4 h + h of the MLP and 2 h of the norms per layer; h of the final norm.
  const Graph biased = graph_of("{from: mpt-7b, n_layers: 1, no_bias: false}");
  CHECK(count_parameters(biased) - count_parameters(graph) == 11 * 4096 + 4096);
}

}  // namespace
}  // namespace simrun
