// Flags of Megatron-LM whose value is that of one key of a job.
#include <iterator>

#include "configs/megatron_flags.h"

namespace simrun {
namespace {

constexpr FlagKey value_keys[] = {
    {"--num-layers", "model.num_layers"},
    {"--hidden-size", "model.hidden_size"},
    {"--ffn-hidden-size", "model.ffn_hidden_size"},
    {"--num-attention-heads", "model.num_attention_heads"},
    {"--kv-channels", "model.kv_channels"},
    {"--max-position-embeddings", "model.max_position_embeddings"},
    {"--normalization", "model.normalization"},
    {"--norm-epsilon", "model.norm_epsilon"},
    {"--rotary-base", "model.rotary_base"},
    {"--rotary-percent", "model.rotary_percent"},
    {"--no-rope-freq", "model.no_rope_freq"},
    {"--q-lora-rank", "model.q_lora_rank"},
    {"--kv-lora-rank", "model.kv_lora_rank"},
    {"--qk-head-dim", "model.qk_head_dim"},
    {"--qk-pos-emb-head-dim", "model.qk_pos_emb_head_dim"},
    {"--v-head-dim", "model.v_head_dim"},
    {"--mtp-num-layers", "model.mtp_num_layers"},
    {"--mtp-hybrid-override-pattern", "model.mtp_hybrid_override_pattern"},
    {"--mamba-state-dim", "model.mamba_state_dim"},
    {"--mamba-head-dim", "model.mamba_head_dim"},
    {"--mamba-num-groups", "model.mamba_num_groups"},
    {"--mamba-num-heads", "model.mamba_num_heads"},
    {"--experimental-attention-variant", "model.experimental_attention_variant"},
    {"--linear-attention-freq", "model.linear_attention_freq"},
    {"--linear-conv-kernel-dim", "model.linear_conv_kernel_dim"},
    {"--linear-key-head-dim", "model.linear_key_head_dim"},
    {"--linear-value-head-dim", "model.linear_value_head_dim"},
    {"--linear-num-key-heads", "model.linear_num_key_heads"},
    {"--linear-num-value-heads", "model.linear_num_value_heads"},
    {"--num-experts", "model.num_experts"},
    {"--moe-router-topk", "model.moe_router_topk"},
    {"--moe-ffn-hidden-size", "model.moe_ffn_hidden_size"},
    {"--moe-latent-size", "model.moe_latent_size"},
    {"--moe-shared-expert-intermediate-size", "model.moe_shared_expert_intermediate_size"},
    {"--moe-router-score-function", "model.moe_router_score_function"},
    {"--moe-router-num-groups", "model.moe_router_num_groups"},
    {"--moe-router-group-topk", "model.moe_router_group_topk"},
    {"--moe-router-topk-scaling-factor", "model.moe_router_topk_scaling_factor"},
    {"--moe-router-load-balancing-type", "model.moe_router_load_balancing_type"},
    {"--moe-aux-loss-coeff", "model.moe_aux_loss_coeff"},
    {"--attention-dropout", "training.attention_dropout"},
    {"--hidden-dropout", "training.hidden_dropout"},
    {"--seq-length", "training.seq_length"},
    {"--micro-batch-size", "training.micro_batch_size"},
    {"--global-batch-size", "training.global_batch_size"},
    {"--tensor-model-parallel-size", "parallelism.tensor_model_parallel_size"},
    {"--context-parallel-size", "parallelism.context_parallel_size"},
    {"--pipeline-model-parallel-size", "parallelism.pipeline_model_parallel_size"},
    {"--expert-model-parallel-size", "parallelism.expert_model_parallel_size"},
    {"--expert-tensor-parallel-size", "parallelism.expert_tensor_parallel_size"},
    {"--microbatch-group-size-per-virtual-pipeline-stage", "parallelism.microbatch_group_size_per_vp_stage"},
    {"--moe-expert-capacity-factor", "moe.capacity_factor"},
    {"--lr", "optimizer.lr"},
    {"--weight-decay", "optimizer.weight_decay"},
    {"--adam-beta1", "optimizer.adam_beta1"},
    {"--adam-beta2", "optimizer.adam_beta2"},
    {"--adam-eps", "optimizer.adam_eps"},
    {"--sgd-momentum", "optimizer.sgd_momentum"},
    {"--muon-momentum", "optimizer.muon_momentum"},
    {"--clip-grad", "optimizer.clip_grad"},
    {"--ddp-bucket-size", "optimizer.bucket_size"},
    {"--num-distributed-optimizer-instances", "optimizer.num_distributed_optimizer_instances"},
    {"--optimizer-offload-fraction", "offload.optimizer_fraction"}};

}  // namespace

const std::vector<FlagKey>& megatron_value_keys() {
  static const std::vector<FlagKey> keys(std::begin(value_keys), std::end(value_keys));
  return keys;
}

const std::vector<FlagKey>& megatron_switch_keys() {
  static const std::vector<FlagKey> keys = {
      {"--swiglu", "model.swiglu"},
      {"--squared-relu", "model.squared_relu"},
      {"--disable-bias-linear", "model.disable_bias_linear"},
      {"--add-qkv-bias", "model.add_qkv_bias"},
      {"--untie-embeddings-and-output-weights", "model.untie_embeddings_and_output_weights"},
      {"--qk-layernorm", "model.qk_layernorm"},
      {"--multi-latent-attention", "model.multi_latent_attention"},
      {"--attention-output-gate", "model.attention_output_gate"},
      {"--moe-shared-expert-gate", "model.moe_shared_expert_gate"},
      {"--moe-router-pre-softmax", "model.moe_router_pre_softmax"},
      {"--moe-router-enable-expert-bias", "model.moe_router_enable_expert_bias"},
      {"--fp8-param-gather", "training.fp8_param_gather"},
      {"--sequence-parallel", "parallelism.sequence_parallel"},
      {"--overlap-grad-reduce", "optimizer.overlap_grad_reduce"},
      {"--overlap-param-gather", "optimizer.overlap_param_gather"}};
  return keys;
}

}  // namespace simrun
