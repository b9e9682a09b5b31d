#include "configs/export_torchtitan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <vector>

#include "configs/diagnostics.h"
#include "configs/section_reader.h"

namespace simrun {
namespace {

constexpr const char* training_commit = "f204eb63c07b5b76df3a00a5d78c11c70272b943";
constexpr const char* parallelism_commit = "b3508e23cbb66116b0194c69129a9eb41a042b31";

// Models of torchtitan's registries, told by their shape.
struct RegisteredModel {
  std::int64_t layers, hidden, ffn, experts;
  const char *module, *recipe;
};
constexpr RegisteredModel registered_models[] = {{32, 4096, 14336, 0, "llama3", "llama3_8b"},
                                                 {80, 8192, 28672, 0, "llama3", "llama3_70b"},
                                                 {126, 16384, 53248, 0, "llama3", "llama3_405b"},
                                                 {61, 7168, 18432, 256, "deepseek_v3", "deepseek_v3_671b"}};

const RegisteredModel* registered(const ModelConfig& model) {
  const auto found = std::ranges::find_if(registered_models, [&](const RegisteredModel& of) {
    return of.layers == model.num_layers && of.hidden == model.hidden_size &&
           of.ffn == model.ffn_hidden_size && of.experts == model.experts.count &&
           model.activation == Activation::swiglu && (of.experts > 0) == model.mla.on();
  });
  return found == std::end(registered_models) ? nullptr : found;
}

// A name of Python's.
std::string function_name(const std::string& job) {
  std::string name;
  for (const char c : job) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name.empty() || std::isdigit(static_cast<unsigned char>(name.front())) != 0 ? "job_" + name : name;
}

// Classes of torch.distributed.pipelining by our names.
const std::map<std::string, std::string> pipeline_classes = {{"gpipe", "GPipe"},
                                                             {"1f1b", "1F1B"},
                                                             {"interleaved_1f1b", "Interleaved1F1B"},
                                                             {"looped_bfs", "LoopedBFS"},
                                                             {"interleaved_zb", "InterleavedZeroBubble"},
                                                             {"zb_v", "ZBVZeroBubble"},
                                                             {"dualpipe_v", "DualPipeV"}};

class Recipe {
 public:
  Recipe(const Job& job, std::string csv) : job_(job), csv_(std::move(csv)) {
    set_training();
    set_data_parallel();
    set_context();
    set_pipeline();
    set_recompute();
    note_rest();
  }

  std::string text(const std::string& version) const {
    const RegisteredModel* model = registered(job_.model);
    std::string text = fmt::format(
        "# {} as a recipe of torchtitan, by simrun {}. Names are those of github.com/pytorch/torchtitan,\n"
        "# torchtitan/config/training.py at commit {} and\n# torchtitan/config/parallelism.py at commit {}.\n"
        "# The optimizer, its rates, data and checkpoints are the recipe's that it starts from.\n",
        job_.name, version, training_commit, parallelism_commit);
    text += notes_.empty() ? "# Everything else of the job is expressed.\n" : "# Not expressed:\n";
    for (const std::string& note : notes_) text += fmt::format("#   {}\n", note);
    if (!imports_.empty()) text += "\n" + imports_;
    if (model != nullptr)
      text += fmt::format("{}from torchtitan.models.{}.config_registry import {}\n",
                          imports_.empty() ? "\n" : "", model->module, model->recipe);
    text += fmt::format("{}from torchtitan.trainer import Trainer\n\n\n",
                        imports_.empty() && model == nullptr ? "\n" : "");
    const std::string name = function_name(job_.name);
    if (model == nullptr)
      text += fmt::format("def {}(config: Trainer.Config) -> Trainer.Config:\n", name);
    else
      text += fmt::format("def {}() -> Trainer.Config:\n    config = {}()\n", name, model->recipe);
    for (const std::string& line : lines_) text += "    " + line + "\n";
    return text + "    return config\n";
  }

 private:
  template <typename Value>
  void set(const char* name, const Value& value) {
    lines_.push_back(fmt::format("config.{} = {}", name, value));
  }
  // Double-quoted as YAML does, which Python reads alike.
  void set_word(const char* name, const std::string& word) { set(name, yaml_quoted(word)); }
  void note(std::string what) { notes_.push_back(std::move(what)); }
  void note_if(bool holds, const char* what) {
    if (holds) note(what);
  }

