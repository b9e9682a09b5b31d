#include "models/vision_language.h"

#include <optional>
#include <utility>
#include <vector>

#include "models/decoder.h"
#include "models/decoder_layer.h"
#include "models/graph_builder.h"
#include "models/loss.h"
#include "models/patch_embedding.h"
#include "models/up_projection.h"

namespace simrun {
namespace {

constexpr const char* vision_tower = "vision_tower";
constexpr const char* language_model = "language_model";

// A job of the tower alone, with as many samples as there are images.
Job tower_of(const Job& job, const VisionTowerConfig& tower) {
  Job own = job;
  own.model = {};
  own.model.num_layers = tower.layers;
  own.model.hidden_size = tower.hidden_size;
  own.model.ffn_hidden_size = tower.ffn_hidden_size;
  own.model.num_attention_heads = own.model.num_key_value_heads = tower.num_attention_heads;
  own.model.head_dim = tower.hidden_size / tower.num_attention_heads;
  own.model.position_embedding = PositionEmbedding::none;
  own.model.qkv_bias = own.model.projection_bias = own.model.mlp_bias = true;
  own.model.causal_attention = false;
  own.training.seq_length = tower.patches() + 1;
  own.training.micro_batch_size *= job.training.images_per_sample;
  own.training.attention_dropout = own.training.hidden_dropout = 0;
  return own;
}

class VisionLanguageBuilder {
 public:
  explicit VisionLanguageBuilder(const Job& job)
      : job_(job),
        config_(*family_as<VisionLanguageConfig>(job.model.family)),
        tower_job_(tower_of(job, config_.tower)),
        graph_(job.training.precision),
        text_(decoder_dimensions(job, graph_)),
        vocab_(padded_vocabulary(job, graph_)),
        vision_(decoder_dimensions(tower_job_, graph_)),
        vision_layer_(tower_job_, vision_, graph_),
        text_layer_(job, text_, graph_) {
    graph_.keep_whole(vision_.sequence);
  }

  Graph build() {
    const TensorId features = tower();
    graph_.enter_layer(first_of_decoder());
    graph_.mark({.stack = vision_tower, .before_layer = true});
    const ImageRows images = selected(features);
    graph_.mark({.stack = "multi_modal_projector", .before_layer = true});
    const ImageRows projection = projected(images);
    graph_.mark({.stack = language_model, .before_layer = true});
    TensorId x = merged(projection, embedded_text());
    graph_.mark({.stack = language_model});
    for (std::int32_t layer = 0; first_of_decoder() + layer < job_.model.num_layers; ++layer) {
      graph_.enter_layer(first_of_decoder() + layer);
      x = text_layer_.add(x, layer);
    }
    graph_.leave_layers();
    head(text_layer_.norm("final_norm", x, "layernorm"));
    return graph_.take();
  }

 private:
  std::int32_t first_of_decoder() const { return static_cast<std::int32_t>(config_.tower.layers); }
  std::vector<DimensionId> rows_of_text() const { return {text_.batch, text_.sequence, text_.hidden}; }

  // The output of the layer that is read, [images, patches + 1, hidden].
  TensorId tower() {
    const VisionTowerConfig& tower = config_.tower;
    graph_.begin_names_with("vision_");
    graph_.mark({.stack = vision_tower});
    const std::int64_t pixels = tower.patch_size * tower.patch_size * tower.channels;
    TensorId x = add_patch_embedding(graph_, {tower.patches(), pixels, /*bias=*/false}, vision_);
    x = vision_layer_.norm("embedding_norm", x, "");
    TensorId features = x;
    for (std::int32_t layer = 0; layer < tower.layers; ++layer) {
      graph_.enter_layer(layer);
      if (layer == tower.features) graph_.mark({.stack = vision_tower, .discarded = true});
      x = vision_layer_.add(x, layer);
      if (layer + 1 == tower.features) features = x;
    }
    graph_.mark({.stack = vision_tower, .discarded = true});
    vision_layer_.norm("final_norm", x, "layernorm");
    graph_.begin_names_with("");
    return features;
  }

