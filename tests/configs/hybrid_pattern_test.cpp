#include <catch2/catch.hpp>

#include "small_job.h"

// Megatron-LM's hybrid_override_pattern.
using namespace simrun;
using namespace simrun::test;

namespace {

std::string with_pattern(const std::string& pattern, const std::string& more = "") {
  return edited(small_job, "num_layers: 8", "num_layers: 4\n  hybrid_override_pattern: " + pattern + more);
}

const std::string four_ranks = "tensor_model_parallel_size: 4";
const std::string four_experts = "\n  num_experts: 4";

}  // namespace

TEST_CASE("a pattern says of every layer whether it is attention, an MLP or experts") {
  const Job dense = load(with_pattern("\"*-*-\""));
  CHECK(dense.model.layer_contents == std::vector<LayerContent>{LayerContent::attention, LayerContent::mlp,
                                                                LayerContent::attention, LayerContent::mlp});
  const Job experts = load(with_pattern("\"*E*-\"", four_experts));
  CHECK(experts.model.layer_contents == dense.model.layer_contents);
  CHECK(experts.model.experts.layers == std::vector<bool>{false, true, false, false});
  CHECK(experts.model.ffn_hidden_size > 0);
  CHECK(load(small_job).model.layer_contents.empty());
}

TEST_CASE("a pattern's mistake has its own column") {
  const auto problem = [](const std::string& text) { return problems_of(text).at(0); };
  const int column = problem(with_pattern("\"x*-*\"")).position.column;
  const Diagnostic last = problem(with_pattern("\"*-*x\""));
  CHECK(last.message == "'hybrid_override_pattern': 'x' is no layer");
  CHECK(last.position.column == column + 3);
  CHECK(problem(with_pattern("\"*-*E\"")).message ==
        "'hybrid_override_pattern': layers of experts, and no num_experts");
  CHECK(problem(with_pattern("\"*-*-\"", four_experts)).message ==
        "'hybrid_override_pattern': num_experts, and no layer has them");
  CHECK(problem(with_pattern("\"\"")).message == "'hybrid_override_pattern' names no layer");
  CHECK(problem(with_pattern("\"*-*\"")).message == "hybrid_override_pattern has 3 layers, num_layers is 4");
  CHECK(problem(with_pattern("\"*E*E\"", four_experts + "\n  moe_layer_freq: 2")).message ==
        "moe_layer_freq beside hybrid_override_pattern: the pattern says which layers have experts");
}

TEST_CASE("layers of a hybrid that predict further tokens have a pattern of their own") {
  const std::string further = "\n  mtp_num_layers: 1", pattern = "\n  mtp_hybrid_override_pattern: \"*E\"";
  const ModelConfig model = load(with_pattern("\"*E*-\"", four_experts + further + pattern)).model;
  CHECK(model.further_layers == std::vector<LayerKind>{{LayerContent::attention}, {LayerContent::mlp, true}});
  CHECK(model.layer_contents.size() == 4);
  CHECK(problems_of(with_pattern("\"*-*-\"", further)).at(0).message ==
        "mtp_num_layers beside hybrid_override_pattern: layers that predict further tokens have a pattern of "
        "their own");
  CHECK(problems_of(with_pattern("\"*E*-\"", four_experts + pattern)).at(0).message ==
        "mtp_hybrid_override_pattern, and no mtp_num_layers");
  CHECK(problems_of(edited(small_job, "num_layers: 8", "num_layers: 8" + further + pattern)).at(0).message ==
        "mtp_hybrid_override_pattern without hybrid_override_pattern");
}

TEST_CASE("Mamba layers have Megatron-LM's sizes where the job does not say theirs") {
  const ModelConfig model = load(with_pattern("\"*-M-\"")).model;
  CHECK(model.layer_contents[2] == LayerContent::mamba);
  CHECK(model.mamba.state_dim == 128);
  CHECK(model.mamba.head_dim == 64);
  CHECK(model.mamba.num_groups == 8);
  CHECK(model.mamba.inner_size() == 2 * model.hidden_size);
  const std::string sizes =
      "\n  mamba_num_heads: 6\n  mamba_head_dim: 10\n  mamba_state_dim: 7\n  mamba_num_groups: 2";
  const ModelConfig own =
      load(edited(with_pattern("\"*-M-\"", sizes), four_ranks, "tensor_model_parallel_size: 2")).model;
  CHECK(own.mamba == MambaConfig{6, 10, 7, 2});
  CHECK_FALSE(load(with_pattern("\"*-*-\"")).model.mamba.on());
}

