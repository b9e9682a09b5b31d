#include "configs/export_megatron.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "configs/diagnostics.h"
#include "configs/megatron_flags.h"
#include "configs/pipeline_layout.h"

namespace simrun {
namespace {

using Flags = std::vector<MegatronFlag>;
using Notes = std::vector<std::string>;

void add(Flags& flags, const char* name) { flags.push_back({name, {}}); }
template <typename Value>
void add(Flags& flags, const char* name, const Value& value) {
  flags.push_back({name, {fmt::format("{}", value)}});
}

constexpr const char* recipe_names[] = {"delayed", "tensorwise", "blockwise", "mxfp8", "nvfp4"};

void add_precision(const Training& training, Flags& flags, Notes& notes) {
  if (training.precision == Dtype::bf16) add(flags, "--bf16");
  if (training.precision == Dtype::fp16) add(flags, "--fp16");
  if (training.precision == Dtype::tf32)
    notes.emplace_back("training.precision: tf32; PyTorch decides, torch.backends.cuda.matmul.allow_tf32");
  if (!training.fp8) return;
  const bool fp4 = training.fp8->recipe == Fp8Recipe::nvfp4;
  add(flags, fp4 ? "--fp4-format" : "--fp8-format", fp4 ? "e2m1" : "hybrid");
  add(flags, fp4 ? "--fp4-recipe" : "--fp8-recipe",
      recipe_names[static_cast<std::size_t>(training.fp8->recipe)]);
  if (training.fp8->param_gather) add(flags, "--fp8-param-gather");
}

void add_training(const Job& job, MegatronArguments& arguments) {
  const Training& training = job.training;
  Flags flags;
  add(flags, "--seq-length", training.seq_length);
  add(flags, "--micro-batch-size", training.micro_batch_size);
  add(flags, "--global-batch-size", training.global_batch_size);
  add_precision(training, flags, arguments.unexpressed);
  if (training.lora) arguments.unexpressed.emplace_back("training.lora: all weights are trained");
  if (training.documents)
    arguments.unexpressed.emplace_back("training.documents: a property of the data; attention is full");
  arguments.groups.push_back({"TRAINING_ARGS", std::move(flags)});
}

bool is_even(const Job& job) {
  const std::vector<StageContent>& stages = job.parallelism.stages;
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (stages[s].layers != stages.front().layers || stages[s].embedding != (s == 0) ||
        stages[s].loss != (s + 1 == stages.size()))
      return false;
  return !stages.empty();
}

void add_schedule(const Job& job, Flags& flags, Notes& notes) {
  const Parallelism& parallelism = job.parallelism;
  const std::string& schedule = parallelism.pipeline_schedule;
  const std::int64_t chunks = parallelism.virtual_pipeline_model_parallel_size;
  if (!is_even(job))
    add(flags, "--pipeline-model-parallel-layout", pipeline_layout_text(parallelism.stages));
  else if (chunks > 1)
    add(flags, "--num-virtual-stages-per-pipeline-rank", chunks);
  const bool overlaps = schedule == "interleaved_1f1b_overlap" && job.model.experts.count > 0;
  if (overlaps) add(flags, "--overlap-moe-expert-parallel-comm");
  const std::int64_t group = parallelism.microbatch_group_size_per_vp_stage;
  if (group > 0 && ((overlaps && chunks > 1) || group != parallelism.pipeline_model_parallel_size))
    add(flags, "--microbatch-group-size-per-virtual-pipeline-stage", group);
  if (schedule != (chunks > 1 ? "interleaved_1f1b" : "1f1b") && !overlaps)
    notes.push_back(
        fmt::format("parallelism.pipeline_schedule: {}; Megatron-LM runs 1F1B, interleaved with virtual "
                    "stages",
                    schedule));
  const std::int64_t pipeline = parallelism.pipeline_model_parallel_size;
  if (chunks > 1 && schedule != "interleaved_1f1b" && job.microbatches() % pipeline != 0)
    notes.push_back(
        fmt::format("training.global_batch_size: {} microbatches, which Megatron-LM refuses with virtual "
                    "stages on {} pipeline ranks: it takes multiples of these",
                    job.microbatches(), pipeline));
}

void add_context(const ModelConfig& model, const Parallelism& parallelism, Flags& flags, Notes& notes) {
  if (parallelism.context_parallel_size <= 1) {
    if (parallelism.cp_comm_type != ContextExchange::p2p ||
        parallelism.context_parallel_layout != ContextLayout::zigzag)
      notes.emplace_back("parallelism.cp_comm_type: says nothing without context parallelism");
    return;
  }
  constexpr const char* types[] = {"p2p", "all_gather", "a2a", "a2a+p2p"};
  add(flags, "--context-parallel-size", parallelism.context_parallel_size);
  add(flags, "--cp-comm-type", types[static_cast<std::size_t>(parallelism.cp_comm_type)]);
  if (parallelism.cp_comm_type == ContextExchange::a2a_p2p) {
    const std::int64_t inner = parallelism.context_a2a_size;
    flags.push_back(
        {"--hierarchical-context-parallel-sizes",
         {fmt::format("{}", inner), fmt::format("{}", parallelism.context_parallel_size / inner)}});
  }
  if (copies_key_value_heads(model, parallelism.tensor_model_parallel_size, parallelism.context_a2a_size) &&
      parallelism.context_a2a_size > 1)
    notes.push_back(
        fmt::format("parallelism.cp_comm_type: all-to-all over more ranks than the {} key-value "
                    "heads, which Transformer Engine refuses",
                    model.num_key_value_heads));
  if (parallelism.context_parallel_layout == ContextLayout::contiguous)
    notes.emplace_back("parallelism.context_parallel_layout: Megatron-LM deals sequences out in zigzag");
}

void add_parallelism(const Job& job, MegatronArguments& arguments) {
  const Parallelism& parallelism = job.parallelism;
  Flags flags;
  Notes& notes = arguments.unexpressed;
  add(flags, "--tensor-model-parallel-size", parallelism.tensor_model_parallel_size);
  if (parallelism.sequence_parallel) add(flags, "--sequence-parallel");
  add_context(job.model, parallelism, flags, notes);
  add(flags, "--pipeline-model-parallel-size", parallelism.pipeline_model_parallel_size);
  add_schedule(job, flags, notes);
  if (parallelism.rank_order == "tp-cp-ep-pp-dp")
    add(flags, "--use-tp-pp-dp-mapping");
  else if (parallelism.rank_order != "tp-cp-ep-dp-pp" || !parallelism.rank_map.empty())
    notes.emplace_back("parallelism: ranks are placed in the order tp-cp-ep-dp-pp, or tp-cp-ep-pp-dp");
  if (job.moe.token_dispatcher == TokenDispatcher::einsum)
    notes.emplace_back("moe.token_dispatcher: einsum; tokens go by alltoall, without masks");
  if (job.layout != LayoutConfig{})
    notes.emplace_back("layout: rules of one's own; tensors are split as Megatron-LM does");
  arguments.groups.push_back({"PARALLEL_ARGS", std::move(flags)});
}

// Types of gradients and of the optimizer's state.
void add_state_types(const Job& job, Flags& flags, Notes& notes) {
  const OptimizerConfig& optimizer = job.optimizer;
  const Dtype precision = job.training.precision, gradients = optimizer.main_grads_dtype;
  const bool is_narrow = precision == Dtype::bf16 || precision == Dtype::fp16;
  if (is_narrow && gradients == Dtype::fp32) add(flags, "--accumulate-allreduce-grads-in-fp32");
  if (precision == Dtype::bf16 && gradients == Dtype::bf16) add(flags, "--grad-reduce-in-bf16");
  if (gradients != Dtype::fp32 && gradients != precision)
    notes.push_back(
        fmt::format("optimizer.main_grads_dtype: {}; fp32, or the type of training", to_string(gradients)));
  if (optimizer.grad_reduce_dtype != gradients)
    notes.emplace_back("optimizer.grad_reduce_dtype: gradients are reduced in the type they are kept in");
  const Dtype main = optimizer.main_params_dtype.value_or(Dtype::fp32);
  if (!optimizer.main_params_dtype)
    notes.emplace_back("optimizer.main_params_dtype: none; there are always main parameters");
  const bool is_aware = main != Dtype::fp32 || optimizer.exp_avg_dtype != Dtype::fp32 ||
                        optimizer.exp_avg_sq_dtype != Dtype::fp32;
  const bool can_be = optimizer.zero_stage > 0 && optimizer.name == UpdateRule::adam && is_narrow &&
                      optimizer.exp_avg_dtype != Dtype::uint8 && optimizer.exp_avg_sq_dtype != Dtype::uint8;
  const bool offloads = job.offload.optimizer == OffloadTarget::cpu;
  if (is_aware && !can_be)
    notes.emplace_back(
        "optimizer: state in these types; the precision-aware optimizer is adam with zero_stage 1 and up, "
        "in fp32, fp16, bf16 or fp8");
  if (!offloads && (!is_aware || !can_be)) return;
  add(flags, "--use-precision-aware-optimizer");
  add(flags, "--main-params-dtype", to_string(main));
  if (gradients != Dtype::fp16) add(flags, "--main-grads-dtype", to_string(gradients));
  add(flags, "--exp-avg-dtype", to_string(optimizer.exp_avg_dtype));
  add(flags, "--exp-avg-sq-dtype", to_string(optimizer.exp_avg_sq_dtype));
}

void add_update(const OptimizerConfig& optimizer, Flags& flags, Notes& notes) {
  const UpdateNumbers& numbers = optimizer.numbers;
  switch (optimizer.name) {
    case UpdateRule::adamw:
      notes.emplace_back("optimizer.name: adamw is what Megatron-LM calls adam");
      [[fallthrough]];
    case UpdateRule::adam: add(flags, "--optimizer", "adam"); break;
    case UpdateRule::sgd:
      add(flags, "--optimizer", "sgd");
      add(flags, "--sgd-momentum", optimizer.sgd_momentum);
      break;
    case UpdateRule::muon:
      add(flags, "--optimizer", optimizer.zero_stage == 0 ? "muon" : "dist_muon");
      add(flags, "--muon-momentum", numbers.muon_momentum);
      break;
    case UpdateRule::adafactor: notes.emplace_back("optimizer.name: adafactor"); break;
  }
  add(flags, "--lr", numbers.lr);
  add(flags, "--weight-decay", numbers.weight_decay);
  if (optimizer.name != UpdateRule::sgd && optimizer.name != UpdateRule::adafactor) {
    add(flags, "--adam-beta1", numbers.adam_beta1);
    add(flags, "--adam-beta2", numbers.adam_beta2);
    add(flags, "--adam-eps", numbers.adam_eps);
  }
  add(flags, "--clip-grad", optimizer.clip_grad);
}

void add_sharding(const Job& job, Flags& flags, Notes& notes) {
  const OptimizerConfig& optimizer = job.optimizer;
  const bool is_muon = optimizer.name == UpdateRule::muon;
  if (optimizer.zero_stage > 0 && !is_muon) add(flags, "--use-distributed-optimizer");
  if (optimizer.zero_stage > 1 && !is_muon) {
    add(flags, "--use-megatron-fsdp");
    add(flags, "--data-parallel-sharding-strategy",
        optimizer.zero_stage == 2 ? "optim_grads" : "optim_grads_params");
    add(flags, "--ckpt-format", "fsdp_dtensor");  // the only one with it
  }
  if (is_muon && optimizer.zero_stage > 1)
    notes.push_back(fmt::format("optimizer.zero_stage: {} with muon", optimizer.zero_stage));
  if (!optimizer.zero_3_layers.empty())
    notes.emplace_back("optimizer.zero_3_layers: Megatron-LM shards all layers alike");
  if (optimizer.overlap_grad_reduce) add(flags, "--overlap-grad-reduce");
  if (optimizer.overlap_param_gather && optimizer.zero_stage > 0) add(flags, "--overlap-param-gather");
  if (optimizer.num_distributed_optimizer_instances > 1)
    add(flags, "--num-distributed-optimizer-instances", optimizer.num_distributed_optimizer_instances);
  if (optimizer.bucket_size != default_bucket_size(job.parallelism.data_parallel_size))
    add(flags, "--ddp-bucket-size", optimizer.bucket_size);
  if (!optimizer.reshard_after_forward || !optimizer.reshard_after_backward)
    notes.emplace_back("optimizer.reshard_after_forward: Megatron FSDP reshards behind every pass");
  if (optimizer.gather_bucket_size > 0)
    notes.emplace_back("optimizer.gather_bucket_size: Megatron FSDP gathers a layer as one unit");
  if (optimizer.no_sync) notes.emplace_back("optimizer.no_sync: Megatron FSDP reduces in every microbatch");
  if (optimizer.all_reduce != AllReduceKind::flat)
    notes.emplace_back("optimizer.all_reduce: NCCL decides how");
  if (optimizer.parameter_server)
    notes.emplace_back("optimizer.parameter_server: there are none; gradients are reduced among workers");
}

void add_offload(const Job& job, Flags& flags, Notes& notes) {
  const Offload& offload = job.offload;
  if (offload.optimizer == OffloadTarget::cpu) {
    add(flags, "--optimizer-cpu-offload");
    if (offload.optimizer_fraction != 1)
      add(flags, "--optimizer-offload-fraction", offload.optimizer_fraction);
    if (job.optimizer.zero_stage == 0 || job.optimizer.name != UpdateRule::adam)
      notes.emplace_back("offload.optimizer: needs the distributed optimizer with adam");
  }
  if (offload.optimizer == OffloadTarget::nvme) notes.emplace_back("offload.optimizer: nvme; cpu is there");
  if (offload.parameters != OffloadTarget::none)
    notes.emplace_back("offload.parameters: weights stay on the GPU");
  if (offload.activation_layers > 0 && offload.activation_layers < job.model.num_layers &&
      job.parallelism.pipeline_model_parallel_size == 1 &&
      job.recompute.granularity == RecomputeGranularity::none)
    add(flags, "--cpu-offloading-num-layers", offload.activation_layers);
  else if (offload.activations != OffloadTarget::none)
    notes.emplace_back(
        "offload.activations: --cpu-offloading-num-layers is of fewer layers than there are, on one stage, "
        "without recompute");
}

void add_optimizer(const Job& job, MegatronArguments& arguments) {
  Flags flags;
  add_update(job.optimizer, flags, arguments.unexpressed);
  add_sharding(job, flags, arguments.unexpressed);
  add_state_types(job, flags, arguments.unexpressed);
  add_offload(job, flags, arguments.unexpressed);
  arguments.groups.push_back({"OPTIMIZER_ARGS", std::move(flags)});
}

void add_recompute(const RecomputeConfig& recompute, MegatronArguments& arguments) {
  Notes& notes = arguments.unexpressed;
  const bool has_counts =
      !recompute.stage_layers.empty() ||
      std::ranges::any_of(recompute.module_layers, [](const auto& l) { return !l.empty(); });
  const bool is_full = recompute.granularity == RecomputeGranularity::full;
  if (has_counts) notes.emplace_back("recompute: numbers of layers by virtual stage; one holds for all");
  if (!recompute.layers.empty()) notes.emplace_back("recompute.layers: Megatron-LM counts layers by stage");
  if (is_full && !recompute.modules.empty()) notes.emplace_back("recompute.modules: beside granularity full");
  Flags flags;
  switch (recompute.granularity) {
    case RecomputeGranularity::none: return;
    case RecomputeGranularity::automatic:
      return notes.emplace_back(
                 "recompute.granularity: auto; simulate the job, whose summary prints the section that it "
                 "chose"),
             void();
    case RecomputeGranularity::selective:
      if (!recompute.saved.empty())
        return notes.emplace_back("recompute.saved: Megatron-LM names what is recomputed, by modules"),
               void();
      add(flags, "--recompute-granularity", "selective");
      flags.push_back({"--recompute-modules", recompute.modules});
      break;
    case RecomputeGranularity::full:
      add(flags, "--recompute-granularity", "full");
      add(flags, "--recompute-method", recompute.method == RecomputeMethod::block ? "block" : "uniform");
      add(flags, "--recompute-num-layers", recompute.num_layers);
  }
  arguments.groups.push_back({"RECOMPUTE_ARGS", std::move(flags)});
}

// A word of the script; what is no plain word is quoted.
std::string shell_word(const std::string& text) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_+.,:/=";
  const bool is_plain = !text.empty() && text.find_first_not_of(plain) == std::string::npos;
  return is_plain ? text : "'" + text + "'";
}

std::string comments(const Job& job, const MegatronArguments& arguments, const std::string& version) {
  std::string text = fmt::format(
      "# {} as Megatron-LM's arguments, by simrun {}. Names are those of\n# {}\n# at commit {}.\n"
      "# Yours to add: data, tokenizer, length of training, learning rate schedule, checkpoints.\n",
      job.name, version, megatron_source, megatron_commit);
  std::vector<std::string> kinds;
  for (const NodeGroup& group : job.cluster.node_groups) kinds.push_back(group.gpu.name);
  if (kinds.empty()) kinds.push_back(job.cluster.gpu.name);
  text += fmt::format("# Simulated on {} nodes of {} GPUs ({}, {}).\n", job.cluster.nodes,
                      job.cluster.gpus_per_node, job.cluster.name, fmt::join(kinds, " and "));
  Notes notes = arguments.unexpressed;
  if (!job.cluster.node_groups.empty())
    notes.emplace_back("node_groups: GPUs of several kinds, which Megatron-LM takes for equal");
  if (!job.framework.name.empty())
    notes.push_back(fmt::format("framework: {}; what runs this is the framework", job.framework.name));
  if (job.cluster.imperfections != Imperfections{})
    notes.emplace_back("imperfections: what is wrong with the cluster");
  if (notes.empty()) return text + "# Everything else of the job is expressed.\n";
  text += "# Not expressed:\n";
  for (const std::string& note : notes) text += fmt::format("#   {}\n", note);
  return text;
}

}  // namespace

