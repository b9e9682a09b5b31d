#include "models/vision_transformer.h"

#include "models/classifier.h"
#include "models/decoder.h"
#include "models/decoder_layer.h"
#include "models/first_token.h"
#include "models/graph_builder.h"
#include "models/patch_embedding.h"

namespace simrun {
namespace {

class VisionTransformerBuilder {
 public:
  explicit VisionTransformerBuilder(const Job& job)
      : job_(job),
        vit_(*family_as<VisionTransformerConfig>(job.model.family)),
        graph_(job.training.precision),
        dims_(decoder_dimensions(job, graph_)),
        layer_(job, dims_, graph_) {}

  Graph build() {
    TensorId x = embedding();
    for (std::int32_t layer = 0; layer < job_.model.num_layers; ++layer) {
      graph_.enter_layer(layer);
      x = layer_.add(x, layer);
    }
    graph_.leave_layers();
    x = layer_.norm("final_norm", x, "layernorm");
    const TensorId first = add_first_token(graph_, x, {dims_.batch, dims_.sequence, dims_.hidden});
    add_classifier(graph_, job_, first, {dims_.batch, dims_.hidden});
    return graph_.take();
  }

 private:
  TensorId embedding() {
    const std::int64_t pixels = vit_.patch_size * vit_.patch_size * vit_.image.channels;
    const TensorId x = add_patch_embedding(graph_, {vit_.tokens() - 1, pixels}, dims_);
    return job_.training.hidden_dropout > 0 ? layer_.add_rows("embedding_dropout", {x}) : x;
  }

  const Job& job_;
  const VisionTransformerConfig vit_;
  GraphBuilder graph_;
  DecoderDimensions dims_;
  DecoderLayer layer_;
};

}  // namespace

Graph vision_transformer_graph(const Job& job) { return VisionTransformerBuilder(job).build(); }

}  // namespace simrun