TEST_CASE("what Mamba layers ask for is refused at its key") {
  const auto messages = [](const std::string& text) {
    std::vector<std::string> all;
    for (const Diagnostic& problem : problems_of(text)) all.push_back(problem.message);
    return all;
  };
  using Messages = std::vector<std::string>;
  CHECK(messages(with_pattern("\"*-*-\"", "\n  mamba_state_dim: 64")) ==
        Messages{"mamba_state_dim, and no layer is Mamba's"});
  CHECK(messages(with_pattern("\"*-M-\"", "\n  mamba_num_heads: 6\n  mamba_num_groups: 4")) ==
        Messages{"6 Mamba heads do not split into 4 groups"});
  const std::string groups = with_pattern("\"*-M-\"", "\n  mamba_num_heads: 6\n  mamba_num_groups: 3");
  CHECK(messages(groups) == Messages{"3 groups of Mamba heads do not split into tensor parallel 4"});
  CHECK(messages(edited(groups, four_ranks, "context_parallel_size: 2")) ==
        Messages{"3 groups of Mamba heads of a tensor-parallel rank (3 / 1) do not split over 2 "
                 "context-parallel ranks"});
}

TEST_CASE("a key of Mamba layers, or of further ones, that is out of place is told by its line") {
  // simrun, model, model_type, num_layers and the pattern are lines 1 to 5.
  CHECK(problems_of(with_pattern("\"*-*-\"", "\n  mamba_state_dim: 64")).at(0).position.line == 6);
  CHECK(problems_of(with_pattern("\"*-*-\"", "\n  mtp_num_layers: 1")).at(0).position.line == 6);
  CHECK(problems_of(with_pattern("\"*E*-\"", four_experts + "\n  moe_layer_freq: 2")).at(0).position.line ==
        7);
  CHECK(problems_of(edited(small_job, "num_layers: 8", "num_layers: 8\n  mtp_hybrid_override_pattern: \"*\""))
            .at(0)
            .position.line == 5);
}

TEST_CASE("one mistake of a pattern is the only thing that is said of its Mamba layers") {
  const std::string sizes = "\n  mamba_num_heads: 8\n  mamba_head_dim: 8\n  mamba_state_dim: 8";
  CHECK(problems_of(with_pattern("\"M-x-\"", sizes)).size() == 1);
  CHECK(problems_of(with_pattern("\"\"", sizes)).size() == 1);
  const std::string none = with_pattern("\"*E*-\"", four_experts +
                                                        "\n  mtp_num_layers: 0\n  "
                                                        "mtp_hybrid_override_pattern: \"M\"");
  CHECK(problems_of(none).at(0).message == "mtp_hybrid_override_pattern, and no mtp_num_layers");
}

TEST_CASE("Hugging Face's nemotron_h is Megatron-LM's hybrid") {
  const auto model = [](const std::string& keys) {
    return load_job_text("simrun: 1\nmodel: " + keys +
                             "\ntraining: {seq_length: 512, micro_batch_size: 1, global_batch_size: 8, "
                             "precision: bf16}\ncluster: {from: dgx_h100, nodes: 1}\n",
                         "job.yaml", with_presets())
        .job.model;
  };
  ModelConfig theirs = model(
      "{model_type: nemotron_h, architectures: [NemotronHForCausalLM], num_hidden_layers: 52, "
      "hidden_size: 2688, intermediate_size: 1856, num_attention_heads: 32, num_key_value_heads: 2, "
      "head_dim: 128, vocab_size: 131072, mlp_hidden_act: relu2, layer_norm_epsilon: 1e-5, "
      "hybrid_override_pattern: MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME, ssm_state_size: 128, "
      "mamba_num_heads: 64, mamba_head_dim: 64, n_groups: 8, conv_kernel: 4, chunk_size: 128, expand: 2, "
      "n_routed_experts: 128, num_experts_per_tok: 6, moe_intermediate_size: 1856, n_shared_experts: 1, "
      "moe_shared_expert_intermediate_size: 3712, routed_scaling_factor: 2.5, norm_topk_prob: true, "
      "n_group: 1, topk_group: 1, tie_word_embeddings: false, use_bias: false}");
  const ModelConfig ours = model("{from: nemotron3-nano-30b-a3b}");
  CHECK(theirs.layer_contents == ours.layer_contents);
  CHECK(theirs.mamba == ours.mamba);
  theirs.experts.balance_loss = ours.experts.balance_loss;  // of the training, not of the model
  CHECK(theirs.experts == ours.experts);
  theirs.model_type = ours.model_type;
  theirs.experts = ours.experts;
  CHECK(theirs == ours);
}

