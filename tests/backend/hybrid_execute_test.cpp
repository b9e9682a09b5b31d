#include <catch2/catch.hpp>
#include <string>

#include "tests/backend/checked_run.h"
#include "tests/backend/tiny_jobs.h"

// Hybrids of Mamba-2, attention, MLPs and experts compute the same however they are split.
namespace simrun {
namespace {

const std::string hybrid_sizes =
    "hidden_size: 24, ffn_hidden_size: 40, num_attention_heads: 4, num_query_groups: 4, vocab_size: 50, "
    "mamba_num_heads: 8, mamba_head_dim: 6, mamba_state_dim: 5, mamba_num_groups: 4, squared_relu: true, "
    "normalization: RMSNorm, position_embedding_type: none, disable_bias_linear: true, "
    "untie_embeddings_and_output_weights: true, attention_dropout: 0, hidden_dropout: 0";
const std::string hybrid =
    "model: {model_type: gpt, num_layers: 8, hybrid_override_pattern: \"M-M*M-MM\", " + hybrid_sizes + "}\n";
const std::string experts =
    "model: {model_type: gpt, num_layers: 4, hybrid_override_pattern: \"ME*E\", num_experts: 4, "
    "moe_router_topk: 2, moe_ffn_hidden_size: 16, moe_shared_expert_intermediate_size: 12, "
    "moe_latent_size: 10, moe_router_score_function: sigmoid, moe_router_enable_expert_bias: true, " +
    hybrid_sizes;

struct Case {
  const char *parallelism, *optimizer = "{}", *more = "", *training = "";
  int gpus = 2;
};

}  // namespace

TEST_CASE(
    "Mamba layers split over tensor, sequence, context, pipeline and data ranks compute what one rank does") {
  for (const Case& c :
       {Case{.parallelism = "{tensor_model_parallel_size: 2}"},
        Case{.parallelism = "{context_parallel_size: 2, cp_comm_type: a2a}"},
        Case{.parallelism = "{context_parallel_size: 2}"},
        Case{.parallelism = "{tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, "
                            "sequence_parallel: true}",
        .optimizer = "{zero_stage: 1}",
        .gpus = 8}})
    check_job({hybrid.c_str(), c.parallelism, c.optimizer, c.training, c.more, c.gpus});
}

TEST_CASE("Mamba layers under every ZeRO stage, recompute and a split backward pass", "[long]") {
  for (const Case& c :
       {Case{.parallelism = "{tensor_model_parallel_size: 4, sequence_parallel: true}", .gpus = 4},
        Case{.parallelism = "{tensor_model_parallel_size: 2, context_parallel_size: 2, cp_comm_type: a2a, "
                            "sequence_parallel: true}",
        .optimizer = "{zero_stage: 2}",
        .gpus = 8},
        Case{.parallelism = "{context_parallel_size: 2, cp_comm_type: all_gather, context_parallel_layout: "
                            "contiguous}"},
        Case{.parallelism = "{tensor_model_parallel_size: 2, context_parallel_size: 2, sequence_parallel: "
                            "true}",
        .optimizer = "{zero_stage: 3}",
        .gpus = 4},
        Case{.parallelism = "{context_parallel_size: 4, cp_comm_type: a2a+p2p, "
                            "hierarchical_context_parallel_sizes: [2, 2]}",
        .gpus = 4},
        Case{.parallelism = "{}", .optimizer = "{zero_stage: 3}", .more = "recompute: {granularity: full}\n"},
        Case{.parallelism = "{pipeline_model_parallel_size: 4, pipeline_schedule: zb_h1}", .gpus = 4},
        Case{.parallelism = "{pipeline_model_parallel_size: 2, virtual_pipeline_model_parallel_size: 2}"},
        Case{.parallelism = "{tensor_model_parallel_size: 2}",
        .more = "recompute: {granularity: selective, saved: [mamba_in, core_attn]}\n"},
        Case{.parallelism = "{tensor_model_parallel_size: 2, sequence_parallel: true}",
        .more = "recompute: {granularity: selective, modules: [mamba, mlp]}\n"},
        Case{.parallelism = "{}", .training = ", lora: {rank: 3, alpha: 5, targets: [mamba_in, mamba_out]}"}})
    check_job({hybrid.c_str(), c.parallelism, c.optimizer, c.training, c.more, c.gpus});
}

TEST_CASE("experts on latent vectors beside Mamba layers, and layers of both that predict further tokens") {
  const std::string plain = experts + "}\n";
  const std::string further = experts + ", mtp_num_layers: 2, mtp_hybrid_override_pattern: \"ME\"}\n";
  check_job({.model = plain.c_str(),
             .parallelism = "{expert_model_parallel_size: 2, tensor_model_parallel_size: 2, "
                            "sequence_parallel: true}",
             .optimizer = "{zero_stage: 1}",
             .gpus = 4});
  check_job({.model = further.c_str(),
             .parallelism = "{pipeline_model_parallel_size: 2, expert_model_parallel_size: 2}",
             .gpus = 4});
}

}  // namespace simrun
