#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "configs/load_sections.h"

// Reading the model section: what the keys of several families have in common.
namespace simrun {

struct ModelKeys {
  SectionReader& section;
  Reading& reading;
  Job& job;
  ModelConfig& model;  // of the job
};

// Keys of Hugging Face configs that change neither a shape nor a kernel: tokens, initialisation, scaling of
// the rotary angles, bookkeeping.
void ignore_bookkeeping(const ModelKeys& keys);

// A key that must be false, or not written, or null.
void refuse_if_true(const ModelKeys& keys, const std::string& key);
// A key whose only supported value is null; `what` names the feature.
void refuse_if_written(const ModelKeys& keys, const std::string& key, const std::string& what);

// What a norm adds to the variance: a key that changes no cost, with the family's own default.
void read_norm_epsilon(const ModelKeys& keys, const std::string& key, double fallback);
// What rope turns of each head, in Hugging Face's older key or its newer map; what is not written is
// `fallback`.
void read_rotary_share(const ModelKeys& keys, double fallback);
// The base of the rotary angles under `key`, or within Hugging Face's newer map `rope_parameters`.
void read_rope_base(const ModelKeys& keys, const std::string& key, double fallback);

// Hugging Face's and MPT's clip_qkv; not written or null: nothing is clipped.
void read_qkv_clip(const ModelKeys& keys);
// One number for each layer, 0 for one without rotary positions; where it is not written, every
// no_rope_layer_interval layers the last has none.
void read_layers_without_rope(const ModelKeys& keys, std::int64_t interval_default);

// A required number that is written under one of several keys; two that are written must agree.
struct Spelled {
  std::string key;  // the first that is written, or else of all
  std::int64_t value = 0;
};
Spelled read_spelled(const ModelKeys& keys, const std::vector<std::string>& spellings, IntegerRange range);

using ActivationWords = std::vector<std::pair<std::string, Activation>>;
// The first is the family's default.
Activation read_activation(const ModelKeys& keys, const std::string& key, const ActivationWords& words);
const ActivationWords& gelu_words();

// Keys of a model's own dropouts; an empty one is a dropout that the family does not have.
struct DropoutKeys {
  std::string attention;
  std::string hidden;
};
// They go to `training`, where they can be overridden.
void read_dropout(const ModelKeys& keys, const DropoutKeys& names, double fallback);
void read_attention_dropout(const ModelKeys& keys, const std::string& key, double fallback);
void read_hidden_dropout(const ModelKeys& keys, const std::string& key, double fallback);
// The dropout behind the embedding: 0, or the hidden one, whose key is `hidden`. After read_hidden_dropout.
void read_embedding_dropout(const ModelKeys& keys, const std::string& key, const std::string& hidden);

// Sets head_dim = width / heads unless head_key was written; families without such a key pass "".
void derive_head_size(const ModelKeys& keys, const std::string& width_key, const std::string& head_key);

// Which layers have a sliding window when layer_types is not written.
//   all_but_last_of  of every `period` layers all but the last
enum class WindowPattern : std::uint8_t { all_layers, even_layers, from_max_window_layers, all_but_last_of };
// Reads sliding_window and layer_types (and for Qwen use_sliding_window and max_window_layers).
void read_attention_windows(const ModelKeys& keys, WindowPattern pattern, std::int64_t period = 0);

// Llama 4's attention_chunk_size and layer_types; not written, layers with rotary positions have chunks.
// After read_layers_without_rope.
void read_attention_chunks(const ModelKeys& keys);

// The keys that families of Llama's kind share: shape, head_dim, vocabulary, tying; RMS norm and rotary
// positions.
struct LlamaDefaults {
  bool has_key_value_default = true;  // of num_key_value_heads: num_attention_heads
  std::int64_t head_dim = 0;          // 0: hidden_size / num_attention_heads
  bool tied = false;
  bool has_ffn = true;       // false: no layer has an MLP without experts
  bool has_head_dim = true;  // false: heads have other sizes than hidden_size / num_attention_heads
  const char* head_dim_key = "head_dim";
  bool is_shipped_quantized = false;  // the published weights are; what training uses is in its own section
  bool has_shape_defaults = false;    // LlamaConfig's own, Llama 7B's, where the shape is not written
  const char* epsilon_key = "rms_norm_eps";
  double norm_epsilon = 1e-6;
  double rope_base = 10000;
};
void read_llama_shape(const ModelKeys& keys, const LlamaDefaults& defaults);

}  // namespace simrun