  // Rows of images, [images, `rows`, hidden of the tower or the decoder].
  struct ImageRows {
    TensorId tensor = 0;
    DimensionId rows = 0;
  };

  // Without the class token's, or with.
  ImageRows selected(TensorId features) {
    if (config_.class_token_is_read) return {features, vision_.sequence};
    const DimensionId rows = graph_.dimension("patches", config_.tower.patches());
    const TensorId patches = graph_.activation("vision_features", {vision_.batch, rows, vision_.hidden});
    graph_.add("vision_features", Opcode::map, Function::select, {features}, {patches});
    return {patches, rows};
  }

  // As wide between its layers as behind them.
  ImageRows projected(ImageRows features) {
    graph_.begin_names_with("projector_");
    const DimensionId inner = graph_.dimension("ffn", job_.model.hidden_size);
    const TensorId activated = add_up_projection({.name = "fc1",
                                                  .activation = "activation",
                                                  .module = "",
                                                  .product_module = "",
                                                  .activation_module = "",
                                                  .rows = {vision_.batch, features.rows},
                                                  .experts = {},
                                                  .hidden = vision_.hidden,
                                                  .gate = vision_.gate,
                                                  .ffn = inner,
                                                  .function = Activation::gelu,
                                                  .bias = config_.projector_bias},
                                                 features.tensor, graph_);
    const std::vector<DimensionId> rows{vision_.batch, features.rows, text_.hidden};
    const TensorId product = graph_.activation("fc2", rows);
    graph_.add("fc2", Opcode::gemm, Function::none,
               {activated, graph_.parameter("fc2_weight", {inner, text_.hidden})}, {product});
    TensorId out = product;
    if (config_.projector_bias) {  // of sums over tensor-parallel ranks
      out = graph_.activation("add", rows);
      graph_.add("add", Opcode::map, Function::add, {product, graph_.parameter("fc2_bias", {text_.hidden})},
                 {out});
    }
    graph_.begin_names_with("");
    return {out, features.rows};
  }

  ImageRows embedded_text() {
    const std::int64_t images = job_.training.images_per_sample * config_.tokens_of_image();
    const DimensionId text = graph_.dimension("text", job_.training.seq_length - images);
    const TensorId tokens = add_indices(graph_, "tokens", {text_.batch, text}, text);
    word_table_ = graph_.parameter("word_embeddings", {vocab_, text_.hidden});
    const TensorId x = graph_.activation("word_embedding", {text_.batch, text, text_.hidden});
    graph_.add("word_embedding", Opcode::gather, Function::none, {word_table_, tokens}, {x});
    return {x, text};
  }

  TensorId merged(ImageRows images, ImageRows text) {
    const TensorId x = graph_.activation("merge_images", rows_of_text());
    Operator& op =
        graph_.add("merge_images", Opcode::map, Function::concatenate, {images.tensor, text.tensor}, {x});
    op.whole_dims = {images.rows, text.rows, text_.sequence};
    op.regroup = Regroup{{vision_.batch}, text_.batch};
    return x;
  }

  void head(TensorId y) {
    const bool tied = job_.model.tie_word_embeddings;
    const TensorId table = tied ? word_table_ : graph_.parameter("output_weight", {vocab_, text_.hidden});
    add_token_loss(graph_, y, table, {text_.batch, text_.sequence, vocab_});
  }

  const Job& job_;
  const VisionLanguageConfig config_;
  const Job tower_job_;
  GraphBuilder graph_;
  DecoderDimensions text_;
  DimensionId vocab_;
  DecoderDimensions vision_;
  DecoderLayer vision_layer_, text_layer_;
  TensorId word_table_ = 0;
};

}  // namespace

Graph vision_language_graph(const Job& job) { return VisionLanguageBuilder(job).build(); }

}  // namespace simrun