TEST_CASE("nemotron_h of later versions lists its layers in words") {
  const auto text = [](const std::string& layers) {
    return "simrun: 1\nmodel: {model_type: nemotron_h, num_hidden_layers: 4, hidden_size: 64, "
           "intermediate_size: 64, num_attention_heads: 4, vocab_size: 256, ssm_state_size: 16, "
           "mamba_num_heads: 8, mamba_head_dim: 16, n_groups: 4, n_routed_experts: 4, num_experts_per_tok: "
           "2, moe_intermediate_size: 8, num_nextn_predict_layers: 1, n_shared_experts: 0, " +
           layers +
           "}\ntraining: {seq_length: 512, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
           "cluster: {from: dgx_h100, nodes: 1}\n";
  };
  const ModelConfig listed = load(text("layers_block_type: [mamba, moe, attention, mlp]")).model;
  const ModelConfig written =
      load(text("hybrid_override_pattern: \"ME*-\", mtp_hybrid_override_pattern: \"*E\"")).model;
  CHECK(listed == written);  // without a list of theirs further layers are attention and experts
  const ModelConfig further = load(text("layers_block_type: [mamba, moe, attention, mlp], "
                                        "mtp_layers_block_type: [mamba]"))
                                  .model;
  REQUIRE(further.further_layers.size() == 1);
  CHECK(further.further_layers[0].content == LayerContent::mamba);
  CHECK(problems_of(text("layers_block_type: [mamba, moe, hybrid, mlp]")).at(0).message.find("hybrid") !=
        std::string::npos);
  CHECK(problems_of(text("layers_block_type: [mamba, moe]")).at(0).message ==
        "layers_block_type has 2 layers, num_layers is 4");
}

TEST_CASE("a pattern is printed as it was written, and loads again") {
  const LoadedJob loaded = load_job_text(with_pattern("\"*E*-\"", four_experts), "job.yaml", with_presets());
  CHECK(load_job_text(loaded.effective_yaml, "job.yaml", LoadOptions{}).job == loaded.job);
}

TEST_CASE("what nemotron_h says that is not modelled, or leaves out, is refused at its key") {
  const auto told = [](const std::string& keys) {
    const std::string text =
        "simrun: 1\nmodel: {model_type: nemotron_h, num_hidden_layers: 2, hidden_size: 64, "
        "intermediate_size: "
        "64, num_attention_heads: 4, vocab_size: 256, ssm_state_size: 16, mamba_num_heads: 8, "
        "mamba_head_dim: "
        "16, n_groups: 4" +
        keys +
        "}\ntraining: {seq_length: 512, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
        "cluster: {from: dgx_h100, nodes: 1}\n";
    std::vector<std::string> all;
    for (const Diagnostic& problem : problems_of(text)) all.push_back(problem.message);
    return all;
  };
  using Messages = std::vector<std::string>;
  const std::string layers = ", hybrid_override_pattern: \"M*\"";
  CHECK(told(layers).empty());
  CHECK(told(layers + ", conv_kernel: 4, chunk_size: 128, use_conv_bias: true, mamba_hidden_act: silu")
            .empty());
  CHECK(told(layers + ", chunk_size: 256") ==
        Messages{"chunk_size is 128 in the Mamba layers that are modelled"});
  CHECK(told(layers + ", mamba_hidden_act: relu") ==
        Messages{"mamba_hidden_act is silu in the Mamba layers that are modelled"});
  CHECK(told(", hybrid_override_pattern: \"M*\", n_routed_experts: 4, num_experts_per_tok: 2, "
             "moe_intermediate_size: 8, n_shared_experts: 1") ==
        Messages{"missing required key 'moe_shared_expert_intermediate_size' in 'model'",
                 "'hybrid_override_pattern': num_experts, and no layer has them"});
  CHECK(told("") == Messages{"'hybrid_override_pattern' names no layer"});
}

TEST_CASE("nemotron_h whose only Mamba layers predict a further token has Mamba layers") {
  const Job job = load(
      "simrun: 1\nmodel: {model_type: nemotron_h, num_hidden_layers: 2, hidden_size: 64, intermediate_size: "
      "64, "
      "num_attention_heads: 4, vocab_size: 256, hybrid_override_pattern: \"*-\", num_nextn_predict_layers: "
      "1, "
      "mtp_hybrid_override_pattern: M, ssm_state_size: 16, mamba_num_heads: 8, mamba_head_dim: 16, n_groups: "
      "4}\n"
      "training: {seq_length: 512, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
      "cluster: {from: dgx_h100, nodes: 1}\n");
  CHECK(job.model.mamba == MambaConfig{8, 16, 16, 4});
  CHECK(job.model.head_dim == 128);
}
