#include "configs/megatron_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "configs/diagnostics.h"

namespace simrun {
namespace {

// Read in a way of their own (configs/import_megatron*.cpp).
constexpr std::array read_flags{
    "--accumulate-allreduce-grads-in-fp32", "--account-for-embedding-in-pipeline-split",
    "--account-for-loss-in-pipeline-split", "--attention-backend", "--bf16", "--cp-comm-type",
    "--cpu-offloading-num-layers", "--data-parallel-sharding-strategy", "--decoder-first-pipeline-num-layers",
    "--decoder-last-pipeline-num-layers", "--exp-avg-dtype", "--exp-avg-sq-dtype", "--fp16", "--fp4-format",
    "--fp4-recipe", "--fp8-format", "--fp8-recipe", "--grad-reduce-in-bf16", "--group-query-attention",
    "--hierarchical-context-parallel-sizes", "--hybrid-attention-ratio", "--hybrid-layer-pattern",
    "--hybrid-mlp-ratio", "--hybrid-override-pattern", "--is-hybrid-model", "--main-grads-dtype",
    "--main-params-dtype", "--make-vocab-size-divisible-by", "--moe-enable-deepep", "--moe-layer-freq",
    "--moe-pad-expert-input-to-capacity", "--moe-token-dispatcher-type",
    "--num-layers-per-virtual-pipeline-stage", "--num-query-groups", "--num-virtual-stages-per-pipeline-rank",
    "--optimizer", "--optimizer-cpu-offload", "--overlap-moe-expert-parallel-comm",
    "--pipeline-model-parallel-layout", "--position-embedding-type", "--recompute-activations",
    "--recompute-granularity", "--recompute-method", "--recompute-modules", "--recompute-num-layers",
    "--spec", "--tokenizer-type", "--torch-fsdp2-no-reshard-after-forward", "--transformer-impl",
    "--use-distributed-optimizer", "--use-flash-attn", "--use-megatron-fsdp",
    "--use-precision-aware-optimizer", "--use-rotary-position-embeddings", "--use-torch-fsdp2",
    "--use-tp-pp-dp-mapping", "--vocab-size",
    // the launcher's
    "--nnodes", "--nproc-per-node"};

// Beginnings of the names of data, logging, checkpoints, schedules of rates, other programs.
constexpr std::array irrelevant_beginnings{"--app-tag-",
                                           "--bert-",
                                           "--biencoder-",
                                           "--ckpt-",
                                           "--config-logger-",
                                           "--data-",
                                           "--dataloader-",
                                           "--dino-",
                                           "--dist-ckpt-",
                                           "--distrib-optim-",
                                           "--distributed-",
                                           "--error-injection-",
                                           "--eval-",
                                           "--fp8-amax-",
                                           "--grpo-",
                                           "--inference-",
                                           "--inprocess-",
                                           "--langrl-",
                                           "--log-",
                                           "--lr-",
                                           "--mask-",
                                           "--master",
                                           "--max-restarts",
                                           "--mscale",
                                           "--muon-",
                                           "--node-rank",
                                           "--non-persistent-",
                                           "--one-logger-",
                                           "--profile",
                                           "--rdzv",
                                           "--rerun-",
                                           "--retriever-",
                                           "--rl-",
                                           "--save",
                                           "--sft-",
                                           "--straggler-",
                                           "--tensorboard-",
                                           "--tiktoken-",
                                           "--tokenizer-",
                                           "--train-",
                                           "--valid-",
                                           "--wandb-"};

constexpr std::array irrelevant_flags{"--adlr-autoresume",
                                      "--apply-layernorm-1p",
                                      "--apply-query-key-layer-scaling",
                                      "--async-save",
                                      "--auto-detect-ckpt-format",
                                      "--calculate-per-token-loss",
                                      "--check-for-large-grads",
                                      "--check-for-spiky-loss",
                                      "--check-weight-hash-across-dp-replicas-interval",
                                      "--ddp-average-in-collective",
                                      "--ddp-pad-buckets-for-high-nccl-busbw",
                                      "--decoupled-lr",
                                      "--decoupled-min-lr",
                                      "--disable-bf16-reduced-precision-matmul",
                                      "--disable-gloo-process-groups",
                                      "--disable-msc",
                                      "--disable-straggler-on-startup",
                                      "--embedding-init-method-std",
                                      "--enable-experimental",
                                      "--end-weight-decay",
                                      "--eod-mask-loss",
                                      "--exit-duration-in-mins",
                                      "--exit-interval",
                                      "--exit-on-missing-checkpoint",
                                      "--exit-signal-handler",
                                      "--finetune",
                                      "--fp8-interval",
                                      "--fp8-margin",
                                      "--full-validation",
                                      "--hysteresis",
                                      "--init-method-std",
                                      "--init-method-xavier-uniform",
                                      "--initial-loss-scale",
                                      "--iterations-to-skip",
                                      "--load",
                                      "--load-main-params-from-ckpt",
                                      "--local-rank",
                                      "--logging-level",
                                      "--loss-scale",
                                      "--loss-scale-window",
                                      "--manual-gc",
                                      "--manual-gc-interval",
                                      "--memory-snapshot-path",
                                      "--merge-file",
                                      "--min-loss-scale",
                                      "--min-lr",
                                      "--mock-data",
                                      "--moe-apply-probs-on-input",
                                      "--moe-grouped-gemm",
                                      "--moe-input-jitter-eps",
                                      "--moe-per-layer-logging",
                                      "--moe-router-bias-update-rate",
                                      "--moe-router-dtype",
                                      "--moe-router-force-load-balancing",
                                      "--moe-token-drop-policy",
                                      "--moe-use-upcycling",
                                      "--moe-upcycling-granularity",
                                      "--moe-z-loss-coeff",
                                      "--mtp-loss-scaling-factor",
                                      "--multiple-validation-sets",
                                      "--nccl-communicator-config-path",
                                      "--no-barrier-with-level-1-timing",
                                      "--no-check-for-nan-in-loss-and-grad",
                                      "--no-ckpt-fully-parallel-save",
                                      "--no-initialization",
                                      "--no-load-optim",
                                      "--no-load-rng",
                                      "--no-log-loss-scale-to-tensorboard",
                                      "--no-manual-gc-eval",
                                      "--no-mmap-bin-files",
                                      "--no-one-logger",
                                      "--no-save-optim",
                                      "--no-save-rng",
                                      "--num-dataset-builder-threads",
                                      "--num-workers",
                                      "--openai-gelu",
                                      "--override-opt-param-scheduler",
                                      "--override-opt_param-scheduler",
                                      "--padded-vocab-size",
                                      "--per-split-data-args-path",
                                      "--pretrained-checkpoint",
                                      "--qk-clip",
                                      "--record-memory-history",
                                      "--reset-attention-mask",
                                      "--reset-position-ids",
                                      "--rope-scaling-factor",
                                      "--rope-type",
                                      "--rotary-interleaved",
                                      "--rotary-scaling-factor",
                                      "--rotary-seq-len-interpolation-factor",
                                      "--run-workload-inspector-server",
                                      "--sample-rate",
                                      "--seed",
                                      "--skip-train",
                                      "--split",
                                      "--start-weight-decay",
                                      "--te-rng-tracker",
                                      "--test-mode",
                                      "--timing-log-level",
                                      "--timing-log-option",
                                      "--trust-remote-code",
                                      "--use-checkpoint-args",
                                      "--use-checkpoint-opt_param-scheduler",
                                      "--use-cpu-initialization",
                                      "--use-dist-ckpt",
                                      "--use-legacy-models",
                                      "--use-mcore-models",
                                      "--use-persistent-ckpt-worker",
                                      "--use-pytorch-profiler",
                                      "--use-rope-scaling",
                                      "--vocab-file",
                                      "--weight-decay-incr-style"};

struct Explained {
  const char* flag;  // a name, or the beginning of several where it ends in a dash
  const char* why;
  const char* hint = "";
};

constexpr Explained unmodelled_flags[] = {
    {"--attention-softmax-in-fp32", "the softmax of unfused attention is as the framework's kernels are"},
    {"--batch-invariant-mode", "kernels that do not depend on the batch"},
    {"--cross-entropy-fusion-impl", "a key of framework.kernels"},
    {"--cross-entropy-loss-fusion", "framework.kernels.fused_cross_entropy"},
    {"--cuda-graph-", "CUDA graphs; framework.kernels.host_dispatch is what they save"},
    {"--ddp-reduce-scatter-with-fp32-accumulation", "an all-to-all in place of a reduce-scatter"},
    {"--defer-embedding-wgrad-compute", "weight gradients of the head behind the last pass"},
    {"--delay-wgrad-compute", "weight gradients behind those of inputs"},
    {"--deterministic-mode", "slower kernels"},
    {"--disable-symmetric-registration", "NCCL's buffers"},
    {"--disable-tp-comm-", "overlap of tensor-parallel communication and products"},
    {"--empty-unused-memory-level", "emptied caches"},
    {"--enable-cuda-graph", "CUDA graphs; framework.kernels.host_dispatch is what they save"},
    {"--external-cuda-graph", "CUDA graphs; framework.kernels.host_dispatch is what they save"},
    {"--first-last-layers-bf16", "all layers are in fp8 or fp4"},
    {"--fp16-lm-cross-entropy", "the loss is computed in fp32"},
    {"--fsdp-double-buffer", "buffers of FSDP that are kept"},
    {"--high-priority-stream-groups", "priorities of streams"},
    {"--keep-fp8-transpose-cache", "a second copy of fp8 weights"},
    {"--mamba-chunk-size", "scans of Mamba layers are priced in chunks of 128 tokens"},
    {"--mamba-training-ssm-states-dtype", "the type of a scan's states between its kernels"},
    {"--mtp-use-repeated-layer", "layers that predict further tokens have weights of their own"},
    {"--moe-deepep-num-sms", "cluster.gpu.communication_sms"},
    {"--moe-permute-fusion", "framework.kernels.fused_permute"},
    {"--moe-router-fusion", "kernels of the router"},
    {"--moe-router-padding-for-fp8", "padded tokens of experts"},
    {"--moe-shared-expert-overlap", "the shared expert runs before the routed ones"},
    {"--moe-use-legacy-grouped-gemm", "kernels of experts"},
    {"--no-align-grad-reduce", "when stages begin to reduce"},
    {"--no-align-param-gather", "when stages begin to gather"},
    {"--no-async-tensor-model-parallel-allreduce", "overlap of tensor-parallel communication and products"},
    {"--no-bias-dropout-fusion", "framework.kernels.fused_residual"},
    {"--no-bias-gelu-fusion", "framework.kernels.fused_activation"},
    {"--no-bias-swiglu-fusion", "framework.kernels.fused_activation"},
    {"--no-clone-scatter-output-in-embedding", "a copy of the embedding"},
    {"--no-create-attention-mask-in-dataloader", "framework.memory.attention_mask"},
    {"--no-fp8-wgrad", "weight gradients are products in fp8"},
    {"--no-gradient-accumulation-fusion", "framework.kernels.fused_weight_gradient"},
    {"--no-gradient-reduce-div-fusion", "a kernel of gradients"},
    {"--no-masked-softmax-fusion", "framework.kernels.softmax"},
    {"--no-overlap-p2p-communication", "framework.kernels.blocking_pipeline"},
    {"--no-persist-layer-norm", "framework.kernels.fused_norm"},
    {"--no-pin-cpu-", "memory of the host that is not pinned"},
    {"--no-rope-fusion", "framework.kernels.fused_rope"},
    {"--no-scatter-gather-tensors-in-pipeline", "framework.kernels.whole_pipeline_transfers"},
    {"--num-layers-at-", "all layers are in fp8 or fp4"},
    {"--overlap-cpu-optimizer-d2h-h2d", "copies of an offloaded optimizer always overlap"},
    {"--overlap-p2p-communication-warmup-flush", "transfers overlap wherever the schedule lets them"},
    {"--overlap-param-gather-with-optimizer-step", "the first bucket's gather beside the update"},
    {"--pipeline-model-parallel-comm-backend", "NCCL carries transfers"},
    {"--rampup-batch-size", "the job is that of the whole batch"},
    {"--reuse-grad-buf-for-mxfp8-param-ag", "gradients' buffers as those of gathered weights"},
    {"--sft", "sequences are whole; training.documents packs them"},
    {"--sharp-enabled-group", "cluster.inter_node.sharp"},
    {"--suggested-communication-unit-size", "FSDP gathers layer by layer"},
    {"--tp-comm-", "overlap of tensor-parallel communication and products"},
    {"--train-sync-interval", "the host may run ahead"},
    {"--use-fused-weighted-squared-relu", "framework.kernels.fused_activation"},
    {"--use-nccl-ub", "NCCL's buffers"},
    {"--use-ring-exchange-p2p", "NCCL carries transfers"},
    {"--use-sharp", "cluster.inter_node.sharp"},
    {"--use-te-activation-func", "framework.kernels.fused_activation"},
    {"--use-torch-optimizer-for-cpu-offload", "which code runs the host's optimizer"},
    {"--wgrad-deferral-limit", "weight gradients of the head behind the last pass"}};

constexpr Explained unsupported_flags[] = {
    {"--activation-func-clamp-value", "a clamped activation is not modelled", "model_type: gpt_oss has one."},
    {"--apply-residual-connection-post-layernorm", "norms behind the residual addition are those of bert",
     "model_type: bert in a job."},
    {"--batch-size", "Megatron-LM does not take it any more", "--micro-batch-size."},
    {"--checkpoint-activations", "Megatron-LM does not take it any more",
     "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1."},
    {"--ddp-num-buckets", "buckets are given by their size", "--ddp-bucket-size."},
    {"--decoder-num-layers", "an encoder-decoder is no job of pretrain_gpt.py", "model_type: t5 in a job."},
    {"--decoder-seq-length", "an encoder-decoder is no job of pretrain_gpt.py", "model_type: t5 in a job."},
    {"--distribute-saved-activations", "recomputed layers keep their whole inputs",
     "--sequence-parallel keeps a part of them."},
    {"--enable-full-sharding-in-hsdp", "optimizer state is sharded within an instance", ""},
    {"--encoder-num-layers", "an encoder-decoder is no job of pretrain_gpt.py", "--num-layers."},
    {"--encoder-seq-length", "an encoder-decoder is no job of pretrain_gpt.py", "--seq-length."},
    {"--fp32-residual-connection", "residuals are in the type of training", ""},
    {"--fp4-", "fp4 weights are gathered in bf16 and cast behind it, by the recipe nvfp4",
     "--fp4-format e2m1."},
    {"--fp8-quantizer-factory", "fp8 has the recipes delayed, tensorwise, blockwise and mxfp8",
     "--fp8-recipe."},
    {"--glu-linear-offset", "an offset of the gate is not modelled", ""},
    {"--heterogeneous-", "layers of unequal shape are not modelled", ""},
    {"--kitchen-", "quantization recipes of one's own are not modelled", ""},
    {"--model-parallel-size", "Megatron-LM does not take it any more", "--tensor-model-parallel-size."},
    {"--moe-extended-tp", "Megatron-LM does not take it any more", "--expert-tensor-parallel-size."},
    {"--moe-layer-recompute", "it is deprecated",
     "--recompute-granularity selective --recompute-modules moe."},
    {"--mrope-section", "multimodal positions are not modelled", "--position-embedding-type rope."},
    {"--no-position-embedding", "it is deprecated", "--position-embedding-type none."},
    {"--perform-rl-step", "reinforcement learning is not modelled", ""},
    {"--qk-l2-norm", "norms of queries and keys have weights", "--qk-layernorm."},
    {"--quick-geglu", "quick GeGLU is not an activation of model_type gpt", "model_type: gpt_oss in a job."},
    {"--relative-attention-", "relative positions are those of T5", "model_type: t5 in a job."},
    {"--retro-", "Retro is not modelled", ""},
    {"--softmax-type", "attention sinks are those of gpt_oss", "model_type: gpt_oss in a job."},
    {"--vision-", "pretrain_vision_*.py is not read", "model_type: vit in a job."},
    {"--window-", "sliding windows are not keys of model_type gpt", "model_type: mistral in a job."},
    {"--yaml-cfg", "arguments in a further file are not read", "import that file."}};

bool matches(const Explained& of, const std::string& flag) {
  const std::string_view name = of.flag;
  return name.ends_with("-") ? flag.starts_with(name) : flag == name;
}

// Likenesses of an unknown flag are looked for among what is read, and what is not supported.
std::vector<std::string> known_names() {
  std::vector<std::string> names(read_flags.begin(), read_flags.end());
  for (const FlagKey& key : megatron_value_keys()) names.emplace_back(key.flag);
  for (const FlagKey& key : megatron_switch_keys()) names.emplace_back(key.flag);
  for (const char* name : irrelevant_flags) names.emplace_back(name);
  for (const Explained& of : unmodelled_flags) names.emplace_back(of.flag);
  for (const Explained& of : unsupported_flags) names.emplace_back(of.flag);
  return names;
}

}  // namespace

FlagMeaning meaning_of_megatron_flag(const std::string& flag) {
  const auto is_it = [&](const auto& key) { return key.flag == flag; };
  if (std::ranges::find(read_flags, flag) != read_flags.end() ||
      std::ranges::any_of(megatron_value_keys(), is_it) || std::ranges::any_of(megatron_switch_keys(), is_it))
    return {FlagUse::read, "", ""};
  for (const Explained& of : unsupported_flags)
    if (matches(of, flag)) return {FlagUse::unsupported, of.why, of.hint};
  for (const Explained& of : unmodelled_flags)
    if (matches(of, flag)) return {FlagUse::unmodelled, of.why, ""};
  const auto begins_so = [&](const char* beginning) { return flag.starts_with(beginning); };
  if (std::ranges::find(irrelevant_flags, flag) != irrelevant_flags.end() ||
      std::ranges::any_of(irrelevant_beginnings, begins_so))
    return {FlagUse::irrelevant, "", ""};
  const std::string near = closest(flag, known_names());
  return {FlagUse::unknown, "", near.empty() ? "" : fmt::format("did you mean {}?", near)};
}

}  // namespace simrun
