// The model section: Hugging Face's config.json keys by model_type, or Megatron-LM's names for `gpt`.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "configs/limits.h"
#include "configs/load_sections.h"

namespace simrun {
namespace {

// Known, so that they are not taken for a misspelling of a supported one.
const std::vector<std::string> later_types = {
    "bert",     "bloom",     "deepseek_v2", "deepseek_v3", "falcon",  "gemma", "gemma2", "gemma3",
    "gpt_neox", "gpt_oss",   "grok-1",      "llama4",      "mixtral", "mpt",   "opt",    "phi",
    "phi3",     "qwen2_moe", "qwen3",       "qwen3_moe",   "t5",      "vit"};

const std::vector<std::string> supported_types = {"gpt", "gpt2", "llama", "mistral", "qwen2"};

// Keys of Hugging Face configs that change neither a shape nor a kernel: tokens, initialisation, scaling of
// the rotary angles, bookkeeping.
const std::vector<std::string> irrelevant_keys = {"_name_or_path",
                                                  "architectures",
                                                  "auto_map",
                                                  "begin_suppress_tokens",
                                                  "bos_token_id",
                                                  "chunk_size_feed_forward",
                                                  "decoder_start_token_id",
                                                  "dtype",
                                                  "eos_token_id",
                                                  "id2label",
                                                  "initializer_range",
                                                  "label2id",
                                                  "layer_norm_eps",
                                                  "layer_norm_epsilon",
                                                  "max_window_layers",
                                                  "output_attentions",
                                                  "output_hidden_states",
                                                  "output_past",
                                                  "pad_token_id",
                                                  "partial_rotary_factor",
                                                  "pretraining_tp",
                                                  "problem_type",
                                                  "reorder_and_upcast_attn",
                                                  "return_dict",
                                                  "rms_norm_eps",
                                                  "rope_parameters",
                                                  "rope_scaling",
                                                  "rope_theta",
                                                  "scale_attn_by_inverse_layer_idx",
                                                  "scale_attn_weights",
                                                  "summary_activation",
                                                  "summary_first_dropout",
                                                  "summary_proj_to_labels",
                                                  "summary_type",
                                                  "summary_use_proj",
                                                  "task_specific_params",
                                                  "tokenizer_class",
                                                  "torch_dtype",
                                                  "transformers_version",
                                                  "unk_token_id",
                                                  "use_cache"};

void refuse_if_true(SectionReader& section, Reading& reading, const std::string& key) {
  if (!section.has(key)) return section.ignore({key});
  if (section.boolean(key))
    reading.problem(section.path_of(key), fmt::format("'{}: true' is not supported yet", key));
  reading.take(section.path_of(key));
}

// A key whose only supported value is null; `what` names the feature.
void refuse_if_written(SectionReader& section, Reading& reading, const std::string& key,
                       const std::string& what) {
  const ConfigNode* node = section.section(key);
  if (node == nullptr) return;
  reading.problems.push_back(
      {node->position, fmt::format("{} is not supported yet", what), fmt::format("{}: null is.", key)});
}

// The activation's name decides only whether we know the kernel, so it is not kept.
void check_activation(SectionReader& section, Reading& reading, const std::string& key,
                      const std::vector<std::string>& accepted) {
  section.word(key, {accepted, {"relu", "relu2", "quick_gelu", "gelu_new", "gelu", "silu"}},
               accepted.front());
  reading.take(section.path_of(key));
}

// Keys of a model's own dropouts; an empty one is a dropout that the family does not have.
struct DropoutKeys {
  std::string attention;
  std::string hidden;
};

void read_dropout(SectionReader& section, Reading& reading, Job& job, const DropoutKeys& keys,
                  double fallback) {
  job.training.attention_dropout = section.real(keys.attention, limits::probability, fallback);
  if (std::optional<EffectiveValue> value = reading.take(section.path_of(keys.attention)))
    reading.record("training.attention_dropout", value->text, value->origin);
  if (keys.hidden.empty()) return;
  job.training.hidden_dropout = section.real(keys.hidden, limits::probability, fallback);
  if (std::optional<EffectiveValue> value = reading.take(section.path_of(keys.hidden)))
    reading.record("training.hidden_dropout", value->text, value->origin);
}

void read_gpt2(SectionReader& section, Reading& reading, Job& job) {
  ModelConfig& model = job.model;
  model.num_layers = section.integer("n_layer", limits::layers);
  model.hidden_size = section.integer("n_embd", limits::width);
  model.num_attention_heads = section.integer("n_head", limits::heads);
  model.num_key_value_heads = model.num_attention_heads;
  model.ffn_hidden_size = section.integer("n_inner", limits::width, 4 * model.hidden_size);
  model.vocab_size = section.integer("vocab_size", limits::vocabulary);
  if (section.has("n_positions") || !section.has("n_ctx")) {
    model.max_position_embeddings = section.integer("n_positions", limits::sequence);
    if (section.has("n_ctx")) {
      const std::int64_t context = section.integer("n_ctx", limits::sequence);
      reading.take(section.path_of("n_ctx"));
      if (context > 0 && model.max_position_embeddings > 0 && context != model.max_position_embeddings)
        reading.problem(section.path_of("n_ctx"), fmt::format("n_ctx {} and n_positions {} must agree",
                                                              context, model.max_position_embeddings));
    }
  } else {
    model.max_position_embeddings = section.integer("n_ctx", limits::sequence);
  }
  model.tie_word_embeddings = section.boolean("tie_word_embeddings", true);
  model.linear_bias = true;
  model.qkv_bias = true;
  read_dropout(section, reading, job, {"attn_pdrop", "resid_pdrop"}, 0.1);
  if (section.has("embd_pdrop")) {
    const double embedding = section.real("embd_pdrop", limits::probability);
    reading.take(section.path_of("embd_pdrop"));
    if (embedding != job.training.hidden_dropout)
      reading.problem(section.path_of("embd_pdrop"),
                      "a dropout of the embedding unlike resid_pdrop is not supported yet");
  }
  section.ignore({"embd_pdrop"});
  check_activation(section, reading, "activation_function",
                   {"gelu_new", "gelu", "gelu_pytorch_tanh", "gelu_fast"});
  refuse_if_true(section, reading, "add_cross_attention");
  section.ignore({"n_ctx", "n_positions"});
  section.ignore(irrelevant_keys);
}

// Which window of earlier tokens a token sees: only all of them, for now.
void check_attention_window(SectionReader& section, Reading& reading, const std::string& type) {
  const bool window_is_off =
      type == "qwen2" && !(section.has("use_sliding_window") && section.boolean("use_sliding_window"));
  reading.take(section.path_of("use_sliding_window"));
  section.ignore({"use_sliding_window"});
  if (type == "llama") return;
  if (window_is_off)
    section.ignore({"sliding_window"});
  else
    refuse_if_written(section, reading, "sliding_window", "sliding-window attention");
  const ConfigNode* layer_types = section.section("layer_types");
  if (layer_types == nullptr) return;
  for (const ConfigNode& layer : layer_types->children)
    if (layer.text != "full_attention") {
      reading.problems.push_back({layer.position,
                                  fmt::format("layer type {} is not supported yet", describe(layer)),
                                  "full_attention is."});
      return;
    }
}

void read_biases(SectionReader& section, Reading& reading, ModelConfig& model) {
  if (model.model_type == "mistral") return;
  if (model.model_type == "qwen2") {
    model.qkv_bias = true;
    return;
  }
  model.qkv_bias = section.boolean("attention_bias", false);
  model.linear_bias = section.boolean("mlp_bias", false);
  if (model.qkv_bias != model.linear_bias)
    reading.problem(section.path_of(model.qkv_bias ? "attention_bias" : "mlp_bias"),
                    "attention_bias and mlp_bias that differ are not supported yet");
}

// llama, mistral and qwen2.
void read_llama_like(SectionReader& section, Reading& reading, Job& job) {
  ModelConfig& model = job.model;
  model.num_layers = section.integer("num_hidden_layers", limits::layers);
  model.hidden_size = section.integer("hidden_size", limits::width);
  model.ffn_hidden_size = section.integer("intermediate_size", limits::width);
  model.num_attention_heads = section.integer("num_attention_heads", limits::heads);
  // The other two have defaults of their own in Hugging Face's code (8 and 32), so there the key is required.
  std::optional<std::int64_t> key_value_heads;
  if (model.model_type == "llama") key_value_heads = model.num_attention_heads;
  model.num_key_value_heads = section.integer("num_key_value_heads", limits::heads, key_value_heads);
  if (section.has("head_dim")) model.head_dim = section.integer("head_dim", limits::width);
  section.ignore({"head_dim"});
  model.vocab_size = section.integer("vocab_size", limits::vocabulary);
  section.ignore({"max_position_embeddings"});  // rotary positions have no table
  model.tie_word_embeddings = section.boolean("tie_word_embeddings", false);
  model.normalization = Normalization::rms_norm;
  model.activation = Activation::swiglu;
  model.position_embedding = PositionEmbedding::rope;
  read_biases(section, reading, model);
  read_dropout(section, reading, job, {"attention_dropout", ""}, 0);
  reading.record("training.hidden_dropout", "0", "default");
  check_activation(section, reading, "hidden_act", {"silu", "swish"});
  check_attention_window(section, reading, model.model_type);
  refuse_if_written(section, reading, "quantization_config", "a quantized model");
  section.ignore(irrelevant_keys);
}

void read_gpt(SectionReader& section, Reading& reading, Job& job) {
  ModelConfig& model = job.model;
  model.num_layers = section.integer("num_layers", limits::layers);
  model.hidden_size = section.integer("hidden_size", limits::width);
  const bool swiglu = section.boolean("swiglu", false);
  model.activation = swiglu ? Activation::swiglu : Activation::gelu;
  std::optional<std::int64_t> four_h;
  if (!swiglu) four_h = 4 * model.hidden_size;
  model.ffn_hidden_size = section.integer("ffn_hidden_size", limits::width, four_h);
  model.num_attention_heads = section.integer("num_attention_heads", limits::heads);
  model.num_key_value_heads = section.integer("num_query_groups", limits::heads, model.num_attention_heads);
  if (section.has("kv_channels")) model.head_dim = section.integer("kv_channels", limits::width);
  section.ignore({"kv_channels"});
  model.vocab_size = section.integer("vocab_size", limits::vocabulary);
  if (section.has("max_position_embeddings"))
    model.max_position_embeddings = section.integer("max_position_embeddings", limits::sequence);
  section.ignore({"max_position_embeddings"});
  model.tie_word_embeddings = !section.boolean("untie_embeddings_and_output_weights", false);
  const std::string norm = section.word("normalization", {{"LayerNorm", "RMSNorm"}, {}}, "LayerNorm");
  model.normalization = norm == "RMSNorm" ? Normalization::rms_norm : Normalization::layer_norm;
  const WordRule positions = {{"learned_absolute", "rope", "none"}, {"relative", "mrope", "yarn"}};
  const std::string position = section.word("position_embedding_type", positions, "learned_absolute");
  model.position_embedding = position == "rope"   ? PositionEmbedding::rope
                             : position == "none" ? PositionEmbedding::none
                                                  : PositionEmbedding::learned_absolute;
  model.linear_bias = !section.boolean("disable_bias_linear", false);
  model.qkv_bias = section.boolean("add_qkv_bias", false) || model.linear_bias;
  read_dropout(section, reading, job, {"attention_dropout", "hidden_dropout"}, 0.1);
}

void derive_head_size(SectionReader& section, Reading& reading, ModelConfig& model) {
  if (model.head_dim > 0 || model.hidden_size == 0 || model.num_attention_heads == 0) return;
  const bool is_gpt2 = model.model_type == "gpt2";  // has no key for it
  const std::string width_key = is_gpt2 ? "n_embd" : "hidden_size";
  const std::string head_key = model.model_type == "gpt" ? "kv_channels" : "head_dim";
  if (model.hidden_size % model.num_attention_heads == 0) {
    model.head_dim = model.hidden_size / model.num_attention_heads;
    if (!is_gpt2) reading.record(section.path_of(head_key), fmt::format("{}", model.head_dim), "default");
  } else {
    reading.problem(section.path_of(width_key),
                    fmt::format("{} {} does not split into {} attention heads", width_key, model.hidden_size,
                                model.num_attention_heads),
                    is_gpt2 ? "" : fmt::format("or write {}.", head_key));
  }
}

}  // namespace

void read_model(const ConfigNode* node, const PresetSearch& search, Reading& reading, Job& job) {
  if (node == nullptr) return reading.problem("model", "missing required section 'model'");
  const ResolvedSection resolved = resolve_from(*node, "models", search, reading);
  if (!resolved.found) reading.partial_sections.emplace_back("model");
  SectionReader section(reading, &resolved.node, "model");
  if (section.is_no_map()) return;
  section.ignore({"simrun"});
  if (!section.has("model_type") && !resolved.found) return;  // which keys it may have is not known
  if (!section.has("model_type"))
    return reading.problem("model", "missing required key 'model_type' in 'model'",
                           fmt::format("one of {}.", "gpt, gpt2, llama, mistral, qwen2"));
  job.model.model_type =
      section.word("model_type", {.accepted = supported_types, .not_yet = later_types, .may_guess = false});
  if (job.model.model_type.empty()) return;
  if (job.model.model_type == "gpt2")
    read_gpt2(section, reading, job);
  else if (job.model.model_type == "gpt")
    read_gpt(section, reading, job);
  else
    read_llama_like(section, reading, job);
  derive_head_size(section, reading, job.model);
  section.finish();
}

}  // namespace simrun