  void set_training() {
    const Training& training = job_.training;
    set("training.num_tokens_per_microbatch_per_dp_rank", training.micro_batch_size * training.seq_length);
    set("training.num_tokens_per_train_step", training.global_batch_size * training.seq_length);
    set("training.max_context_length", training.seq_length);
    set("training.max_norm", job_.optimizer.clip_grad);
    const bool is_bf16 = training.precision == Dtype::bf16;
    const bool is_fp32 = training.precision == Dtype::fp32;
    set_word("training.mixed_precision_param", is_bf16 ? "bfloat16" : "float32");
    const Dtype reduced = job_.optimizer.grad_reduce_dtype;
    set_word("training.mixed_precision_reduce", reduced == Dtype::bf16 ? "bfloat16" : "float32");
    if (!is_bf16 && !is_fp32)
      note(fmt::format("training.precision: {}; bf16 and fp32 are", to_string(training.precision)));
    note_if(training.fp8.has_value(), "training.precision: fp8 and nvfp4; model converters of torchtitan's");
    note_if(reduced != Dtype::bf16 && reduced != Dtype::fp32,
            "optimizer.grad_reduce_dtype: bf16 and fp32 are");
    note_if(training.attention == AttentionKernel::unfused, "training.attention: FlexAttention, or SDPA");
    note_if(training.attention_dropout > 0 || training.hidden_dropout > 0, "training: there is no dropout");
    note_if(training.lora.has_value(), "training.lora: a model converter of torchtitan's");
    note_if(training.documents.has_value(), "training.documents: a property of the data");
  }

  void set_data_parallel() {
    const OptimizerConfig& optimizer = job_.optimizer;
    const std::int64_t ranks = job_.parallelism.data_parallel_size;
    const std::int64_t copies =
        optimizer.zero_stage == 0 ? ranks : optimizer.num_distributed_optimizer_instances;
    set("parallelism.data_parallel_replicate_degree", copies);
    set("parallelism.data_parallel_shard_degree", ranks / copies);
    if (optimizer.zero_stage > 0)
      set_word("parallelism.fsdp_reshard_after_forward",
               optimizer.zero_stage == 3 && optimizer.reshard_after_forward ? "always" : "never");
    note_if(optimizer.gather_bucket_size > 0,
            "optimizer.gather_bucket_size: FSDP2 gathers a layer as one unit");
    if (optimizer.zero_stage == 1 || optimizer.zero_stage == 2)
      note(
          fmt::format("optimizer.zero_stage: {}; FSDP2 shards parameters, gradients and state, and keeps "
                      "gathered parameters until the backward pass here",
                      optimizer.zero_stage));
    note_if(optimizer.name != UpdateRule::adamw && optimizer.name != UpdateRule::adam,
            "optimizer.name: the update is the recipe's");
    note_if(!optimizer.zero_3_layers.empty(), "optimizer.zero_3_layers: FSDP2 shards all layers alike");
    note_if(optimizer.parameter_server.has_value(), "optimizer.parameter_server: there are none");
    note_if(optimizer.all_reduce != AllReduceKind::flat, "optimizer.all_reduce: NCCL decides how");
    note_if(optimizer.main_grads_dtype != Dtype::fp32 || optimizer.exp_avg_dtype != Dtype::fp32 ||
                optimizer.exp_avg_sq_dtype != Dtype::fp32 || optimizer.main_params_dtype != Dtype::fp32,
            "optimizer: parameters, gradients and state that are kept are fp32");
    const Offload& offload = job_.offload;
    if (offload.optimizer == OffloadTarget::cpu && offload.parameters == OffloadTarget::cpu)
      set("training.enable_cpu_offload", "True");
    else
      note_if(offload.any(), "offload: parameters, gradients and state together, to the CPU, or nothing");
  }

  void set_context() {
    const Parallelism& parallelism = job_.parallelism;
    set("parallelism.tensor_parallel_degree", parallelism.tensor_model_parallel_size);
    if (parallelism.tensor_model_parallel_size > 1)
      set("parallelism.enable_sequence_parallel", parallelism.sequence_parallel ? "True" : "False");
    set("parallelism.context_parallel_degree", parallelism.context_parallel_size);
    if (parallelism.context_parallel_size > 1 &&
        parallelism.context_parallel_layout == ContextLayout::contiguous)
      set("parallelism.context_parallel_load_balancer", "None");
    note_if(parallelism.context_parallel_size > 1 && parallelism.cp_comm_type != ContextExchange::all_gather,
            "parallelism.cp_comm_type: keys and values are gathered");
    if (job_.model.experts.count > 0) {
      set("parallelism.expert_parallel_degree",
          parallelism.expert_model_parallel_size * parallelism.expert_tensor_parallel_size);
      note_if(parallelism.expert_tensor_parallel_size > 1,
              "parallelism.expert_tensor_parallel_size: experts are whole; as many ranks have more of them");
      note_if(job_.moe.capacity_factor > 0, "moe.capacity_factor: no token is dropped");
    }
    note_if(parallelism.rank_order != "tp-cp-ep-dp-pp" || !parallelism.rank_map.empty(),
            "parallelism.rank_order: ranks are in the order of its mesh, pipeline outermost");
    note_if(parallelism.has_unlike_stages(),
            "parallelism.stage_data_parallel_sizes: pipeline ranks are all as the first");
    note_if(job_.layout != LayoutConfig{}, "layout: rules of one's own");
  }

