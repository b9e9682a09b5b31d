#include "models/decoder.h"

#include <utility>

#include "models/decoder_layer.h"
#include "models/graph_builder.h"
#include "models/latent_attention.h"
#include "models/moe_layer.h"

namespace simrun {
namespace {

DecoderDimensions layer_dimensions(const Job& job, GraphBuilder& graph) {
  const ModelConfig& model = job.model;
  const std::int64_t group = model.num_attention_heads / model.num_key_value_heads;
  DecoderDimensions dims;
  dims.batch = graph.dimension("batch", job.training.micro_batch_size * job.parallelism.data_parallel_size);
  dims.sequence = graph.dimension("sequence", job.training.seq_length);
  dims.hidden = graph.dimension("hidden", model.hidden_size);
  dims.kv_heads = graph.dimension("kv_heads", model.num_key_value_heads);
  dims.group = graph.dimension("group", group);
  dims.qkv = graph.dimension("qkv", group + 2);
  dims.qk = graph.dimension("qk", 2);
  dims.head_dim = graph.dimension("head_dim", model.head_dim);
  if (model.ffn_hidden_size > 0) dims.ffn = graph.dimension("ffn", model.ffn_hidden_size);
  dims.gate = graph.dimension("gate", 2);
  dims.key_sequence = graph.dimension("key_sequence", job.training.seq_length);
  dims.statistics = graph.dimension("statistics", model.normalization == Normalization::layer_norm ? 2 : 1);
  dims.one = graph.dimension("one", 1);
  if (model.experts.count > 0) dims.moe = moe_dimensions(job, graph);
  if (model.mla.on()) dims.latent = latent_dimensions(model.mla, graph);
  return dims;
}

DimensionId vocabulary(const Job& job, GraphBuilder& graph) {
  const std::int64_t multiple = 128 * job.parallelism.tensor_model_parallel_size;
  const std::int64_t padded = (job.model.vocab_size + multiple - 1) / multiple * multiple;
  return graph.dimension("vocab", job.model.vocab_size, padded);
}

// Embedding, layers and head.
class DecoderBuilder {
 public:
  explicit DecoderBuilder(const Job& job)
      : model_(job.model),
        training_(job.training),
        graph_(job.training.precision),
        dims_(layer_dimensions(job, graph_)),
        vocab_(vocabulary(job, graph_)),
        layer_(job, dims_, graph_) {}

  Graph build() {
    TensorId x = embedding();
    for (std::int32_t layer = 0; layer < model_.num_layers; ++layer) {
      graph_.enter_layer(layer);
      x = layer_.add(x, layer);
    }
    graph_.leave_layers();
    cross_entropy(logits(x));
    return graph_.take();
  }

 private:
  std::vector<DimensionId> rows() const { return {dims_.batch, dims_.sequence, dims_.hidden}; }

  TensorId wide(const char* name, std::vector<DimensionId> dims) {
    return graph_.tensor(name, std::move(dims), Dtype::fp32, TensorKind::activation);
  }

  // Every rank can read all of its samples: the data need no exchange.
  TensorId data(const char* name) {
    const TensorId indices =
        graph_.tensor(name, {dims_.batch, dims_.sequence}, Dtype::int64, TensorKind::index);
    graph_.add(name, Opcode::input, Function::none, {}, {indices}).whole_dims = {dims_.sequence};
    return indices;
  }

  TensorId embedding() {
    const TensorId tokens = data("tokens");
    word_table_ = graph_.parameter("word_embeddings", {vocab_, dims_.hidden});
    TensorId x = graph_.activation("word_embedding", rows());
    graph_.add("word_embedding", Opcode::gather, Function::none, {word_table_, tokens}, {x});
    if (model_.embedding_scale) {
      const TensorId scaled = graph_.activation("embedding_scale", rows());
      graph_.add("embedding_scale", Opcode::map, Function::scale, {x}, {scaled});
      x = scaled;
    }
    if (model_.position_embedding == PositionEmbedding::learned_absolute) {
      const DimensionId positions =
          graph_.dimension("positions", model_.max_position_embeddings + model_.reserved_positions);
      const TensorId table = graph_.parameter("position_embeddings", {positions, dims_.hidden});
      const TensorId sum = graph_.activation("position_embedding", rows());
      graph_.add("position_embedding", Opcode::gather, Function::none, {table, x}, {sum});
      x = sum;
    }
    if (model_.embedding_norm) x = layer_.norm("embedding_norm", x, "");
    if (model_.embedding_dropout && training_.hidden_dropout > 0)
      x = layer_.add_rows("embedding_dropout", {x});
    return x;
  }

  // Final norm and logits. They are kept in fp32 for the softmax (Korthikanti et al. 2022, section 4.3: 4sbv
  // bytes).
  TensorId logits(TensorId x) {
    // Behind a post-norm layer there is nothing left to normalise.
    const TensorId y =
        model_.norm_placement == NormPlacement::post ? x : layer_.norm("final_norm", x, "layernorm");
    const TensorId table =
        model_.tie_word_embeddings ? word_table_ : graph_.parameter("output_weight", {vocab_, dims_.hidden});
    const std::vector<DimensionId> scores{dims_.batch, dims_.sequence, vocab_};
    TensorId logits = graph_.activation("logits", scores);
    graph_.add("logits", Opcode::gemm, Function::none, {y, table}, {logits});
    if (training_.precision != Dtype::fp32 && training_.precision != Dtype::tf32) {
      const TensorId cast = wide("logits_fp32", scores);
      graph_.add("logits_fp32", Opcode::map, Function::cast, {logits}, {cast});
      logits = cast;
    }
    if (model_.logit_soft_cap > 0) {
      const TensorId capped = wide("logits_soft_cap", scores);
      graph_.add("logits_soft_cap", Opcode::map, Function::soft_cap, {logits}, {capped}).soft_cap =
          model_.logit_soft_cap;
      logits = capped;
    }
    return logits;
  }

  // The row maximum and the sums are separate operators, so that their all-reduces over a split vocabulary
  // follow from layouts.
  void cross_entropy(TensorId logits) {
    const TensorId labels = data("labels");
    const TensorId maximum = wide("logits_max", {dims_.batch, dims_.sequence});
    graph_.add("logits_max", Opcode::reduce, Function::max, {logits}, {maximum});
    const DimensionId two = graph_.dimension("sums", 2);
    const TensorId sums = wide("cross_entropy_sums", {dims_.batch, dims_.sequence, two});
    graph_.add("cross_entropy", Opcode::cross_entropy, Function::none, {logits, maximum, labels}, {sums});
    const TensorId loss = wide("loss", {dims_.batch, dims_.sequence});
    graph_.add("loss", Opcode::map, Function::log_loss, {sums, maximum, logits, labels}, {loss})
        .forward_inputs = 2;
  }

  const ModelConfig& model_;
  const Training& training_;
  GraphBuilder graph_;
  DecoderDimensions dims_;
  DimensionId vocab_;
  DecoderLayer layer_;
  TensorId word_table_ = 0;
};

}  // namespace

Graph decoder_graph(const Job& job) { return DecoderBuilder(job).build(); }

}  // namespace simrun
