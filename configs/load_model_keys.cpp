#include "configs/load_model_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "configs/limits.h"

namespace simrun {

void ignore_bookkeeping(const ModelKeys& keys) {
  keys.section.ignore({"_attn_implementation_autoset",
                       "_name_or_path",
                       "architectures",
                       "attention_softmax_in_fp32",
                       "auto_map",
                       "begin_suppress_tokens",
                       "bos_token_id",
                       "cache_implementation",
                       "chunk_size_feed_forward",
                       "decoder_start_token_id",
                       "dtype",
                       "eos_token_id",
                       "id2label",
                       "init_device",
                       "init_method",
                       "init_std",
                       "initializer_range",
                       "is_llama_config",
                       "label2id",
                       "layer_norm_eps",
                       "layer_norm_epsilon",
                       "norm_eps",
                       "output_attentions",
                       "output_hidden_states",
                       "output_past",
                       "pad_token_id",
                       "prefix",
                       "pretraining_tp",
                       "problem_type",
                       "reorder_and_upcast_attn",
                       "return_dict",
                       "rms_norm_eps",
                       "rope_interleaved",
                       "rope_parameters",
                       "rope_scaling",
                       "rope_theta",
                       "scale_attention_softmax_in_fp32",
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
                       "use_cache"});
}

void refuse_if_true(const ModelKeys& keys, const std::string& key) {
  if (!keys.section.has(key)) return keys.section.ignore({key});
  const std::string path = keys.section.path_of(key);
  if (keys.section.boolean(key))
    keys.reading.problem(path, fmt::format("'{}: true' is not supported yet", key));
  keys.reading.take(path);
}

void refuse_if_written(const ModelKeys& keys, const std::string& key, const std::string& what) {
  const ConfigNode* node = keys.section.section(key);
  if (node == nullptr) return;
  keys.reading.problems.push_back(
      {node->position, fmt::format("{} is not supported yet", what), fmt::format("{}: null is.", key)});
}

namespace {

double written_or(SectionReader& section, const std::string& key, RealRange range, double fallback) {
  section.ignore({key});
  return section.has(key) ? section.real(key, range) : fallback;
}

}  // namespace

void read_norm_epsilon(const ModelKeys& keys, const std::string& key, double fallback) {
  keys.model.norm_epsilon = written_or(keys.section, key, limits::epsilon, fallback);
}

void read_rope_base(const ModelKeys& keys, const std::string& key, double fallback) {
  keys.model.scales_rope = keys.section.has("rope_scaling");
  keys.model.rope_base = written_or(keys.section, key, limits::rope_base, fallback);
  const ConfigNode* parameters = keys.section.section("rope_parameters");
  if (parameters == nullptr || keys.section.has(key)) return;
  SectionReader inner(keys.reading, parameters, keys.section.path_of("rope_parameters"));
  // By kind of layer: those without a window, whose angles count further.
  const ConfigNode* full = inner.section("full_attention");
  SectionReader of_full(keys.reading, full, inner.path_of("full_attention"));
  keys.model.rope_base =
      written_or(full != nullptr ? of_full : inner, "rope_theta", limits::rope_base, keys.model.rope_base);
}

void read_rotary_share(const ModelKeys& keys, double fallback) {
  const char* const key = "partial_rotary_factor";
  const ConfigNode* parameters = keys.section.section("rope_parameters");
  if (parameters != nullptr && !keys.section.has(key)) {
    SectionReader inner(keys.reading, parameters, keys.section.path_of("rope_parameters"));
    fallback = written_or(inner, key, limits::share, fallback);
  }
  keys.model.rotary_share = keys.section.real(key, limits::share, fallback);
}

void read_qkv_clip(const ModelKeys& keys) {
  keys.section.ignore({"clip_qkv"});
  if (keys.section.has("clip_qkv")) keys.model.qkv_clip = keys.section.real("clip_qkv", limits::clip);
}

void read_layers_without_rope(const ModelKeys& keys, std::int64_t interval_default) {
  ModelConfig& model = keys.model;
  const std::int64_t interval =
      keys.section.integer("no_rope_layer_interval", limits::layers, interval_default);
  const ConfigNode* node = keys.section.section("no_rope_layers");
  if (node == nullptr || (node->kind == ConfigNode::Kind::sequence && node->children.empty())) {
    for (std::int64_t layer = 0; layer < model.num_layers && interval > 0; ++layer)
      model.layers_without_rope.push_back((layer + 1) % interval == 0);
    return;
  }
  std::vector<std::string> words;
  for (const ConfigNode& layer : node->children) {
    if (layer.text != "0" && layer.text != "1") {
      keys.reading.problems.push_back(
          {layer.position, fmt::format("{} in no_rope_layers is neither 0 nor 1", describe(layer)),
           "1: with rotary positions, 0: without."});
      return;
    }
    words.push_back(layer.text);
    model.layers_without_rope.push_back(layer.text == "0");
  }
  if (static_cast<std::int64_t>(words.size()) != model.num_layers)
    return keys.reading.problem(
        keys.section.path_of("no_rope_layers"),
        fmt::format("no_rope_layers has {} entries for {} layers", words.size(), model.num_layers),
        "a list with one 0 or 1 for each layer.");
  keys.reading.record(keys.section.path_of("no_rope_layers"), fmt::format("[{}]", fmt::join(words, ", ")),
                      origin_of(node->position));
}

Spelled read_spelled(const ModelKeys& keys, const std::vector<std::string>& spellings, IntegerRange range) {
  Spelled read{spellings.front(), 0};
  const auto written = std::ranges::find_if(
      spellings, [&](const std::string& spelling) { return keys.section.has(spelling); });
  if (written != spellings.end()) read.key = *written;
  read.value = keys.section.integer(read.key, range);
  keys.section.ignore(spellings);
  for (const std::string& spelling : spellings) {
    if (spelling == read.key || !keys.section.has(spelling)) continue;
    const std::int64_t other = keys.section.integer(spelling, range);
    keys.reading.take(keys.section.path_of(spelling));
    if (other > 0 && read.value > 0 && other != read.value)
      keys.reading.problem(keys.section.path_of(spelling),
                           fmt::format("{} {} and {} {} must agree", spelling, other, read.key, read.value));
  }
  return read;
}

// A name that stands for the family's only activation need not be kept.
Activation read_activation(const ModelKeys& keys, const std::string& key, const ActivationWords& words) {
  std::vector<std::string> accepted;
  for (const auto& [word, activation] : words) accepted.push_back(word);
  const std::string word = keys.section.word(
      key, {accepted, {"relu", "relu2", "quick_gelu", "gelu_new", "gelu", "silu"}}, accepted.front());
  const auto found = std::ranges::find(words, word, &ActivationWords::value_type::first);
  const Activation activation = found == words.end() ? words.front().second : found->second;
  if (activation == words.front().second) keys.reading.take(keys.section.path_of(key));
  return activation;
}

// Exact or approximated by tanh: the same kernel.
const ActivationWords& gelu_words() {
  static const ActivationWords words = {{"gelu", Activation::gelu},
                                        {"gelu_new", Activation::gelu},
                                        {"gelu_fast", Activation::gelu},
                                        {"gelu_pytorch_tanh", Activation::gelu}};
  return words;
}

namespace {

double move_to_training(const ModelKeys& keys, const std::string& key, double fallback,
                        const char* training_path) {
  const double dropout = keys.section.real(key, limits::probability, fallback);
  if (std::optional<EffectiveValue> value = keys.reading.take(keys.section.path_of(key)))
    keys.reading.record(training_path, value->text, value->origin);
  return dropout;
}

}  // namespace

void read_attention_dropout(const ModelKeys& keys, const std::string& key, double fallback) {
  keys.job.training.attention_dropout = move_to_training(keys, key, fallback, "training.attention_dropout");
}

void read_hidden_dropout(const ModelKeys& keys, const std::string& key, double fallback) {
  keys.job.training.hidden_dropout = move_to_training(keys, key, fallback, "training.hidden_dropout");
}

void read_dropout(const ModelKeys& keys, const DropoutKeys& names, double fallback) {
  read_attention_dropout(keys, names.attention, fallback);
  if (names.hidden.empty())
    keys.reading.record("training.hidden_dropout", "0", "default");
  else
    read_hidden_dropout(keys, names.hidden, fallback);
}

void read_embedding_dropout(const ModelKeys& keys, const std::string& key, const std::string& hidden) {
  if (!keys.section.has(key)) return keys.section.ignore({key});
  const double embedding = keys.section.real(key, limits::probability);
  if (embedding == 0) {
    keys.model.embedding_dropout = false;
  } else if (embedding == keys.job.training.hidden_dropout) {
    keys.reading.take(keys.section.path_of(key));
  } else {
    keys.reading.problem(keys.section.path_of(key),
                         fmt::format("a dropout of the embedding unlike {} is not supported yet", hidden));
  }
}

void derive_head_size(const ModelKeys& keys, const std::string& width_key, const std::string& head_key) {
  ModelConfig& model = keys.model;
  if (!head_key.empty()) {
    if (keys.section.has(head_key)) model.head_dim = keys.section.integer(head_key, limits::width);
    keys.section.ignore({head_key});
  }
  if (model.head_dim > 0 || model.hidden_size == 0 || model.num_attention_heads == 0) return;
  if (model.hidden_size % model.num_attention_heads == 0) {
    model.head_dim = model.hidden_size / model.num_attention_heads;
    if (!head_key.empty())
      keys.reading.record(keys.section.path_of(head_key), fmt::format("{}", model.head_dim), "default");
    return;
  }
  keys.reading.problem(keys.section.path_of(width_key),
                       fmt::format("{} {} does not split into {} attention heads", width_key,
                                   model.hidden_size, model.num_attention_heads),
                       head_key.empty() ? "" : fmt::format("or write {}.", head_key));
}

void read_llama_shape(const ModelKeys& keys, const LlamaDefaults& defaults) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  const auto size = [&](const char* key, IntegerRange range, std::int64_t of_llama_7b) {
    return defaults.has_shape_defaults ? section.integer(key, range, of_llama_7b)
                                       : section.integer(key, range);
  };
  model.num_layers = size("num_hidden_layers", limits::layers, 32);
  model.hidden_size = size("hidden_size", limits::width, 4096);
  if (defaults.has_ffn)
    model.ffn_hidden_size = size("intermediate_size", limits::width, 11008);
  else
    section.ignore({"intermediate_size"});
  model.num_attention_heads = size("num_attention_heads", limits::heads, 32);
  std::optional<std::int64_t> key_value_heads;
  if (defaults.has_key_value_default) key_value_heads = model.num_attention_heads;
  model.num_key_value_heads = section.integer("num_key_value_heads", limits::heads, key_value_heads);
  if (!defaults.has_head_dim)
    section.ignore({defaults.head_dim_key});
  else if (defaults.head_dim > 0)
    model.head_dim = section.integer(defaults.head_dim_key, limits::width, defaults.head_dim);
  else
    derive_head_size(keys, "hidden_size", defaults.head_dim_key);
  model.vocab_size = size("vocab_size", limits::vocabulary, 32000);
  section.ignore({"max_position_embeddings"});  // rotary positions have no table
  model.tie_word_embeddings = section.boolean("tie_word_embeddings", defaults.tied);
  model.normalization = Normalization::rms_norm;
  model.position_embedding = PositionEmbedding::rope;
  if (defaults.is_shipped_quantized)
    section.ignore({"quantization_config"});
  else
    refuse_if_written(keys, "quantization_config", "a quantized model");
  read_norm_epsilon(keys, defaults.epsilon_key, defaults.norm_epsilon);
  read_rope_base(keys, "rope_theta", defaults.rope_base);
  ignore_bookkeeping(keys);
}

}  // namespace simrun
