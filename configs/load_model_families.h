#pragma once

#include "configs/load_model_keys.h"

// One function per model_type (or several of one kind): its config.json keys to ModelConfig's values.
namespace simrun {

void read_bert(const ModelKeys& keys);
void read_bloom(const ModelKeys& keys);
void read_cohere(const ModelKeys& keys);
void read_cohere2(const ModelKeys& keys);
void read_dbrx(const ModelKeys& keys);
void read_deepseek_v2(const ModelKeys& keys);
void read_deepseek_v3(const ModelKeys& keys);
void read_ernie4_5(const ModelKeys& keys);
void read_ernie4_5_moe(const ModelKeys& keys);
void read_falcon(const ModelKeys& keys);
void read_gemma(const ModelKeys& keys);
void read_gemma2(const ModelKeys& keys);
void read_gemma3_text(const ModelKeys& keys);
void read_glm(const ModelKeys& keys);
void read_glm4(const ModelKeys& keys);
void read_glm4_moe(const ModelKeys& keys);
void read_gnmt(const ModelKeys& keys);
void read_granite(const ModelKeys& keys);
void read_granitemoe(const ModelKeys& keys);
void read_granite_multipliers(const ModelKeys& keys);
void read_grok1(const ModelKeys& keys);
void read_gpt(const ModelKeys& keys);  // Megatron-LM's names
void read_gpt_attention(const ModelKeys& keys);
void read_gpt_experts(const ModelKeys& keys);  // of read_gpt and read_m6
// Megatron-LM's hybrid_override_pattern, of read_gpt_experts; false: it is not written.
bool read_gpt_pattern(const ModelKeys& keys);
void read_gpt_prediction(const ModelKeys& keys);
void read_gpt_oss(const ModelKeys& keys);
void read_gpt2(const ModelKeys& keys);
void read_gpt_neox(const ModelKeys& keys);
void read_internlm2(const ModelKeys& keys);
void read_llama(const ModelKeys& keys);
void read_llama_with_defaults(const ModelKeys& keys);  // of a nested config, which writes what differs
void read_llama4_text(const ModelKeys& keys);
void read_llava(const ModelKeys& keys);
void read_m6(const ModelKeys& keys);
void read_minimax_m2(const ModelKeys& keys);
void read_mistral(const ModelKeys& keys);
void read_mixtral(const ModelKeys& keys);
void read_mpt(const ModelKeys& keys);
void read_nemotron(const ModelKeys& keys);
void read_nemotron_h(const ModelKeys& keys);
void read_olmo(const ModelKeys& keys);
void read_olmo2(const ModelKeys& keys);
void read_olmo3(const ModelKeys& keys);
void read_olmoe(const ModelKeys& keys);
void read_opt(const ModelKeys& keys);
void read_phi(const ModelKeys& keys);
void read_phi3(const ModelKeys& keys);
void read_phimoe(const ModelKeys& keys);
void read_qwen2(const ModelKeys& keys);
void read_qwen2_moe(const ModelKeys& keys);
void read_qwen3(const ModelKeys& keys);
void read_qwen3_moe(const ModelKeys& keys);
void read_qwen3_next(const ModelKeys& keys);
void read_qwen3_5_text(const ModelKeys& keys);
void read_qwen3_5_moe_text(const ModelKeys& keys);
// Qwen's experts, but for a shared one; whether weights are normalised where the key is not written.
void read_qwen_experts(const ModelKeys& keys, bool normalizes_default);
void read_shared_expert(const ModelKeys& keys);
void read_resnet(const ModelKeys& keys);
void read_seed_oss(const ModelKeys& keys);
void read_smollm3(const ModelKeys& keys);
void read_stablelm(const ModelKeys& keys);
void read_starcoder2(const ModelKeys& keys);
void read_switch(const ModelKeys& keys);
void read_t5(const ModelKeys& keys);
void read_vgg(const ModelKeys& keys);
void read_vit(const ModelKeys& keys);
void read_wide_resnet(const ModelKeys& keys);

}  // namespace simrun
