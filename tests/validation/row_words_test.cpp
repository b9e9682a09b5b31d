#include <catch2/catch.hpp>

#include "tests/validation/loaded_row.h"
#include "validation/size_guess.h"

// What words of 147 rows, and of 225, 226 and 181 behind them, make of a row's job
// (configs/validation/*.yaml).
namespace simrun {
namespace {

Cells on_ranks(Cells cells, const char* gpus = "8") {
  cells.insert(cells.end(),
               {{Column::tp, "1"}, {Column::pp, "1"}, {Column::vpp, "1"}, {Column::n_gpus, gpus}});
  return cells;
}

LoadedRow with_notes(const std::string& notes, const char* source = "a report of somebody",
                     const char* precision = "bf16") {
  return load_row(on_ranks({{Column::source, source},
                            {Column::notes, notes},
                            {Column::precision, precision},
                            {Column::zero_stage, ""},
                            {Column::recompute, ""}}));
}

TEST_CASE("row: cards of Turing and of workstations' Blackwell, and a B200 under a limit of 750 W") {
  const auto gpu = [](const char* hardware) {
    return load_row({{Column::hardware, hardware}, {Column::precision, "fp16"}}).job.cluster.gpu;
  };
  CHECK(gpu("RTX PRO 6000 (96GB)").name == "rtx_pro_6000");
  CHECK(gpu("Quadro RTX 8000-48GB").name == "quadro_rtx_8000");
  CHECK(gpu("TITAN-RTX-24GB").name == "titan_rtx");
  CHECK(gpu("RTX 3090 Ti-24GB").name == "rtx_3090_ti");
  CHECK(gpu("RTX 3090-24GB").name == "rtx_3090");
  CHECK(gpu("RTX 6000 Ada").name == "rtx_6000_ada");
  CHECK(gpu("RTX 2080 Ti-11GB").name == "rtx_2080_ti");
  CHECK(gpu("RTX 5080-16GB").name == "rtx_5080");
  CHECK(gpu("RTX 3080-10GB").name == "rtx_3080");
  CHECK(gpu("RTX A5000-24GB").name == "rtx_a5000");
  CHECK(gpu("MI210-64GB").name == "mi210");
  CHECK(gpu("A800-40GB").name == "a800_sxm_40gb");
  CHECK(gpu("B200 (power limited)").kernels.sustained == Approx(0.51));
  CHECK(gpu("B200").kernels.sustained == Approx(0.65));
}

TEST_CASE("row: XTuner is DeepSpeed's ZeRO-3 around Hugging Face's models with checkpoints, not InternEvo") {
  const LoadedRow row = with_notes("full fine-tuning", "InternLM/xtuner docs");
  CHECK(row.job.framework.name == "deepspeed_transformers");
  CHECK(row.job.optimizer.zero_stage == 3);
  CHECK(row.job.recompute.granularity == RecomputeGranularity::full);
  CHECK(with_notes("Pai-Megatron-Patch (Megatron-LM)", "InternLM/xtuner docs").job.optimizer.zero_stage < 3);
}

TEST_CASE("row: a model under Hugging Face's trainer is eager unless the notes say that it is compiled") {
  CHECK(with_notes("HF Trainer DDP, AdamW").job.framework.name == "pytorch_eager");
  CHECK(with_notes("HF Trainer DDP, AdamW, torch.compile, SDPA").job.framework.name == "fsdp");
  CHECK(with_notes("HF Trainer DDP, AdamW, no torch.compile").job.framework.name == "pytorch_eager");
}

TEST_CASE("row: a loop in C waits for no host and writes the gradient of half-precision logits over them") {
  const Framework framework = with_notes("llm.c; no dropout").job.framework;
  CHECK(framework.kernels.host_dispatch_s == Approx(5e-6));
  CHECK(framework.kernels.compute_slowdown == Approx(1));
  CHECK(framework.memory.logits == LogitsTensors::half);
}

TEST_CASE("row: torchtitan's script asks for expandable segments, whoever runs it") {
  CHECK(with_notes("8 GPUs", "torchtitan benchmarks").job.framework.memory.expandable_segments);
  CHECK(with_notes("torchtitan commit 1, eager").job.framework.memory.expandable_segments);
  CHECK_FALSE(with_notes("PyTorch FSDP").job.framework.memory.expandable_segments);
}

TEST_CASE("row: PyTorch 1 has no attention in one kernel unless a library brings it") {
  const auto attention = [](const char* notes) { return with_notes(notes).job.training.attention; };
  CHECK(attention("Hugging Face model, PyTorch 1.13") == AttentionKernel::unfused);
  CHECK(attention("own loop, PyTorch 1.12") == AttentionKernel::unfused);
  CHECK(attention("Hugging Face model, PyTorch 2.1") == AttentionKernel::flash);
  CHECK(attention("Hugging Face model, PyTorch 1.13 with flash-attn") == AttentionKernel::flash);
}

TEST_CASE("row: products of fp32 are those of TF32 where a container or the row says so") {
  const auto type = [](const char* notes, const char* hardware = "A100-40GB") {
    return load_row(
               on_ranks({{Column::notes, notes}, {Column::precision, "fp32"}, {Column::hardware, hardware}}))
        .job.training.precision;
  };
  CHECK(type("PyTorch 1.13 (NVIDIA container)") == Dtype::tf32);
  CHECK(type("fp32 (TF32 is the container default)") == Dtype::tf32);
  CHECK(type("baseline fp32 without TF32") == Dtype::fp32);
  CHECK(type("TF32 not mentioned") == Dtype::fp32);
  CHECK(type("PyTorch 1.13 (NVIDIA container)", "V100") == Dtype::fp32);
}

TEST_CASE("row: compiled loops fuse what their attention does to scores") {
  const auto softmax = [](const char* notes) { return with_notes(notes).job.framework.kernels.softmax; };
  CHECK(softmax("own loop, torch.compile; no flash attention") == SoftmaxKernel::fused);
  CHECK(softmax("own PyTorch loop; no flash attention") == SoftmaxKernel::autocast);
}

TEST_CASE("row: words for moments in bf16, for offload and for the batch of a step") {
  CHECK(with_notes("gradients and both Adam moments in bf16").job.optimizer.exp_avg_dtype == Dtype::bf16);
  const auto offload = [](const char* notes, const char* stage) {
    return load_row(on_ranks({{Column::notes, notes}, {Column::zero_stage, stage}})).job.offload;
  };
  CHECK(offload("DeepSpeed ZeRO-3, CPU offload yes", "3").parameters == OffloadTarget::cpu);
  CHECK(offload("DeepSpeed ZeRO-3, CPU offload no", "3").parameters == OffloadTarget::none);
  CHECK(offload("FSDP FULL_SHARD with CPU offload of parameters", "fsdp").optimizer == OffloadTarget::cpu);
  const LoadedRow batch = load_row(on_ranks(
      {{Column::notes, "which gives about 640 sequences per step (derived)"}, {Column::global_batch, ""}}));
  CHECK(batch.job.training.global_batch_size == 640);
}

TEST_CASE("row: a rank's small batch is one microbatch, and what does not fit is a divisor of it") {
  const auto micro = [](const char* batch, const char* gpus, const char* seq_len,
                        const SizeGuess& guess = {}) {
    return load_row(on_ranks({{Column::micro_batch, ""},
                              {Column::global_batch, batch},
                              {Column::seq_len, seq_len},
                              {Column::dp, gpus}},
                             gpus),
                    guess)
        .made;
  };
  const auto size = [](const RowJob& made) { return made.row[Column::micro_batch]; };
  CHECK(size(micro("128", "8", "1024")) == "16");
  CHECK(size(micro("136", "8", "1024")) == "1");  // 17 sequences are more than 16,384 tokens
  CHECK(size(micro("20", "1", "1024")) == "20");  // of the only replica twice as many
  CHECK(size(micro("40", "1", "1024")) == "2");
  const RowJob fifteen = micro("15", "1", "1024");
  CHECK(size(fifteen) == "15");
  CHECK(next_guess(fifteen)->micro_batch == 5);
}

TEST_CASE("row: MaxText's capacity factor, and experts over what its sharding leaves of the mesh") {
  const LoadedRow row = load_row({{Column::source, "a blog on JAX with MaxText"},
                                  {Column::notes, "capacity-factor token dropping (cf1.25); FSDP=8 stated"},
                                  {Column::n_gpus, "64"},
                                  {Column::tp, ""},
                                  {Column::pp, ""},
                                  {Column::n_experts, "16"},
                                  {Column::topk, "2"},
                                  {Column::seq_len, "4096"},
                                  {Column::global_batch, "64"},
                                  {Column::zero_stage, "fsdp"}});
  CHECK(row.job.parallelism.expert_model_parallel_size == 8);
  CHECK(row.job.moe.capacity_factor == Approx(1.25));
}

TEST_CASE("row: heads that are exchanged by all-to-all, unless ranks are more than there are heads") {
  const auto exchange = [](const char* ranks, const char* kv_heads) {
    return load_row(on_ranks({{Column::notes, "all-to-all head sharding"},
                              {Column::cp, ranks},
                              {Column::heads, "16"},
                              {Column::kv_heads, kv_heads}},
                             "16"))
        .job.parallelism.cp_comm_type;
  };
  CHECK(exchange("4", "16") == ContextExchange::a2a);
  CHECK(exchange("16", "8") == ContextExchange::all_gather);
}

TEST_CASE("row: FLAN-T5 has two stacks, and targets of their own length") {
  const LoadedRow row =
      load_row(on_ranks({{Column::model, "FLAN-T5-XL (3B)"},
                         {Column::layers, "24"},
                         {Column::hidden, "2048"},
                         {Column::heads, "32"},
                         {Column::seq_len, "500"},
                         {Column::notes, "source padded to 500 and target to 129 tokens"}}));
  CHECK(row.job.model.model_type == "t5");
  CHECK(row.job.training.decoder_seq_length == 129);
}

TEST_CASE("row: nodes of four GH200 leave their GPUs less power than an H100 has") {
  const auto kept = [](const char* hardware) {
    return load_row(on_ranks({{Column::hardware, hardware}, {Column::gpus_per_node, "4"}}))
        .job.cluster.gpu.kernels.sustained;
  };
  CHECK(kept("GH200-96GB") == Approx(0.747));
  CHECK(kept("H100-80GB") == Approx(0.84));
}

TEST_CASE("row: Liger's kernels take head and loss in pieces, one of its norms alone does not") {
  const FrameworkMemory pieces =
      with_notes("PyTorch FSDP; Liger kernels, flash attention").job.framework.memory;
  CHECK(pieces.cross_entropy_chunks == 32);
  CHECK(pieces.logits == LogitsTensors::half);
  CHECK(pieces.loss_copies == 0);
  CHECK(with_notes("Liger RMSNorm and Liger cross-entropy").job.framework.memory.cross_entropy_chunks == 1);
  CHECK(with_notes("HF trainer without Liger").job.framework.memory.cross_entropy_chunks == 1);
}

TEST_CASE("row: FSDP is eager where nobody says that it compiles or has kernels of its own") {
  const auto fuses = [](const char* notes) { return with_notes(notes).job.framework.kernels.fused_norm; };
  CHECK_FALSE(fuses("PyTorch FSDP on 80 GB H100s; BF16 baseline"));
  CHECK_FALSE(fuses("TransformerEngine FP8 linears; PyTorch FSDP on 80 GB H100s"));
  CHECK(fuses("PyTorch FSDP2, torch.compile"));
  CHECK(fuses("PyTorch FSDP with Transformer Engine FP8 layers"));
}

TEST_CASE("row: Lightning's Colossal-AI strategy is of the time before PyTorch had attention in one kernel") {
  const char* benchmark = "hpcaitech/ColossalAI-Pytorch-lightning benchmark/gpt/README.md";
  const LoadedRow row = with_notes("DDP with AMP; PyTorch Lightning", benchmark, "fp16");
  CHECK(row.job.training.attention == AttentionKernel::unfused);
  CHECK(row.made.facts.at("framework") == "pytorch_eager");
  const LoadedRow sharded = with_notes("DeepSpeed ZeRO-3, no offload; PyTorch Lightning", benchmark, "fp16");
  CHECK(sharded.job.training.attention == AttentionKernel::unfused);
  CHECK(sharded.made.facts.at("framework") == "deepspeed_transformers");
  CHECK(load_row({{Column::source, "hpcaitech/ColossalAI README.md"}}).made.source == "colossal");
}

TEST_CASE("row: what is loaded in bf16 is updated in bf16, but for autocast's loops") {
  const auto optimizer = [](const char* notes) { return with_notes(notes).job.optimizer; };
  const OptimizerConfig loaded = optimizer("full fine-tuning, torch 2.7.1+cu128, gradient checkpointing");
  CHECK_FALSE(loaded.main_params_dtype);
  CHECK(loaded.exp_avg_dtype == Dtype::bf16);
  CHECK(loaded.main_grads_dtype == Dtype::bf16);
  CHECK(optimizer("torch 2.7.1, bf16 autocast, fp32 parameters").main_params_dtype == Dtype::fp32);
  const LoadedRow replicas = load_row(on_ranks({{Column::notes, "DDP"}, {Column::zero_stage, "0"}}));
  CHECK(replicas.job.optimizer.overlap_grad_reduce);
  CHECK(replicas.job.optimizer.bucket_size * bytes_of(replicas.job.optimizer.grad_reduce_dtype) ==
        25 * 1024 * 1024);
  CHECK_FALSE(optimizer("torchtune full fine-tuning").main_params_dtype);
  const LoadedRow factored = with_notes("bf16, Adafactor, gradient checkpointing, attention sdpa");
  CHECK(factored.job.optimizer.name == UpdateRule::adafactor);
  CHECK_FALSE(factored.job.optimizer.main_params_dtype);
}

TEST_CASE("row: notes say what gradients add up in, and Megatron-LM in NeMo's container is Megatron-LM") {
  const auto row = [](const std::string& notes) {
    return load_row(on_ranks(
        {{Column::notes, "Megatron-LM in container nemo_26.04; " + notes}, {Column::hardware, "H100-80GB"}}));
  };
  CHECK(row("").made.facts.at("framework") == "megatron_core");
  CHECK(row("gradient reduction in bf16").job.optimizer.main_grads_dtype == Dtype::bf16);
  CHECK(row("bf16 with fp32 gradient accumulation and reduction").job.optimizer.main_grads_dtype ==
        Dtype::fp32);
  CHECK(with_notes("NeMo container 25.04").made.facts.at("framework") == "nemo");
}

TEST_CASE("row: what does not print its recompute computes again what its memory asks for") {
  const auto asks = [](const char* notes) {
    const RowJob made = with_notes(notes, "pytorch/torchtitan issue 1").made;
    return made.facts.contains("recompute") && made.facts.at("recompute") == "as_needed";
  };
  CHECK(asks("best batch size and activation checkpointing were searched and are not printed"));
  CHECK_FALSE(asks("use=assume"));
}

TEST_CASE("row: torchtitan's 70 B without sizes is its configuration file's, its compilation off") {
  const LoadedRow row = load_row({{Column::source, "pytorch/torchtitan issue 1185"},
                                  {Column::model, "Llama3-70B"},
                                  {Column::hardware, "H100"},
                                  {Column::n_gpus, "128"},
                                  {Column::tp, "8"},
                                  {Column::pp, "1"},
                                  {Column::layers, ""},
                                  {Column::hidden, ""},
                                  {Column::heads, ""},
                                  {Column::seq_len, ""},
                                  {Column::micro_batch, ""},
                                  {Column::global_batch, ""},
                                  {Column::notes, "vanilla TP; torch.compile not stated"}});
  CHECK(row.job.training.micro_batch_size == 8);
  CHECK(row.job.training.seq_length == 8192);
  CHECK(row.made.facts.at("framework") == "torchtitan_eager");
  CHECK(row.job.framework.kernels.blocking_tensor_parallel);
}

TEST_CASE("row: the A100 of 64 GB is Leonardo's, the H100 of 64 GB MareNostrum 5's, in nodes of four") {
  const auto cluster = [](const char* hardware) {
    return load_row({{Column::hardware, hardware},
                     {Column::gpus_per_node, "4"},
                     {Column::inter_link, "2x dual-port HDR100 IB per node"}})
        .job.cluster;
  };
  CHECK(cluster("A100-64GB (Leonardo custom)").gpu.name == "a100_sxm_64gb");
  CHECK(cluster("A100-64GB").nics_per_node == 4);
  CHECK(cluster("H100-64GB").gpu.name == "h100_sxm_64gb");
  CHECK(cluster("H100-80GB").gpu.name == "h100_sxm");
  CHECK(load_row({{Column::hardware, "MI100-32GB"}}).job.cluster.gpu.name == "mi100");
}

TEST_CASE(
    "row: moments in bf16 beside weights in fp32, some layers' activations and optimizers on the host") {
  const auto optimizer = [](const char* notes) { return with_notes(notes).job.optimizer; };
  CHECK(optimizer("Megatron-LM, bf16 optimizer moments").exp_avg_sq_dtype == Dtype::bf16);
  CHECK(optimizer("Megatron-LM, bf16 optimizer moments").main_params_dtype == Dtype::fp32);
  CHECK(optimizer("Megatron-LM, bf16 states possible").exp_avg_dtype == Dtype::fp32);
  const auto offload = [](const char* notes) { return with_notes(notes).job.offload; };
  CHECK(offload("Megatron-LM, CPU activation offload of 5 layers is on").activation_layers == 5);
  CHECK(offload("Megatron-LM, optimizer wholly on the CPU").optimizer == OffloadTarget::cpu);
  CHECK(offload("checkpointed inputs moved to the CPU").activations == OffloadTarget::cpu);
}

TEST_CASE("row: Megatron Core without Transformer Engine and apex has PyTorch's operators and optimizer") {
  const Job job = with_notes("Megatron-Core v0.14 local backend, no TE, Apex or fused kernels").job;
  CHECK(job.training.attention == AttentionKernel::unfused);
  CHECK_FALSE(job.framework.kernels.fused_norm);
  CHECK(job.framework.memory.step_bytes_per_parameter == 4);
  CHECK(with_notes("Megatron-Core v0.14").job.framework.kernels.fused_norm);
}

TEST_CASE("row: modules named in the cell are recomputed, under fp8 with the scales that let them be") {
  const auto row = [](const char* recompute, const char* precision) {
    return load_row(on_ranks({{Column::recompute, recompute},
                              {Column::ffn_hidden, "2048"},
                              {Column::n_experts, "8"},
                              {Column::topk, "2"},
                              {Column::hardware, "H100"},
                              {Column::notes, "Megatron-LM"},
                              {Column::precision, precision}}))
        .job;
  };
  CHECK(row("selective (moe_act, mlp)", "bf16").recompute.modules ==
        std::vector<std::string>{"moe_act", "mlp"});
  CHECK(row("selective", "bf16").recompute.modules == std::vector<std::string>{"core_attn"});
  CHECK(row("selective (moe_act)", "fp8").training.fp8->recipe == Fp8Recipe::tensorwise);
}

TEST_CASE("row: DeepSpeed without overlap_comm, fp8 by blocks, logits that a loop keeps or takes in tiles") {
  const auto zero_1 = [](const std::string& notes) {
    return load_row(on_ranks({{Column::notes, "DeepSpeed; " + notes}, {Column::zero_stage, "1"}}))
        .job.optimizer.overlap_grad_reduce;
  };
  CHECK_FALSE(zero_1("overlap_comm off"));
  const auto recipe = [](const char* notes) {
    return load_row(
               on_ranks({{Column::notes, notes}, {Column::hardware, "H100"}, {Column::precision, "fp8"}}))
        .job.training.fp8->recipe;
  };
  CHECK(recipe("Megatron-LM, FP8 blockwise") == Fp8Recipe::blockwise);
  CHECK(recipe("Megatron-LM, FP8 current scaling") == Fp8Recipe::tensorwise);
  const auto memory = [](const char* notes) { return with_notes(notes).job.framework.memory; };
  CHECK(memory("PyTorch FSDP, fp32 logits of the full vocabulary").loss_copies == 3);
  CHECK(memory("DeepSpeed, tiled logits and loss").cross_entropy_chunks == 64);
}

TEST_CASE("row: tensor-parallel ranks of transformers have all logits, those of Megatron-LM their part") {
  const auto gathered = [](const char* notes) {
    const auto saved =
        load_row({{Column::notes, notes}, {Column::tp, "4"}, {Column::pp, "1"}, {Column::vpp, "1"}})
            .job.framework.memory.saved;
    return saved.contains("gathered_logits") ? saved.at("gathered_logits") : 0;
  };
  CHECK(gathered("TRL SFTTrainer with Accelerate FSDP2") == 3.5);
  CHECK(gathered("Megatron-LM, weights from Hugging Face") == 0);
}

TEST_CASE("row: DeepSeek's layer of multi-token prediction is there where the notes count it") {
  const auto layers = [](const char* notes) {
    return load_row(on_ranks({{Column::model, "DeepSeek-V3 cut to 4 layers"},
                              {Column::layers, "4"},
                              {Column::hidden, "7168"},
                              {Column::heads, "128"},
                              {Column::notes, notes},
                              {Column::hardware, "B200"}}))
        .job.model.num_nextn_predict_layers;
  };
  CHECK(layers("Megatron-LM, 4 layers plus 1 MTP layer") == 1);
  CHECK(layers("Megatron-LM, 4 layers") == 0);
}

TEST_CASE("row: AuroraGPT's models have Llama's layers and two embeddings") {
  const ModelConfig model = load_row(on_ranks({{Column::model, "agpt-2b"},
                                               {Column::layers, "12"},
                                               {Column::hidden, "2048"},
                                               {Column::kv_heads, "4"},
                                               {Column::ffn_hidden, "11008"}}))
                                .job.model;
  CHECK(is_gated(model.activation));
  CHECK_FALSE(model.tie_word_embeddings);
}

}  // namespace
}  // namespace simrun
