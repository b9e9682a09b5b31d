#include "models/bert.h"

#include <utility>
#include <vector>

#include "models/decoder.h"
#include "models/decoder_layer.h"
#include "models/first_token.h"
#include "models/graph_builder.h"
#include "models/loss.h"

namespace simrun {
namespace {

class BertBuilder {
 public:
  explicit BertBuilder(const Job& job)
      : model_(job.model),
        training_(job.training),
        bert_(*family_as<BertConfig>(job.model.family)),
        graph_(job.training.precision),
        dims_(decoder_dimensions(job, graph_)),
        vocab_(padded_vocabulary(job, graph_)),
        layer_(job, dims_, graph_) {}

  Graph build() {
    TensorId x = embedding();
    for (std::int32_t layer = 0; layer < model_.num_layers; ++layer) {
      graph_.enter_layer(layer);
      x = layer_.add(x, layer);
    }
    graph_.leave_layers();
    masked_language_model(x);
    if (bert_.next_sentence_head) next_sentence(x);
    return graph_.take();
  }

 private:
  std::vector<DimensionId> rows() const { return {dims_.batch, dims_.sequence, dims_.hidden}; }
  TensorId data(const char* name, std::vector<double> constants = {}) {
    return add_indices(graph_, name, {dims_.batch, dims_.sequence}, dims_.sequence, std::move(constants));
  }
  TensorId dense(const std::string& name, TensorId x, DimensionId from, std::vector<DimensionId> to) {
    const TensorId weight = graph_.parameter(name + "_weight", {from, to.back()});
    const TensorId bias = graph_.parameter(name + "_bias", {to.back()});
    const TensorId y = graph_.activation(name, std::move(to));
    graph_.add(name, Opcode::gemm, Function::none, {x, weight, bias}, {y});
    return y;
  }

  TensorId embedding() {
    const TensorId tokens = data("tokens");
    word_table_ = graph_.parameter("word_embeddings", {vocab_, dims_.hidden});
    TensorId x = graph_.activation("word_embedding", rows());
    graph_.add("word_embedding", Opcode::gather, Function::none, {word_table_, tokens}, {x});
    const DimensionId positions = graph_.dimension("positions", model_.max_position_embeddings);
    const TensorId table = graph_.parameter("position_embeddings", {positions, dims_.hidden});
    const TensorId placed = graph_.activation("position_embedding", rows());
    graph_.add("position_embedding", Opcode::gather, Function::none, {table, x}, {placed}).constants = {0};
    x = bert_.token_types > 0 ? segments(placed) : placed;
    x = layer_.norm("embedding_norm", x, "");
    return training_.hidden_dropout > 0 ? layer_.add_rows("embedding_dropout", {x}) : x;
  }

  TensorId segments(TensorId x) {
    const TensorId types = data("token_types", {0, static_cast<double>(bert_.token_types)});
    const DimensionId kinds = graph_.dimension("token_types", bert_.token_types);
    const TensorId table = graph_.parameter("token_type_embeddings", {kinds, dims_.hidden});
    const TensorId rows_of_types = graph_.activation("token_type_embedding", rows());
    graph_.add("token_type_embedding", Opcode::gather, Function::none, {table, types}, {rows_of_types});
    const TensorId sum = graph_.activation("embedding_sum", rows());
    graph_.add("embedding_sum", Opcode::map, Function::add, {x, rows_of_types}, {sum});
    return sum;
  }

  void masked_language_model(TensorId x) {
    const DimensionId transform = graph_.dimension("transform", model_.hidden_size);
    const std::vector<DimensionId> transformed{dims_.batch, dims_.sequence, transform};
    const TensorId weight = graph_.parameter("transform_weight", {dims_.hidden, transform});
    const TensorId product = graph_.activation("transform", transformed);
    graph_.add("transform", Opcode::gemm, Function::none, {x, weight}, {product});
    const TensorId activated = graph_.activation("transform_activation", transformed);
    graph_.add("transform_activation", Opcode::map, Function::gelu,
               {product, graph_.parameter("transform_bias", {transform})}, {activated});
    const TensorId y = transform_norm(activated, transform);

    const TensorId table =
        model_.tie_word_embeddings ? word_table_ : graph_.parameter("output_weight", {vocab_, dims_.hidden});
    const std::vector<DimensionId> scores{dims_.batch, dims_.sequence, vocab_};
    const TensorId logits = graph_.activation("logits", scores);
    graph_.add("logits", Opcode::gemm, Function::none, {y, table, graph_.parameter("output_bias", {vocab_})},
               {logits});
    const TensorId wide = add_fp32(graph_, "logits", logits, scores, training_.precision);
    add_cross_entropy(graph_, "", {wide, data("labels")}, {dims_.batch, dims_.sequence});
  }

  // Its output is `hidden` again, so that the word table contracts it.
  TensorId transform_norm(TensorId x, DimensionId transform) {
    const TensorId y = graph_.activation("transform_norm", rows());
    const TensorId statistics =
        graph_.tensor("transform_norm_statistics", {dims_.batch, dims_.sequence, dims_.statistics},
                      Dtype::fp32, TensorKind::activation);
    Operator& op = graph_.add("transform_norm", Opcode::norm, Function::layer_norm,
                              {x, graph_.parameter("transform_norm_weight", {transform}),
                               graph_.parameter("transform_norm_bias", {transform})},
                              {y, statistics});
    op.whole_dims = {dims_.hidden, transform};
    op.constants = {model_.norm_epsilon};
    return y;
  }

  void next_sentence(TensorId x) {
    const TensorId first = add_first_token(graph_, x, {dims_.batch, dims_.sequence, dims_.hidden});
    const DimensionId pooled = graph_.dimension("pooled", model_.hidden_size);
    const TensorId product = dense("pooler", first, dims_.hidden, {dims_.batch, pooled});
    const TensorId activated = graph_.activation("pooler_activation", {dims_.batch, pooled});
    graph_.add("pooler_activation", Opcode::map, Function::tanh, {product}, {activated});
    const DimensionId two = graph_.dimension("next_sentence", 2);
    const TensorId logits = dense("next_sentence_logits", activated, pooled, {dims_.batch, two});
    const TensorId wide =
        add_fp32(graph_, "next_sentence_logits", logits, {dims_.batch, two}, training_.precision);
    const TensorId labels = add_indices(graph_, "next_sentence_labels", {dims_.batch}, {}, {0, 2});
    add_cross_entropy(graph_, "next_sentence_", {wide, labels}, {dims_.batch});
  }

  const ModelConfig& model_;
  const Training& training_;
  const BertConfig bert_;
  GraphBuilder graph_;
  DecoderDimensions dims_;
  DimensionId vocab_;
  DecoderLayer layer_;
  TensorId word_table_ = 0;
};

}  // namespace

Graph bert_graph(const Job& job) { return BertBuilder(job).build(); }

}  // namespace simrun
