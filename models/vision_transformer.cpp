#include "models/vision_transformer.h"

#include "models/classifier.h"
#include "models/decoder.h"
#include "models/decoder_layer.h"
#include "models/first_token.h"
#include "models/graph_builder.h"

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
  TensorId patch_embedding() {
    const DimensionId patches = graph_.dimension("patches", vit_.tokens() - 1);
    const DimensionId pixels =
        graph_.dimension("pixels", vit_.patch_size * vit_.patch_size * vit_.image.channels);
    const TensorId images =
        graph_.tensor("images", {dims_.batch, patches, pixels}, job_.training.precision, TensorKind::index);
    graph_.add("images", Opcode::input, Function::none, {}, {images});
    const TensorId weight = graph_.parameter("patch_weight", {pixels, dims_.hidden});
    const TensorId bias = graph_.parameter("patch_bias", {dims_.hidden});
    const TensorId embedded = graph_.activation("patch_embedding", {dims_.batch, patches, dims_.hidden});
    graph_.add("patch_embedding", Opcode::gemm, Function::none, {images, weight, bias}, {embedded});
    return embedded;
  }

  TensorId embedding() {
    const std::vector<DimensionId> rows{dims_.batch, dims_.sequence, dims_.hidden};
    const TensorId embedded = patch_embedding();
    const TensorId token = graph_.parameter("class_token", {dims_.hidden});
    const TensorId tokens = graph_.activation("class_token", rows);
    graph_.add("class_token", Opcode::map, Function::concatenate, {embedded, token}, {tokens}).whole_dims = {
        dims_.sequence};
    const DimensionId positions = graph_.dimension("positions", vit_.tokens());
    const TensorId table = graph_.parameter("position_embeddings", {positions, dims_.hidden});
    const TensorId x = graph_.activation("position_embedding", rows);
    graph_.add("position_embedding", Opcode::gather, Function::none, {table, tokens}, {x});
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