MegatronArguments megatron_arguments(const Job& job) {
  if (!family_as<std::monostate>(job.model.family))
    throw ConfigError(
        {{{job.name, 0, 0},
          fmt::format("model_type {} is not what Megatron-LM's pretrain_gpt.py trains", job.model.model_type),
          "decoder-only transformers are."}});
  if (job.parallelism.has_unlike_stages())  // all as the first, they need not even fill the cluster
    throw ConfigError({{{job.name, 0, 0},
                        "Megatron-LM's pipeline ranks are all of one size, and this job's are not",
                        "leave out stage_tensor_model_parallel_sizes and stage_data_parallel_sizes."}});
  MegatronArguments arguments;
  add_megatron_model(job, arguments);
  add_megatron_experts(job, arguments);
  add_training(job, arguments);
  add_parallelism(job, arguments);
  add_optimizer(job, arguments);
  add_recompute(job.recompute, arguments);
  return arguments;
}

std::string megatron_script(const Job& job, const std::string& version) {
  const MegatronArguments arguments = megatron_arguments(job);
  std::string text = "#!/bin/bash\n" + comments(job, arguments, version);
  const bool is_fsdp = job.optimizer.zero_stage > 1;
  const bool orders_kernels =
      job.parallelism.tensor_model_parallel_size > 1 || job.parallelism.context_parallel_size > 1;
  if (orders_kernels && !is_fsdp) text += "\nexport CUDA_DEVICE_MAX_CONNECTIONS=1\n";
  text += fmt::format("\nDISTRIBUTED_ARGS=(\n    --nnodes {}\n    --nproc-per-node {}\n)\n",
                      job.cluster.nodes, job.cluster.gpus_per_node);
  // Layers that are one thing each are those of its hybrid model.
  std::string command = fmt::format("\ntorchrun \"${{DISTRIBUTED_ARGS[@]}}\" {}",
                                    job.model.is_hybrid() ? "pretrain_mamba.py" : "pretrain_gpt.py");
  for (const MegatronFlagGroup& group : arguments.groups) {
    text += fmt::format("\n{}=(\n", group.name);
    for (const MegatronFlag& flag : group.flags) {
      text += "    " + flag.name;
      for (const std::string& value : flag.values) text += " " + shell_word(value);
      text += '\n';
    }
    text += ")\n";
    command += fmt::format(" \\\n    \"${{{}[@]}}\"", group.name);
  }
  return text + command + " \"$@\"\n";
}

}  // namespace simrun
