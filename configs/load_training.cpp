// The sections training, optimizer and recompute.
#include <fmt/format.h>

#include "configs/limits.h"
#include "configs/load_optimizer.h"
#include "configs/load_sections.h"

namespace simrun {

namespace {

// Images have the length that their patches give, which is no key.
void read_lengths(SectionReader& section, Reading& reading, Job& job) {
  Training& training = job.training;
  if (image_of(job.model.family) == nullptr) {
    training.seq_length = section.integer("seq_length", limits::sequence);
  } else {
    const auto* vit = family_as<VisionTransformerConfig>(job.model.family);
    training.seq_length = vit != nullptr && vit->patch_size > 0 ? vit->tokens() : 1;
    if (section.has("seq_length")) {
      const std::int64_t written = section.integer("seq_length", limits::sequence);
      reading.take(section.path_of("seq_length"));
      reading.problem(section.path_of("seq_length"),
                      fmt::format("seq_length {} means nothing to a model that reads images", written),
                      "leave it out; the size of the batch is in images.");
    }
    section.ignore({"seq_length"});
  }
  if (has_decoder_sequence(job.model.family))
    training.decoder_seq_length =
        section.integer("decoder_seq_length", limits::sequence, training.seq_length);
  if (family_as<VisionLanguageConfig>(job.model.family) != nullptr)
    training.images_per_sample = section.integer("images_per_sample", limits::images_of_sample, 1);
}

}  // namespace

void read_training(const ConfigNode* node, Reading& reading, Job& job) {
  if (node == nullptr)
    return reading.missing("training",
                           "training: {seq_length: 4096, micro_batch_size: 1, global_batch_size: 64, "
                           "precision: bf16}");
  Training& training = job.training;
  SectionReader section(reading, node, "training");
  read_lengths(section, reading, job);
  training.micro_batch_size = section.integer("micro_batch_size", limits::batch);
  if (section.has("replica_micro_batch_sizes"))
    training.replica_micro_batch_sizes = section.integer_list("replica_micro_batch_sizes", limits::batch, {});
  section.ignore({"replica_micro_batch_sizes"});
  training.global_batch_size = section.integer("global_batch_size", limits::batch);
  if (section.has("tokens")) training.tokens = section.integer("tokens", limits::tokens);
  section.ignore({"tokens"});
  read_precision(section, reading, training);
  const std::string attention =
      section.word("attention", {{"flash", "unfused"}, {"fused", "auto", "local"}}, "flash");
  training.attention = attention == "unfused" ? AttentionKernel::unfused : AttentionKernel::flash;
  // What read_model left there stands unless it is written here.
  if (section.has("attention_dropout"))
    training.attention_dropout = section.real("attention_dropout", limits::probability);
  if (section.has("hidden_dropout"))
    training.hidden_dropout = section.real("hidden_dropout", limits::probability);
  section.ignore({"attention_dropout", "hidden_dropout"});
  read_lora(section, reading, job);
  read_documents(section, reading, training);
  section.finish();
}

void read_optimizer(const ConfigNode* node, Reading& reading, Job& job) {
  OptimizerConfig& optimizer = job.optimizer;
  SectionReader section(reading, node, "optimizer");
  read_update_rule(section, optimizer);
  const std::size_t problems = reading.problems.size();
  optimizer.zero_stage = static_cast<int>(section.integer("zero_stage", {0, 3}, 0));
  const bool has_stage = reading.problems.size() == problems;
  optimizer.zero_3_layers = read_layer_list(section, reading, "zero_3_layers");
  const bool reduces = reduces_in_passes(optimizer), gathers = gathers_in_passes(optimizer);
  // Gradients of stages 2 and 3 are reduced behind every backward pass, weights of stage 3 gathered in front
  // of every layer.
  optimizer.overlap_grad_reduce = section.boolean("overlap_grad_reduce", reduces);
  optimizer.overlap_param_gather = section.boolean("overlap_param_gather", gathers);
  if (reduces && !optimizer.overlap_grad_reduce)
    reading.problem(
        "optimizer.overlap_grad_reduce",
        fmt::format("{} always reduces gradients behind the backward pass", sharding_words(optimizer)),
        "overlap_grad_reduce: true.");
  optimizer.clip_grad = section.real("clip_grad", limits::norm, 1.0);
  read_sharding(section, reading, optimizer);
  read_data_parallel_groups(section, optimizer);
  read_parameter_server(section, reading, optimizer);
  read_state_types(section, job.training.precision, optimizer);
  read_bucket_size(section, reading, optimizer);
  if (optimizer.grad_reduce_dtype != optimizer.main_grads_dtype &&
      (optimizer.no_sync || optimizer.all_reduce == AllReduceKind::hierarchical))
    reading.problem(
        section.path_of("grad_reduce_dtype"),
        fmt::format("gradients of {} are reduced in {}, but not with no_sync or a hierarchical all-reduce",
                    to_string(optimizer.main_grads_dtype), to_string(optimizer.grad_reduce_dtype)),
        "give both types the same value.");
  section.finish();

  if (!has_stage) return;
  if (optimizer.overlap_param_gather && optimizer.zero_stage == 0 && !gathers && !optimizer.parameter_server)
    reading.problem("optimizer.overlap_param_gather", "overlap_param_gather needs zero_stage 1, 2 or 3",
                    "without ZeRO no parameters are gathered.");
  else if (optimizer.overlap_param_gather && optimizer.zero_stage == 1 && !optimizer.overlap_grad_reduce)
    reading.problem("optimizer.overlap_param_gather", "overlap_param_gather needs overlap_grad_reduce: true",
                    "Megatron-LM asks for both too.");
}

namespace {

// A key of another granularity than the one that is written.
void refuse_recompute_key(SectionReader& section, Reading& reading, const ConfigNode& node,
                          const std::string& granularity, const std::string& belongs_to) {
  reading.positions[section.path_of(node.key)] = node.key_position;
  reading.problem(section.path_of(node.key),
                  fmt::format("'recompute.{}' means nothing with granularity: {}", node.key, granularity),
                  fmt::format("it belongs to granularity: {}.", belongs_to));
}

}  // namespace

void read_recompute(const ConfigNode* node, Reading& reading, Job& job) {
  RecomputeConfig& recompute = job.recompute;
  SectionReader section(reading, node, "recompute");
  const std::string granularity =
      section.word("granularity", {{"none", "selective", "full", "auto"}, {}}, "none");
  if (granularity == "full") recompute.granularity = RecomputeGranularity::full;
  if (granularity == "selective") recompute.granularity = RecomputeGranularity::selective;
  if (granularity == "auto") recompute.granularity = RecomputeGranularity::automatic;
  // After a granularity that was refused, each written key is still checked by itself.
  const auto applies = [&](const char* key, const char* belongs_to) {
    section.ignore({key});
    if (granularity == belongs_to) return true;
    if (!section.has(key)) return false;
    if (granularity.empty()) return true;
    refuse_recompute_key(section, reading, *node->find(key), granularity, belongs_to);
    return false;
  };
  const RecomputeKeys keys{section, reading, recompute};
  if (applies("layers", "full")) read_named_layers(keys);
  const bool counts_layers = recompute.layers.empty();
  if (counts_layers && applies("method", "full")) {
    const std::string method = section.word("method", {{"uniform", "block"}, {}}, "uniform");
    recompute.method = method == "block" ? RecomputeMethod::block : RecomputeMethod::uniform;
  }
  if (counts_layers && applies("num_layers", "full")) read_recomputed_layers(keys);
  if (applies("saved", "selective") && section.has("saved")) read_saved_operators(keys);
  const bool names_modules = counts_layers && recompute.saved.empty();
  const bool in_other_layers = granularity == "full" && recompute.method == RecomputeMethod::block;
  if ((in_other_layers && section.has("modules")) || (names_modules && applies("modules", "selective"))) {
    const WordRule modules = {{"core_attn", "mlp", "layernorm", "moe", "moe_act", "shared_experts",
                               "mla_up_proj", "mamba", "delta_net"},
                              {"moe_router"}};
    recompute.modules = section.words("modules", modules, {"core_attn"});
  }
  if ((in_other_layers && !recompute.modules.empty()) ||
      (names_modules && applies("module_layers", "selective")))
    read_module_layers(keys);
  if (applies("memory_limit", "auto")) read_memory_limit(keys);
  section.finish();
}

}  // namespace simrun