  // ["tok_embeddings", "layers.0"], ["layers.1", ..., "norm", "lm_head"]
  std::string parts() const {
    std::vector<std::string> chunks;
    std::int64_t layer = 0;
    for (const StageContent& stage : job_.parallelism.stages) {
      std::vector<std::string> names;
      if (stage.embedding) names.emplace_back("\"tok_embeddings\"");
      for (std::int64_t l = 0; l < stage.layers; ++l) names.push_back(fmt::format("\"layers.{}\"", layer++));
      if (stage.loss) names.insert(names.end(), {"\"norm\"", "\"lm_head\""});
      chunks.push_back(fmt::format("        [{}],\n", fmt::join(names, ", ")));
    }
    return fmt::format("[\n{}    ]", fmt::join(chunks, ""));
  }

  void set_pipeline() {
    const Parallelism& parallelism = job_.parallelism;
    set("parallelism.pipeline_parallel_degree", parallelism.pipeline_model_parallel_size);
    if (parallelism.pipeline_model_parallel_size == 1) return;
    set("parallelism.num_pp_microbatches", job_.microbatches());
    set("parallelism.module_fqns_per_model_part", parts());
    const auto known = pipeline_classes.find(parallelism.pipeline_schedule);
    const bool is_two_way =
        parallelism.pipeline_schedule == "dualpipe" || parallelism.pipeline_schedule == "chimera";
    if (known != pipeline_classes.end() && !parallelism.schedule_csv) {
      set_word("parallelism.pipeline_parallel_schedule", known->second);
    } else if (is_two_way || parallelism.pipeline_schedule == "bpipe") {
      note(
          fmt::format("parallelism.pipeline_schedule: {}; a stage is on one rank, and keeps what it computes",
                      parallelism.pipeline_schedule));
    } else {
      set_word("parallelism.pipeline_parallel_schedule", "PipelineScheduleMulti");
      set_word("parallelism.pipeline_parallel_schedule_csv", csv_);
    }
    note_if(job_.model.num_nextn_predict_layers > 0, "model: multi-token prediction");
  }

  void set_recompute() {
    constexpr const char* from = "from torchtitan.distributed.activation_checkpoint import ";
    const RecomputeConfig& recompute = job_.recompute;
    if (recompute.granularity == RecomputeGranularity::none) return set("activation_checkpoint", "None");
    const bool is_full = recompute.granularity == RecomputeGranularity::full;
    imports_ = std::string(from) + (is_full ? "FullAC\n" : "SelectiveAC\n");
    set("activation_checkpoint", is_full ? "FullAC.Config()" : "SelectiveAC.Config()");
    if (!is_full)
      note(fmt::format("recompute.{}: SelectiveAC chooses operators by a list of its own",
                       recompute.saved.empty() ? "modules" : "saved"));
    note_if(is_full && (recompute.method == RecomputeMethod::block || recompute.num_layers > 1 ||
                        !recompute.modules.empty() || !recompute.layers.empty()),
            "recompute: FullAC checkpoints every layer by itself");
  }

  void note_rest() {
    note_if(!job_.model.frozen.empty(), "model.frozen: all parameters are trained");
    note_if(registered(job_.model) == nullptr,
            "model: no recipe of the registries has this shape; pass the function one that has");
    note_if(!job_.framework.name.empty(), "framework: what runs this is the framework");
    note_if(job_.cluster.imperfections != Imperfections{}, "imperfections: what is wrong with the cluster");
  }

  const Job& job_;
  std::string csv_, imports_;
  std::vector<std::string> lines_, notes_;
};

}  // namespace

std::string torchtitan_recipe(const Job& job, const std::string& version, const std::string& csv) {
  if (!family_as<std::monostate>(job.model.family))
    throw ConfigError({{{job.name, 0, 0},
                        fmt::format("model_type {} is no decoder, and torchtitan's recipes are of decoders",
                                    job.model.model_type),
                        ""}});
  return Recipe(job, csv).text(version);
}

}  // namespace simrun
