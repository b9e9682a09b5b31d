// Gated DeltaNet layers: which they are, their sizes, what ranks must divide.
#include <catch2/catch.hpp>

#include "configs/export_megatron.h"
#include "configs/import_megatron.h"
#include "tests/configs/small_job.h"

namespace simrun::test {
namespace {

std::string next_job(const std::string& model, const std::string& parallelism = "{}",
                     const std::string& training = "") {
  return "simrun: 1\nmodel: {model_type: qwen3_next, num_hidden_layers: 4, hidden_size: 64, "
         "intermediate_size: 128, num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 512, "
         "num_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 32, "
         "shared_expert_intermediate_size: 32" +
         model + "}\ntraining: {seq_length: 64, micro_batch_size: 1, global_batch_size: 8, precision: bf16" +
         training + "}\nparallelism: " + parallelism + "\ncluster: {from: dgx_h100, nodes: 1}\n";
}

constexpr LayerContent linear = LayerContent::delta_net_and_mlp, full = LayerContent::attention_and_mlp;

}  // namespace

TEST_CASE("of Qwen3-Next every fourth layer attends, or those that layer_types says") {
  const ModelConfig model = load(next_job("")).model;
  CHECK(model.layer_contents == std::vector{linear, linear, linear, full});
  CHECK(model.delta_net == DeltaNetConfig{16, 32, 128, 128});
  CHECK(model.delta_net.convolved() == 2 * 2048 + 4096);
  CHECK(model.rotary_share == 0.25);
  CHECK(model.head_dim == 256);
  CHECK((model.attention_output_gate && model.experts.shared_gate));
  CHECK(model.qk_norm == QkNorm::of_heads);
  CHECK(load(next_job(", full_attention_interval: 2")).model.layer_contents ==
        std::vector{linear, full, linear, full});
  CHECK(load(next_job(", layer_types: [full_attention, linear_attention, linear_attention, full_attention]"))
            .model.layer_contents == std::vector{full, linear, linear, full});
}

// huggingface.co/Qwen/Qwen3.5-9B and -35B-A3B, config.json: text_config.
TEST_CASE("the text part of Qwen3.5, dense and with experts, has Qwen3-Next's layers") {
  const auto text = [](const std::string& type, const std::string& more) {
    return "simrun: 1\nmodel: {model_type: " + type +
           ", attn_output_gate: true, num_hidden_layers: 4, hidden_size: 64, num_attention_heads: 4, "
           "num_key_value_heads: 2, head_dim: 32, vocab_size: 512, full_attention_interval: 4, layer_types: "
           "[linear_attention, linear_attention, linear_attention, full_attention], linear_num_value_heads: "
           "32, "
           "mtp_num_hidden_layers: 1, rope_parameters: {mrope_interleaved: true, mrope_section: [11, 11, "
           "10], "
           "rope_theta: 10000000, partial_rotary_factor: 0.25}, " +
           more +
           "}\ntraining: {seq_length: 64, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n" +
           "cluster: {from: dgx_h100, nodes: 1}\n";
  };
  const ModelConfig dense = load(text("qwen3_5_text", "intermediate_size: 128")).model;
  CHECK(dense.layer_contents == std::vector{linear, linear, linear, full});
  CHECK(dense.rotary_share == 0.25);
  CHECK(dense.num_nextn_predict_layers == 1);
  CHECK((dense.attention_output_gate && dense.experts.count == 0));
  const std::string experts =
      "num_experts: 8, num_experts_per_tok: 2, moe_intermediate_size: 32, shared_expert_intermediate_size: "
      "32";
  const ModelConfig sparse = load(text("qwen3_5_moe_text", experts)).model;
  CHECK(sparse.ffn_hidden_size == 0);
  CHECK((sparse.experts.shared_gate && sparse.experts.normalizes_weights));
  CHECK_THAT(refusal(text("qwen3_5_moe_text", experts + ", mlp_only_layers: [1]")),
             Catch::Contains("every layer of qwen3_5_moe_text has experts"));
  CHECK_THAT(refusal(text("qwen3_5_moe", experts)),
             Catch::Contains("its text_config is model_type: qwen3_5_moe_text"));
}

TEST_CASE("without a layer that has them the sizes of Gated DeltaNet say nothing") {
  CHECK(!load(next_job(", full_attention_interval: 1, linear_num_key_heads: 3, linear_num_value_heads: 3"))
             .model.delta_net.on());
}

TEST_CASE("what is wrong with Gated DeltaNet layers is told with a way out") {
  using Catch::Contains;
  CHECK_THAT(refusal(next_job(", layer_types: [linear_attention]")),
             Contains("layer_types has 1 entries for 4 layers"));
  CHECK_THAT(refusal(next_job(", layer_types: [linear_attention, sliding_attention]")),
             Contains("layer type 'sliding_attention' is not supported yet"));
  CHECK_THAT(refusal(next_job(", linear_num_key_heads: 12")),
             Contains("32 value heads do not split over 12 key heads"));
  CHECK_THAT(refusal(next_job(", linear_conv_kernel_dim: 3")),
             Contains("linear_conv_kernel_dim is 4 in the layers that are modelled"));
  CHECK_THAT(refusal(next_job(", linear_num_key_heads: 2", "{tensor_model_parallel_size: 4}")),
             Contains("2 key heads of Gated DeltaNet do not split into tensor parallel 4"));
  CHECK_THAT(refusal(next_job(", linear_num_key_heads: 2",
                              "{tensor_model_parallel_size: 2, context_parallel_size: 2}")),
             Contains("1 key heads of Gated DeltaNet of a tensor-parallel rank (2 / 2) do not split over 2 "
                      "context-parallel ranks"));
  CHECK_THAT(refusal(next_job("", "{}", ", documents: {mean: 32, distribution: fixed}")),
             Contains("a Gated DeltaNet layer carries its state from document to document"));
}

TEST_CASE("Megatron-LM's flags of Gated DeltaNet are read, and written as they were read") {
  const std::string flags =
      "--num-layers 4 --hidden-size 64 --ffn-hidden-size 128 --num-attention-heads 4 --vocab-size 512 "
      "--seq-length 64 --max-position-embeddings 64 --micro-batch-size 1 --global-batch-size 8 --bf16 "
      "--swiglu "
      "--normalization RMSNorm --nnodes 1 --nproc-per-node 8 --disable-bias-linear --attention-output-gate "
      "--num-experts 4 --moe-shared-expert-intermediate-size 32 --moe-shared-expert-gate "
      "--experimental-attention-variant gated_delta_net --linear-num-value-heads 48 --linear-attention-freq ";
  const auto imported = [&](const std::string& freq) {
    return import_megatron(flags + freq, "run.sh", with_presets()).job;
  };
  const ModelConfig model = imported("4").model;
  CHECK(model.layer_contents == std::vector{linear, linear, linear, full});
  CHECK(model.delta_net == DeltaNetConfig{16, 48, 128, 128});
  CHECK((model.attention_output_gate && model.experts.shared_gate));
  CHECK(imported("\"[1]*2+[0,1]\"").model.layer_contents == std::vector{linear, linear, full, linear});
  for (const char* freq : {"4", "2", "([1]*4)", "([1]*2+[0]*1+[1]*1)"}) {
    CAPTURE(freq);
    const Job job = imported(std::string("'") + freq + "'");
    const std::string script = megatron_script(job, "test");
    using Catch::Contains;
    CHECK_THAT(script, Contains("--experimental-attention-variant gated_delta_net"));
    CHECK_THAT(script, Contains("--attention-output-gate") && Contains("--moe-shared-expert-gate"));
    CHECK(import_megatron(script, "run.sh", with_presets()).job.model == job.model);
  }
}

TEST_CASE(
    "sizes of linear attention without a variant, and a variant beside a hybrid's layers, are refused") {
  using Catch::Contains;
  CHECK_THAT(refusal(edited("vocab_size: 51200", "vocab_size: 51200\n  linear_num_key_heads: 8")),
             Contains("linear_num_key_heads, and no experimental_attention_variant"));
  CHECK_THAT(refusal(edited("vocab_size: 51200",
                            "vocab_size: 51200\n  hybrid_override_pattern: \"*-*-*-*-\"\n  "
                            "experimental_attention_variant: gated_delta_net")),
             Contains("experimental_attention_variant beside hybrid_override_pattern"));
  CHECK_THAT(refusal(edited("vocab_size: 51200",
                            "vocab_size: 51200\n  linear_attention_freq: \"[1,0]\"\n  "
                            "experimental_attention_variant: gated_delta_net")),
             Contains("'linear_attention_freq': 2 entries for 8 layers"));
}

}  // namespace simrun::test
