// Megatron-LM's arguments about parallelism, the optimizer and recompute to the keys of a job.
#include <fmt/format.h>

#include <algorithm>

#include "configs/import_megatron_hybrid.h"
#include "configs/limits.h"
#include "configs/megatron_reader.h"
#include "configs/pipeline_layout.h"

namespace simrun {
namespace {

void import_context(MegatronReader& flags) {
  const std::string flag = "--cp-comm-type";
  const std::vector<ShellWord> types = flags.values(flag);
  for (const ShellWord& type : types)
    if (type.text != types.front().text)
      return flags.problem(type.position, "layers of unequal --cp-comm-type are not supported",
                           "one for all of them.");
  if (!types.empty())
    flags.put("parallelism.cp_comm_type",
              types.front().text == "allgather" ? "all_gather" : types.front().text, types.front().position);
  const std::string sizes = "--hierarchical-context-parallel-sizes";
  if (const std::vector<ShellWord> cut = flags.values(sizes); !cut.empty())
    flags.put_list("parallelism.hierarchical_context_parallel_sizes", cut, flags.position_of(sizes));
}

// Layers of each pipeline rank by Megatron-LM's rules of uneven first and last ranks, cut into equal virtual
// stages; nothing where they do not split.
std::vector<StageContent> uneven_stages(MegatronReader& flags, std::int64_t ranks, std::int64_t chunks) {
  const std::optional<std::int64_t> layers = flags.number("--num-layers"),
                                    first = flags.number("--decoder-first-pipeline-num-layers"),
                                    last = flags.number("--decoder-last-pipeline-num-layers");
  const bool with_embedding = flags.is_on("--account-for-embedding-in-pipeline-split");
  const bool with_loss = flags.is_on("--account-for-loss-in-pipeline-split");
  const std::int64_t rest = layers.value_or(0) - first.value_or(0) - last.value_or(0) +
                            (with_embedding ? 1 : 0) + (with_loss ? 1 : 0);
  const std::int64_t even = ranks - (first ? 1 : 0) - (last ? 1 : 0);
  if (!layers || *layers > limits::layers.most || ranks > *layers || chunks > *layers) return {};
  if (rest < 0 || ranks < 2 || chunks < 1 || (even == 0 ? rest != 0 : rest % even != 0)) return {};
  std::vector<StageContent> stages(static_cast<std::size_t>(ranks * chunks));
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t of_rank = rank == 0 && first          ? *first
                                 : rank == ranks - 1 && last ? *last
                                                             : rest / even;
    if (of_rank % chunks != 0) return {};
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
      stages[static_cast<std::size_t>(chunk * ranks + rank)].layers = of_rank / chunks;
  }
  stages.front().embedding = stages.back().loss = true;
  stages.front().layers -= with_embedding ? 1 : 0;
  stages.back().layers -= with_loss ? 1 : 0;
  stages.back().mtp_layers = flags.number("--mtp-num-layers").value_or(0);
  return stages;
}

void import_uneven_layers(MegatronReader& flags, std::int64_t ranks, std::int64_t chunks) {
  for (const char* flag :
       {"--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers",
        "--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"}) {
    if (!flags.is_given(flag)) continue;
    const std::vector<StageContent> stages = uneven_stages(flags, ranks, chunks);
    if (stages.empty())
      return flags.problem(flags.position_of(flag),
                           fmt::format("{}: the other layers do not split into {} pipeline ranks of {} "
                                       "virtual stages",
                                       flag, ranks, chunks),
                           "--pipeline-model-parallel-layout names each stage's.");
    return flags.put("parallelism.pipeline_model_parallel_layout", pipeline_layout_text(stages),
                     flags.position_of(flag));
  }
}

// Virtual stages of a pipeline rank: said, or by their layers, or by the stages of a layout.
std::int64_t import_chunks(MegatronReader& flags, std::int64_t ranks) {
  if (const std::optional<std::int64_t> chunks = import_hybrid_stages(flags, ranks)) return *chunks;
  const std::string path = "parallelism.virtual_pipeline_model_parallel_size";
  if (const std::optional<ShellWord> layout = flags.value("--pipeline-model-parallel-layout")) {
    flags.put("parallelism.pipeline_model_parallel_layout", layout->text, layout->position);
    const auto stages = static_cast<std::int64_t>(parse_pipeline_layout(layout->text).stages.size());
    const std::int64_t chunks = std::max<std::int64_t>(stages / ranks, 1);
    if (chunks > 1) flags.put(path, fmt::format("{}", chunks), layout->position);
    return chunks;
  }
  const std::string per_stage = "--num-layers-per-virtual-pipeline-stage";
  const std::string per_rank = "--num-virtual-stages-per-pipeline-rank";
  if (const std::optional<ShellWord> chunks = flags.value(per_rank)) {
    flags.put(path, chunks->text, chunks->position);
    return flags.number(per_rank).value_or(1);
  }
  const std::optional<std::int64_t> stage = flags.number(per_stage), layers = flags.number("--num-layers");
  if (!stage || !layers) return 1;
  if (*layers % ranks != 0 || *layers / ranks % *stage != 0) {
    flags.problem(
        flags.position_of(per_stage),
        fmt::format("{} layers on {} pipeline ranks do not split into stages of {}", *layers, ranks, *stage));
    return 1;
  }
  const std::int64_t chunks = *layers / ranks / *stage;
  if (chunks > 1) flags.put(path, fmt::format("{}", chunks), flags.position_of(per_stage));
  return chunks;
}

// What is reduced and kept in which types.
void import_state_types(MegatronReader& flags) {
  const bool in_fp32 = flags.is_on("--accumulate-allreduce-grads-in-fp32");
  const bool in_bf16 = flags.is_on("--grad-reduce-in-bf16");
  const bool is_aware = flags.is_on("--use-precision-aware-optimizer");
  const std::optional<ShellWord> kept = flags.value("--main-grads-dtype");
  const char* gradients = "fp32";
  std::string flag = "--accumulate-allreduce-grads-in-fp32";
  if (flags.is_given("--bf16") && (in_bf16 || (is_aware && !in_fp32 && kept && kept->text == "bf16"))) {
    gradients = "bf16";
    flag = in_bf16 ? "--grad-reduce-in-bf16" : "--main-grads-dtype";
  } else if (flags.is_given("--fp16") && !in_fp32) {
    gradients = "fp16";  // as DistributedDataParallel's buffer
    flag = "--fp16";
  }
  flags.put("optimizer.main_grads_dtype", gradients, flags.position_of(flag));
  if (!is_aware) return;
  for (const auto& [name, path] : {std::pair("--main-params-dtype", "optimizer.main_params_dtype"),
                                   std::pair("--exp-avg-dtype", "optimizer.exp_avg_dtype"),
                                   std::pair("--exp-avg-sq-dtype", "optimizer.exp_avg_sq_dtype")})
    if (const std::optional<ShellWord> type = flags.value(name)) flags.put(path, type->text, type->position);
}

// The stage, and the flag that says so.
std::pair<int, std::string> zero_stage(MegatronReader& flags, bool is_dist_muon) {
  if (flags.is_on("--use-torch-fsdp2")) return {3, "--use-torch-fsdp2"};
  if (flags.is_on("--use-megatron-fsdp")) {
    const std::string strategy = flags.word("--data-parallel-sharding-strategy", "no_shard");
    const std::string flag = "--data-parallel-sharding-strategy";
    constexpr const char* strategies[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
    for (int stage = 0; stage < 4; ++stage)
      if (strategy == strategies[stage]) return {stage, flag};
    flags.problem(flags.position_of(flag), fmt::format("{} cannot be '{}'", flag, strategy),
                  "one of no_shard, optim, optim_grads, optim_grads_params.");
  }
  if (is_dist_muon) return {1, "--optimizer"};
  return {flags.is_on("--use-distributed-optimizer") ? 1 : 0, "--use-distributed-optimizer"};
}

void import_sharding(MegatronReader& flags, bool is_dist_muon) {
  const auto [stage, flag] = zero_stage(flags, is_dist_muon);
  flags.put("optimizer.zero_stage", fmt::format("{}", stage), flags.position_of(flag));
  if (stage == 3 && flags.is_on("--torch-fsdp2-no-reshard-after-forward"))
    flags.put("optimizer.reshard_after_forward", "false",
              flags.position_of("--torch-fsdp2-no-reshard-after-forward"));
  // Of the later stages the job's defaults are others.
  if (flags.is_given("--use-megatron-fsdp") && stage == 3 && !flags.is_given("--overlap-param-gather"))
    flags.put("optimizer.overlap_param_gather", "false", flags.position_of(flag));
}

// Where the rule does not use a number, Megatron-LM reads it over.
void drop_unused_numbers(MegatronReader& flags, const std::string& rule) {
  if (rule != "sgd") flags.drop("optimizer.sgd_momentum");
  if (rule != "muon") flags.drop("optimizer.muon_momentum");
  if (rule == "sgd")
    for (const char* key : {"optimizer.adam_beta1", "optimizer.adam_beta2", "optimizer.adam_eps"})
      flags.drop(key);
}

// TransformerConfig's checks of cpu_offloading (megatron/core/transformer/transformer_config.py).
void import_offloaded_layers(MegatronReader& flags) {
  const std::optional<ShellWord> layers = flags.value("--cpu-offloading-num-layers");
  if (!layers || layers->text == "0") return;
  flags.put("offload.activations", "cpu", layers->position);
  flags.put("offload.activation_layers", layers->text, layers->position);
  if (flags.number("--pipeline-model-parallel-size").value_or(1) > 1)
    flags.problem(layers->position, "Megatron-LM does not offload activations of a pipeline's stages",
                  "--pipeline-model-parallel-size 1.");
  if (flags.is_given("--recompute-granularity") || flags.is_on("--recompute-activations"))
    flags.problem(layers->position, "Megatron-LM does not offload activations where it recomputes",
                  "leave out --recompute-granularity.");
}

}  // namespace

void import_megatron_parallelism(MegatronReader& flags) {
  import_context(flags);
  const std::int64_t ranks = flags.number("--pipeline-model-parallel-size").value_or(1);
  const std::int64_t chunks = import_chunks(flags, ranks);
  import_uneven_layers(flags, ranks, chunks);
  if (chunks == 1) flags.drop("parallelism.microbatch_group_size_per_vp_stage");
  const std::string overlap = "--overlap-moe-expert-parallel-comm";
  // Where these cannot be made out, that is told already.
  const bool has_chunks = chunks > 1 || flags.is_given("--num-virtual-stages-per-pipeline-rank") ||
                          flags.is_given("--num-layers-per-virtual-pipeline-stage");
  if (flags.is_on(overlap) && (has_chunks || ranks == 1))
    flags.put("parallelism.pipeline_schedule", "interleaved_1f1b_overlap", flags.position_of(overlap));
  else if (flags.is_given(overlap))
    flags.problem(flags.position_of(overlap),
                  fmt::format("{} of a pipeline without virtual stages is not modelled", overlap),
                  "--num-virtual-stages-per-pipeline-rank 2.");
  if (flags.is_on("--use-tp-pp-dp-mapping"))
    flags.put("parallelism.rank_order", "tp-cp-ep-pp-dp", flags.position_of("--use-tp-pp-dp-mapping"));
}

void import_megatron_optimizer(MegatronReader& flags) {
  const std::string name = flags.word("--optimizer", "adam");
  const bool is_dist_muon = name == "dist_muon";
  const std::string rule = is_dist_muon ? "muon" : name;
  flags.put("optimizer.name", rule, flags.position_of("--optimizer"));
  import_sharding(flags, is_dist_muon);
  // Megatron-LM's defaults where they are not simrun's.
  if (!flags.is_given("--weight-decay")) flags.put_default("optimizer.weight_decay", "0.01");
  if (!flags.is_given("--adam-beta2")) flags.put_default("optimizer.adam_beta2", "0.999");
  if (!flags.is_given("--muon-momentum")) flags.put_default("optimizer.muon_momentum", "0.9");
  drop_unused_numbers(flags, rule);
  import_state_types(flags);
  if (flags.is_on("--optimizer-cpu-offload"))
    flags.put("offload.optimizer", "cpu", flags.position_of("--optimizer-cpu-offload"));
  import_offloaded_layers(flags);
}

void import_megatron_recompute(MegatronReader& flags) {
  const bool has_activations = flags.is_on("--recompute-activations");
  const std::string flag = "--recompute-granularity";
  const std::optional<ShellWord> granularity = flags.value(flag);
  if (granularity)
    flags.put("recompute.granularity", granularity->text, granularity->position);
  else if (has_activations)
    flags.put("recompute.granularity", "selective", flags.position_of("--recompute-activations"));
  else
    return;  // Megatron-LM does not look at the others
  if (const std::optional<ShellWord> method = flags.value("--recompute-method"))
    flags.put("recompute.method", method->text, method->position);
  else if (granularity && granularity->text == "full" && !flags.is_given("--recompute-method"))
    flags.problem(granularity->position, "full recompute needs a --recompute-method, as Megatron-LM says",
                  "--recompute-method uniform --recompute-num-layers 1.");
  if (const std::optional<ShellWord> layers = flags.value("--recompute-num-layers");
      layers && granularity && granularity->text == "full")
    flags.put("recompute.num_layers", layers->text, layers->position);
  if (const std::vector<ShellWord> modules = flags.values("--recompute-modules"); !modules.empty())
    flags.put_list("recompute.modules", modules, flags.position_of("--recompute-modules"));
}

}  // namespace simrun
