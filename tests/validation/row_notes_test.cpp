#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/validation/loaded_row.h"

// What fixed words in a row's notes make of its job (configs/validation/notes.yaml).
namespace simrun {
namespace {

TEST_CASE("row: what notes say of bf16 states, of one reduction per step and of adapters") {
  const auto optimizer = [](const char* notes, const char* zero_stage) {
    return load_row({{Column::notes, notes}, {Column::zero_stage, zero_stage}}).job.optimizer;
  };
  const OptimizerConfig pure = optimizer("fused AdamW; all states bf16", "0");
  CHECK_FALSE(pure.main_params_dtype);
  CHECK(pure.exp_avg_dtype == Dtype::bf16);
  CHECK(pure.main_grads_dtype == Dtype::bf16);
  CHECK(optimizer("fused AdamW", "0").main_params_dtype == Dtype::fp32);
  CHECK(optimizer("gradients reduced once per step", "2").no_sync);
  CHECK_FALSE(optimizer("", "2").no_sync);
  const Cells adapters = {{Column::notes, "LoRA rank 16 on attention projections, the rest frozen"}};
  const LoadedRow lora = load_row(adapters);
  REQUIRE(lora.job.training.lora);
  CHECK(lora.job.training.lora->rank == 16);
  CHECK(lora.job.training.lora->targets.size() == 2);
  CHECK_FALSE(lora.made.facts.contains("unsupported"));
  REQUIRE(load_row({{Column::notes, "LoRA"}}).job.training.lora);
  CHECK(load_row({{Column::notes, "LoRA"}}).job.training.lora->rank == 8);  // PEFT's
  for (const char* notes : {"LoRA rank=64", "LoRA (r=64)", "rank-64 LoRA", "LoRA with rank 64"}) {
    CAPTURE(notes);
    CHECK(load_row({{Column::notes, notes}}).job.training.lora->rank == 64);
  }
  CHECK_FALSE(load_row({{Column::notes, "MLA kv_lora 512"}}).job.training.lora);
  CHECK(load_row({{Column::notes, "LoRA r=16 on q,k,v,o"}}).job.training.lora->targets.size() == 2);
  const LoadedRow qlora = load_row({{Column::notes, "QLoRA rank 16"}, {Column::precision, "4-bit base"}});
  CHECK(qlora.job.training.lora->nf4_base);
  CHECK(qlora.job.training.lora->rank == 16);
  CHECK(qlora.job.training.precision == Dtype::bf16);
  CHECK_FALSE(lora.job.training.lora->nf4_base);
  const LoadOptions options = source_presets();
  KnownPresets presets(options);
  const MeasuredRow hybrid = measured_row({{Column::notes, "no LoRA"}, {Column::model, "a Mamba hybrid"}});
  CHECK(job_of_row(hybrid, load_row_rules(options), presets).facts.contains("unsupported"));
  const LoadedRow whole = load_row({{Column::notes, "full fine-tuning (not LoRA)"}});
  CHECK_FALSE(whole.made.facts.contains("unsupported"));
  CHECK_FALSE(whole.job.training.lora);
}

TEST_CASE("row: gated delta nets of Qwen3-Next, 3.5 and 3.6 are known, of other models they are not") {
  const auto known = [](const char* model, const char* layers, const char* experts) {
    return load_row({{Column::model, model},
                     {Column::layers, layers},
                     {Column::n_experts, experts},
                     {Column::hidden, ""},
                     {Column::heads, ""},
                     {Column::tp, "1"},
                     {Column::pp, "1"},
                     {Column::notes, "a hybrid with gated-delta-net layers"}})
        .job.model;
  };
  const ModelConfig sparse = known("Qwen3.6-35B-A3B (GDN hybrid MoE)", "40", "256");
  CHECK((sparse.hidden_size == 2048 && sparse.experts.count == 256 && sparse.head_dim == 256));
  CHECK(std::ranges::count(sparse.layer_contents, LayerContent::delta_net_and_mlp) == 30);
  CHECK(known("Qwen3.5-4B", "8", "").layer_contents.size() == 8);
  CHECK(known("Qwen3-Next-80B-A3B", "48", "512").experts.topk == 10);
  const LoadOptions options = source_presets();
  KnownPresets presets(options);
  const auto refused = [&](const char* model, const char* notes) {
    const MeasuredRow row = measured_row({{Column::notes, notes}, {Column::model, model}});
    return job_of_row(row, load_row_rules(options), presets).facts.at("unsupported");
  };
  CHECK(refused("GPT 22B", "with Gated DeltaNet layers") == "gated delta nets of an unknown pattern");
  CHECK(refused("Qwen3.6-4B", "") == "layers of Qwen3.5 or 3.6 of an unknown size");
  CHECK(refused("Qwen3.5-14B", "") == "layers of Qwen3.5 or 3.6 of an unknown size");
}

TEST_CASE("row: rows of experts are moved as what the notes name moves them") {
  const auto kernels = [](const char* source, const char* notes, const char* hardware = "8 x H100 80GB") {
    return load_row({{Column::source, source},
                     {Column::model, "Mixtral-8x7B"},
                     {Column::layers, "32"},
                     {Column::n_experts, "8"},
                     {Column::hidden, "4096"},
                     {Column::heads, "32"},
                     {Column::topk, "2"},
                     {Column::pp, "1"},
                     {Column::hardware, hardware},
                     {Column::notes, notes}})
        .job.framework.kernels;
  };
  CHECK(kernels("PyTorch FSDP", "").scatter_operations == 340);
  CHECK_FALSE(kernels("PyTorch FSDP", "in alternate layers").fused_permute);
  CHECK(kernels("PyTorch FSDP", "TransformerEngine layers").fused_permute);
  CHECK(kernels("Megatron-LM", "with permute fusion").fused_permute);
  CHECK_FALSE(kernels("Megatron-LM", "no permute fusion").fused_permute);
  CHECK(kernels("PyTorch FSDP", "torch 2.13").scatter_operations == 0);
  CHECK(kernels("PyTorch FSDP", "July 2026, torch 2.11").scatter_operations == 340);
  CHECK(kernels("PyTorch FSDP", "torch 2.13", "A100-80GB").scatter_operations == 340);
  CHECK(load_row({{Column::source, "a table"}, {Column::notes, "Megatron-Bridge, container nemo:26.06"}})
            .job.framework.name == "megatron_bridge");
}

TEST_CASE("row: MLPerf's parameters are gathered in fp8, those of mxfp8 in bf16") {
  const auto gathers = [](const char* precision, const char* hardware) {
    const LoadedRow row = load_row({{Column::source, "mlcommons/training_results_v5.0"},
                                    {Column::precision, precision},
                                    {Column::hardware, hardware}});
    return row.job.training.fp8.value().param_gather;
  };
  CHECK(gathers("fp8", "H100-80GB"));
  CHECK_FALSE(gathers("mxfp8", "B200"));
}

TEST_CASE("row: fp8 with scales per row is priced on the H100 and the B200 that it was measured on") {
  const auto recipe_of = [](const char* hardware) {
    return load_row({{Column::hardware, hardware},
                     {Column::precision, "fp8"},
                     {Column::notes, "use=clean; float8 rowwise"}})
        .job.training.fp8->recipe;
  };
  CHECK(recipe_of("H100 80GB") == Fp8Recipe::blockwise);
  CHECK(recipe_of("B200") == Fp8Recipe::blockwise);
  CHECK(recipe_of("H200 141GB") != Fp8Recipe::blockwise);
}

TEST_CASE("row: MaxText's dense dispatch of dropped tokens is products with masks, sequence by sequence") {
  const LoadedRow row = load_row(
      {{Column::source, "MaxText report"},
       {Column::model, "DeepSeekV3"},
       {Column::seq_len, "4096"},
       {Column::tp, "1"},
       {Column::n_experts, "8"},
       {Column::topk, "2"},
       {Column::notes, "token-dropping MoE with capacity_factor 1.25 and dense matmuls (megablox off)"}});
  CHECK(row.job.moe.capacity_factor == 1.25);
  CHECK(row.job.moe.token_dispatcher == TokenDispatcher::einsum);
  CHECK(row.job.moe.group_size == 4096);
}

TEST_CASE("row: experts of a model that learns are unequally busy, unless their balance is forced") {
  const auto imbalance = [](const char* notes) {
    return load_row({{Column::n_experts, "16"},
                     {Column::topk, "4"},
                     {Column::pp, "1"},
                     {Column::vpp, "1"},
                     {Column::ffn_hidden, "768"},
                     {Column::source, "Megatron-LM"},
                     {Column::notes, notes}})
        .job.moe.load_imbalance;
  };
  CHECK(imbalance("SFT on real samples") == 1.31);
  CHECK(imbalance("SFT recipe, forced balance") == 1);
  CHECK(imbalance("SFT on mock data") == 1);
  CHECK(imbalance("") == 1);
}

TEST_CASE("row: gated experts beside a shared one have Megatron Core's keys, a first dense layer its width") {
  const Cells cells = {{Column::model, "Hy3"},
                       {Column::layers, "8"},
                       {Column::n_experts, "16"},
                       {Column::topk, "4"},
                       {Column::ffn_hidden, "768"},
                       {Column::pp, "1"},
                       {Column::vpp, "1"},
                       {Column::precision, "bf16"},
                       {Column::notes,
                        "Megatron-Bridge, no MTP, first layer dense (FFN 6656), one shared "
                        "expert of 512, head dim 128"}};
  const ModelConfig model = load_row(cells).job.model;
  CHECK(model.model_type == "gpt");
  CHECK(model.ffn_hidden_size == 6656);
  CHECK(model.experts.count == 16);
  CHECK(model.experts.ffn_hidden_size == 768);
  CHECK(model.experts.shared_ffn_hidden_size == 512);
  CHECK(model.num_nextn_predict_layers == 0);
}

TEST_CASE("row: a card's memory may be printed with a fraction, or as what is left of it") {
  const auto gpu = [](const char* hardware) {
    return load_row({{Column::hardware, hardware}}).job.cluster.gpu.name;
  };
  CHECK(gpu("GB200 (184.30 GiB usable)") == "gb200");
  CHECK(gpu("MI350X (251.7 GiB)") == "mi350x");
  CHECK(gpu("RTX 4080-16GB") == "rtx_4080");
  CHECK(gpu("RTX 4070 Ti SUPER") == "rtx_4070_ti_super");
  CHECK(gpu("RTX 5070 Ti-16GB") == "rtx_5070_ti");
  CHECK(gpu("MI250 (one GCD, 64GB)") == "mi250");
  CHECK(gpu("MI250X (one GCD, 64GB)") == "mi250x");
}

TEST_CASE("row: CUDA graphs issue their kernels at once, where the notes do not deny them") {
  const auto dispatch = [](const std::string& notes) {
    return load_row({{Column::notes, "Megatron-Bridge; " + notes}, {Column::hardware, "GB300"}})
        .job.framework.kernels.host_dispatch_s;
  };
  CHECK(dispatch("full-iteration CUDA graph") == Approx(5e-6));
  CHECK(dispatch("TransformerEngine CUDA graphs") == Approx(5e-6));
  CHECK(dispatch("NO CUDA graph") == Approx(80e-6));
  CHECK(dispatch("CUDA graphs for the router alone") == Approx(80e-6));
}

TEST_CASE(
    "row: a loop is compiled with its loss where its notes say so, eager where they say that they do not "
    "say") {
  const auto framework = [](const char* notes) {
    return load_row({{Column::source, "a report of somebody"},
                     {Column::notes, notes},
                     {Column::hardware, "A100-40GB"},
                     {Column::n_gpus, "1"},
                     {Column::tp, "1"},
                     {Column::pp, "1"},
                     {Column::vpp, "1"},
                     {Column::dp, "1"},
                     {Column::zero_stage, ""}})
        .job.framework;
  };
  const Framework compiled = framework("own loop, torch.compile, bf16 autocast");
  CHECK(compiled.memory.logits == LogitsTensors::half);
  CHECK(compiled.kernels.fused_norm);
  const Framework eager = framework("own PyTorch loop; torch.compile and recompute not printed");
  CHECK(eager.memory.logits == LogitsTensors::fp32);
  CHECK_FALSE(eager.kernels.fused_norm);
  CHECK(framework("own PyTorch loop").kernels.fused_norm);
}

}  // namespace
TEST_CASE("row: DeepSpeed's BF16_Optimizer shards at stage 0 what stage 1 shards, fp16 does not") {
  const auto optimizer = [](const char* precision, const char* notes) {
    return load_row({{Column::zero_stage, "0"},
                     {Column::dp, "8"},
                     {Column::n_gpus, "8"},
                     {Column::precision, precision},
                     {Column::notes, notes}})
        .job.optimizer;
  };
  CHECK(optimizer("bf16", "Megatron-DeepSpeed").zero_stage == 1);
  CHECK(optimizer("bf16", "Megatron-DeepSpeed").main_grads_dtype == Dtype::fp32);
  CHECK(optimizer("fp16", "Megatron-DeepSpeed").zero_stage == 0);
  CHECK(optimizer("bf16", "Megatron-LM").zero_stage == 0);
}

TEST_CASE("row: sequences of 65,536 tokens and more have no mask made for them") {
  const auto mask = [](const char* tokens) {
    return load_row({{Column::seq_len, tokens}, {Column::notes, "Megatron-LM"}})
        .job.framework.memory.attention_mask;
  };
  CHECK(mask("32768") != AttentionMask::none);
  CHECK(mask("65536") == AttentionMask::none);
}

TEST_CASE("row: norms and activations that are recomputed by name keep every product") {
  const RecomputeConfig recompute =
      load_row({{Column::recompute, "selective"},
                {Column::notes, "Megatron-LM; LayerNorm/GeLU/dropout recomputed in backward"}})
          .job.recompute;
  CHECK(recompute.saved.size() == 5);
}

TEST_CASE("row: tensor parallelism of experts is read in every spelling, and told where it is assumed") {
  const auto row = [](const std::string& notes) {
    return load_row({{Column::source, "Megatron-LM"},
                     {Column::model, "Mixtral-8x7B"},
                     {Column::n_experts, "8"},
                     {Column::topk, "2"},
                     {Column::tp, "2"},
                     {Column::pp, "1"},
                     {Column::ep, "4"},
                     {Column::hardware, "8 x H100 80GB"},
                     {Column::notes, notes}});
  };
  for (const char* notes : {"ETP=1", "ETP1", "TP2 ETP 1 EP4", "expert tensor parallel 1", "expert TP=1",
                            "expert_tensor_parallel_size=1", "--expert-tensor-parallel-size 1"}) {
    CAPTURE(notes);
    const LoadedRow read = row(notes);
    CHECK(read.job.parallelism.expert_tensor_parallel_size == 1);
    CHECK(std::ranges::find(read.made.assumed, "expert tensor parallel 1") == read.made.assumed.end());
  }
  const LoadedRow unsaid = row("");
  CHECK(unsaid.job.parallelism.expert_tensor_parallel_size == 2);
  CHECK(std::ranges::find(unsaid.made.assumed, "expert tensor parallel 2") != unsaid.made.assumed.end());
}

TEST_CASE("row: what is compiled, gathered once and reduced in bf16 is read in the words of its flags") {
  const auto job = [](const std::string& notes, const char* source = "torchtitan") {
    return load_row({{Column::source, source},
                     {Column::tp, "1"},
                     {Column::pp, "1"},
                     {Column::zero_stage, ""},
                     {Column::notes, notes}})
        .job;
  };
  for (const char* notes : {"torch.compile not enabled", "without torch.compile", "torch.compile disabled",
                            "with compile off", "no compile; fp32 for the loss"}) {
    CAPTURE(notes);
    CHECK(job(notes).framework.name == "torchtitan_eager");
  }
  for (const char* notes :
       {"with torch.compile, loss not compiled",
        "torch.compile enabled, 12 % faster than without torch.compile",
        "FSDP2 with compile; baseline without compile 5762", "torch.compile: true, loss compile: false"}) {
    CAPTURE(notes);
    CHECK(job(notes).framework.name != "torchtitan_eager");
  }
  CHECK(job("FSDP2, reshard_after_forward=never").optimizer.reshard_after_forward == false);
  CHECK(job("FSDP2").optimizer.reshard_after_forward == true);
  CHECK(job("--grad-reduce-in-bf16", "Megatron-LM").optimizer.main_grads_dtype == Dtype::bf16);
  CHECK(job("grad_reduce_in_bf16=False", "Megatron-LM").optimizer.main_grads_dtype == Dtype::fp32);
}

}  // namespace simrun
