#include <catch2/catch.hpp>

#include "models/decoder.h"
#include "models/flops.h"
#include "tests/jobs.h"

namespace simrun {
namespace {

Graph latent_graph(const std::string& model) {
  return decoder_graph(job_from("simrun: 1\nmodel: " + model +
                                "\ntraining: {seq_length: 512, micro_batch_size: 1, global_batch_size: 8, "
                                "precision: bf16}\ncluster: {from: dgx_h100, nodes: 1}\n"));
}

std::vector<std::string> names_in(const Graph& graph, std::int32_t layer) {
  std::vector<std::string> names;
  for (const Operator& op : graph.operators)
    if (op.layer == layer) names.push_back(op.name);
  return names;
}

const Operator& named(const Graph& graph, const std::string& name, std::int32_t layer = 0) {
  for (const Operator& op : graph.operators)
    if (op.layer == layer && op.name == name) return op;
  throw std::logic_error("no operator " + name);
}

using Words = std::vector<std::string>;

TEST_CASE(
    "DeepSeek-V3: queries, keys and values come from compressed vectors; three dense layers, then experts") {
  const Graph graph = latent_graph("{from: deepseek-v3, num_hidden_layers: 5}");
  const Words attention{"input_norm",    "q_down",       "q_down_norm",    "kv_down",
                        "kv_split",      "kv_down_norm", "q_up",           "kv_up",
                        "q_rope",        "kv_rope",      "core_attention", "attention_projection",
                        "attention_add", "mlp_norm"};
  Words dense = attention, sparse = attention;
  for (const char* name : {"fc1", "mlp_activation", "fc2", "mlp_add"}) dense.emplace_back(name);
  for (const char* name : {"router", "route", "dispatch", "expert_fc1", "expert_activation", "expert_fc2",
                           "combine", "shared_fc1", "shared_activation", "shared_fc2", "moe_add", "mlp_add"})
    sparse.emplace_back(name);
  CHECK(names_in(graph, 2) == dense);
  CHECK(names_in(graph, 3) == sparse);
  // Without q_lora_rank (V2-Lite) the queries come from the hidden state at once.
  const Graph lite = latent_graph("{from: deepseek-v2-lite, num_hidden_layers: 2}");
  const Operator& q_up = named(lite, "q_up");
  CHECK(elements(lite, lite.tensors[q_up.inputs[1]]) == 2048 * 16 * 192);
  CHECK(q_up.inputs[0] == named(lite, "kv_down").inputs[0]);
}

TEST_CASE("latent attention multiplies 192 elements per score and 128 per value") {
  // 2 x 512 tokens x 512 keys x 128 heads x (192 + 128), of 8 sequences.
  const Graph graph = latent_graph("{from: deepseek-v3, num_hidden_layers: 1}");
  const OperatorFlops flops = operator_flops(graph, named(graph, "core_attention"), Extents::unpadded);
  CHECK(flops.forward == 8.0 * 2 * 512 * 512 * 128 * (192 + 128));
  CHECK(flops.backward_input == 2 * flops.forward);
}

TEST_CASE(
    "multi-token prediction is a product of 2 h x h, a layer and three norms; table and head are shared") {
  // DeepSeek-V3's files on Hugging Face hold 684,489,845,504 values, the table and head of the module among
  // them once more: 671,026,419,200 + 11,610,068,224 + 2 x 129280 x 7168.
  const Graph graph = latent_graph("{from: deepseek-v3, num_nextn_predict_layers: 1}");
  CHECK(count_parameters(graph) == 684'489'845'504 - 2LL * 129280 * 7168);
  const Words names = names_in(graph, 61);
  CHECK(Words(names.begin(), names.begin() + 7) == Words{"mtp_tokens", "mtp_embedding", "mtp_embedding_norm",
                                                         "mtp_state_norm", "mtp_concat", "mtp_projection",
                                                         "input_norm"});
  CHECK(names.back() == "mlp_add");
}

}  // namespace
}  // namespace simrun
