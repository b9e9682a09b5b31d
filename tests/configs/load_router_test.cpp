#include <catch2/catch.hpp>

#include "small_job.h"

using namespace simrun;
using namespace simrun::test;

namespace {

std::string job_with_router(const std::string& model) {
  return "simrun: 1\nmodel: {" + model +
         "}\ntraining: {seq_length: 64, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
         "cluster: {from: dgx_h100, nodes: 1}\n";
}

std::string llama(const std::string& family, const std::string& more) {
  return job_with_router(
      "model_type: " + family +
      ", num_hidden_layers: 2, hidden_size: 64, intermediate_size: 96, num_attention_heads: 4, "
      "num_key_value_heads: 2, vocab_size: 128" +
      more);
}
std::string gpt(const std::string& more) {
  return job_with_router(
      "model_type: gpt, num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 128, "
      "num_experts: 8" +
      more);
}

constexpr const char* mixtral_experts = ", num_local_experts: 8, num_experts_per_tok: 2";
constexpr const char* qwen_experts = ", num_experts: 8, num_experts_per_tok: 2, moe_intermediate_size: 32";

}  // namespace

TEST_CASE("routers: what each family makes of its scores where nothing is written") {
  CHECK(load(llama("mixtral", mixtral_experts)).model.experts.normalizes_weights);
  CHECK_FALSE(load(llama("qwen3_moe", qwen_experts)).model.experts.normalizes_weights);
  CHECK(load(gpt(", moe_router_topk: 2")).model.experts.normalizes_weights);
  // Of one expert a softmax over the chosen would always be 1.
  CHECK_FALSE(load(gpt(", moe_router_topk: 1")).model.experts.normalizes_weights);
  CHECK_FALSE(load(gpt(", moe_router_pre_softmax: true")).model.experts.normalizes_weights);
  CHECK(load(gpt(", moe_router_pre_softmax: true, moe_router_score_function: sigmoid"))
            .model.experts.normalizes_weights);
  CHECK(load(llama("mixtral", mixtral_experts)).model.experts.balance_loss == 0);
}

TEST_CASE("routers: keys that are written count, and the effective config gives the same job") {
  const std::string text = gpt(
      ", moe_router_topk: 4, moe_router_num_groups: 4, moe_router_group_topk: 2, moe_aux_loss_coeff: 0.01, "
      "moe_router_topk_scaling_factor: 2.5, moe_router_pre_softmax: true");
  const LoadedJob loaded = load_job_text(text, "job.yaml", with_presets());
  const ExpertConfig& experts = loaded.job.model.experts;
  CHECK(experts.balance_loss == 0.01);
  CHECK(experts.scaling == 2.5);
  CHECK(experts.group_best == 2);
  CHECK_FALSE(experts.normalizes_weights);
  CHECK(load_job_text(loaded.effective_yaml, "job.yaml", with_presets()).job == loaded.job);
  CHECK(load(llama("qwen3_moe",
                   std::string(qwen_experts) + ", norm_topk_prob: true, router_aux_loss_coef: 0.5"))
            .model.experts.normalizes_weights);
}

TEST_CASE("routers: how the load is kept even") {
  const auto experts = [](const std::string& type) {
    return load(gpt(", moe_aux_loss_coeff: 0.01, moe_router_load_balancing_type: " + type)).model.experts;
  };
  CHECK(experts("none").balance_loss == 0);
  CHECK(experts("aux_loss").balance_loss == 0.01);
  CHECK_FALSE(experts("aux_loss").balance_by_sequence);
  CHECK(experts("seq_aux_loss").balance_by_sequence);
  CHECK(experts("seq_aux_loss").is_topk);
  CHECK_FALSE(experts("sinkhorn").is_topk);
  CHECK_FALSE(experts("global_aux_loss").is_topk);
  CHECK(refusal(gpt(", moe_router_load_balancing_type: sinkhron")).find("sinkhorn") != std::string::npos);
}

TEST_CASE("routers: groups must be equal and have enough experts; all mistakes have their place") {
  CHECK(refusal(gpt(", moe_router_num_groups: 3, moe_router_group_topk: 2"))
            .find("8 experts do not split into 3 groups") != std::string::npos);
  CHECK(refusal(gpt(", moe_router_num_groups: 2, moe_router_group_topk: 3"))
            .find("a token's experts are in 3 of 2 groups") != std::string::npos);
  CHECK(refusal(gpt(", moe_router_topk: 4, moe_router_num_groups: 8, moe_router_group_topk: 2"))
            .find("a token goes to 4 experts, and 2 of 8 groups have 2") != std::string::npos);
  CHECK(refusal(gpt(", moe_router_num_groups: 2"))
            .find("'moe_router_num_groups' says nothing without 'moe_router_group_topk'") !=
        std::string::npos);
  CHECK(refusal(gpt(", moe_aux_loss_coeff: -1")).find("moe_aux_loss_coeff") != std::string::npos);
}
