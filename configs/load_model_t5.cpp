// Encoder-decoders: T5 by Hugging Face's keys, and M6 by Megatron-LM's.
#include <algorithm>

#include "configs/limits.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

void use_encoder_decoder(ModelConfig& model, const EncoderDecoderConfig& stacks) {
  model.num_key_value_heads = model.num_attention_heads;
  model.num_layers = stacks.encoder_layers + stacks.decoder_layers;
  model.family = stacks;
}

// One rate for both dropouts.
void read_one_dropout(const ModelKeys& keys, const std::string& key, double fallback) {
  read_attention_dropout(keys, key, fallback);
  keys.job.training.hidden_dropout = keys.job.training.attention_dropout;
  const auto written =
      std::ranges::find(keys.reading.values, "training.attention_dropout", &EffectiveValue::path);
  if (written == keys.reading.values.end()) return;
  const EffectiveValue value = *written;
  keys.reading.record("training.hidden_dropout", value.text, value.origin);
}

}  // namespace

// T5 (Raffel et al. 2020, arXiv 1910.10683, section 2.1): RMS norms, no biases, relative positions as one
// bias per head and distance. `relu` is the paper's; `gated-gelu` that of T5 1.1 and mT5.
void read_t5(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  EncoderDecoderConfig stacks;
  stacks.encoder_layers = section.integer("num_layers", limits::layers);
  stacks.decoder_layers = section.integer("num_decoder_layers", limits::layers, stacks.encoder_layers);
  model.hidden_size = section.integer("d_model", limits::width);
  model.head_dim = section.integer("d_kv", limits::width);
  model.ffn_hidden_size = section.integer("d_ff", limits::width);
  model.num_attention_heads = section.integer("num_heads", limits::heads);
  model.vocab_size = section.integer("vocab_size", limits::vocabulary);
  stacks.relative_buckets = section.integer("relative_attention_num_buckets", limits::heads, 32);
  const std::string feed_forward =
      section.word("feed_forward_proj", {{"relu", "gated-gelu"}, {"gated-silu", "gelu", "silu"}}, "relu");
  model.activation = feed_forward == "gated-gelu" ? Activation::geglu : Activation::relu;
  model.tie_word_embeddings = section.boolean("tie_word_embeddings", true);
  model.normalization = Normalization::rms_norm;
  model.position_embedding = PositionEmbedding::none;
  read_one_dropout(keys, "dropout_rate", 0.1);
  section.ignore({"dense_act_fn", "initializer_factor", "is_encoder_decoder", "is_gated_act", "n_positions",
                  "relative_attention_max_distance", "classifier_dropout"});
  ignore_bookkeeping(keys);
  use_encoder_decoder(model, stacks);
}

// M6 (Lin et al. 2021, arXiv 2103.00823): Transformer layers with biases and layer norms before each
// sublayer, learned positions; text only here, without its image patches.
void read_m6(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  EncoderDecoderConfig stacks;
  stacks.encoder_layers = section.integer("encoder_num_layers", limits::layers);
  stacks.decoder_layers = section.integer("decoder_num_layers", limits::layers, stacks.encoder_layers);
  model.hidden_size = section.integer("hidden_size", limits::width);
  model.ffn_hidden_size = section.integer("ffn_hidden_size", limits::width, 4 * model.hidden_size);
  model.num_attention_heads = section.integer("num_attention_heads", limits::heads);
  model.vocab_size = section.integer("vocab_size", limits::vocabulary);
  model.max_position_embeddings = section.integer("max_position_embeddings", limits::sequence);
  model.tie_word_embeddings = !section.boolean("untie_embeddings_and_output_weights", false);
  model.qkv_bias = model.projection_bias = model.mlp_bias = true;
  read_dropout(keys, {"attention_dropout", "hidden_dropout"}, 0.1);
  derive_head_size(keys, "hidden_size", "kv_channels");
  use_encoder_decoder(model, stacks);
}

}  // namespace simrun
