#include "models/decoder.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/decoder_layer.h"
#include "models/delta_net_layer.h"
#include "models/graph_builder.h"
#include "models/latent_attention.h"
#include "models/loss.h"
#include "models/mamba_layer.h"
#include "models/moe_layer.h"

namespace simrun {

DecoderDimensions decoder_dimensions(const Job& job, GraphBuilder& graph) {
  const ModelConfig& model = job.model;
  const std::int64_t tp = job.parallelism.tensor_model_parallel_size,
                     exchange = job.parallelism.context_a2a_size;
  const bool copies_heads = copies_key_value_heads(model, tp, exchange);
  const std::int64_t kv_heads = copies_heads ? tp * exchange : model.num_key_value_heads;
  const std::int64_t group = model.num_attention_heads / kv_heads;
  DecoderDimensions dims;
  dims.batch = graph.dimension("batch", job.training.micro_batch_size * job.parallelism.data_parallel_size);
  dims.sequence = graph.dimension("sequence", job.training.seq_length);
  dims.hidden = graph.dimension("hidden", model.hidden_size);
  dims.kv_heads = graph.dimension("kv_heads", kv_heads);
  dims.group = graph.dimension("group", group);
  dims.qkv = graph.dimension("qkv", group + 2);
  dims.qk = graph.dimension("qk", 2);
  if (model.qk_norm == QkNorm::of_all_heads || model.qk_norm == QkNorm::by_head)
    dims.qk_heads = graph.dimension("qk_heads", group + 1);
  dims.head_dim = graph.dimension("head_dim", model.head_dim);
  if (model.ffn_hidden_size > 0) dims.ffn = graph.dimension("ffn", model.ffn_hidden_size);
  dims.gate = graph.dimension("gate", 2);
  dims.key_sequence = graph.dimension("key_sequence", job.training.seq_length);
  dims.statistics = graph.dimension("statistics", model.normalization == Normalization::layer_norm ? 2 : 1);
  dims.one = graph.dimension("one", 1);
  if (copies_heads)
    dims.qkv_rows = graph.dimension(
        "qkv_rows", (model.num_attention_heads + 2 * model.num_key_value_heads) * model.head_dim);
  if (model.experts.count > 0) dims.moe = moe_dimensions(job, graph);
  if (model.mamba.on()) dims.mamba = mamba_dimensions(model.mamba, graph);
  if (model.delta_net.on()) dims.delta_net = delta_net_dimensions(model.delta_net, graph);
  if (model.mla.on()) dims.latent = latent_dimensions(model.mla, graph);
  return dims;
}

DimensionId padded_vocabulary(const Job& job, GraphBuilder& graph) {
  const std::int64_t multiple = 128 * job.parallelism.largest_tensor_size();
  const std::int64_t padded = (job.model.vocab_size + multiple - 1) / multiple * multiple;
  return graph.dimension("vocab", job.model.vocab_size, padded);
}

namespace {

// Of the mean loss of the further tokens, DeepSeek-V3's lambda (section 4.2, of most of its training).
constexpr double further_weight = 0.3;

// Embedding, layers and head.
class DecoderBuilder {
 public:
  explicit DecoderBuilder(const Job& job)
      : model_(job.model),
        training_(job.training),
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
    std::vector<TensorId> states{x};  // behind the layers, and behind each that predicts further tokens
    for (std::int32_t depth = 0; depth < model_.num_nextn_predict_layers; ++depth)
      states.push_back(further_token(states.back(), depth));
    graph_.leave_layers();
    for (std::size_t depth = 0; depth < states.size(); ++depth) {
      const std::string prefix = depth == 0 ? "" : "mtp_";
      const TensorId scores = logits(states[depth], prefix);
      const TensorId labels = data(prefix + "labels", {static_cast<double>(depth + 1)});
      const double weight = depth == 0 ? 1 : further_weight / static_cast<double>(states.size() - 1);
      add_cross_entropy(graph_, prefix, {scores, labels, weight}, {dims_.batch, dims_.sequence});
    }
    return graph_.take();
  }

 private:
  std::vector<DimensionId> rows() const { return {dims_.batch, dims_.sequence, dims_.hidden}; }

  TensorId wide(const std::string& name, std::vector<DimensionId> dims) {
    return graph_.tensor(name, std::move(dims), Dtype::fp32, TensorKind::activation);
  }

  // Every rank can read all of its samples: the data need no exchange.
  TensorId data(const std::string& name, std::vector<double> constants = {}) {
    return add_indices(graph_, name, {dims_.batch, dims_.sequence}, dims_.sequence, std::move(constants));
  }

  TensorId embedding() {
    const TensorId tokens = data("tokens");
    word_table_ = graph_.parameter("word_embeddings", {vocab_, dims_.hidden});
    TensorId x = graph_.activation("word_embedding", rows());
    graph_.add("word_embedding", Opcode::gather, Function::none, {word_table_, tokens}, {x});
    if (model_.embedding_multiplier != 1)
      x = layer_.scaled("embedding_scale", x, model_.embedding_multiplier);
    if (model_.position_embedding == PositionEmbedding::learned_absolute) {
      const DimensionId positions =
          graph_.dimension("positions", model_.max_position_embeddings + model_.reserved_positions);
      const TensorId table = graph_.parameter("position_embeddings", {positions, dims_.hidden});
      const TensorId sum = graph_.activation("position_embedding", rows());
      Operator& op = graph_.add("position_embedding", Opcode::gather, Function::none, {table, x}, {sum});
      op.whole_dims = {positions};
      op.constants = {static_cast<double>(model_.reserved_positions)};
      x = sum;
    }
    if (model_.embedding_norm) x = layer_.norm("embedding_norm", x, "");
    if (model_.embedding_dropout && training_.hidden_dropout > 0)
      x = layer_.add_rows("embedding_dropout", {x});
    return x;
  }

  // Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2, equations 21-23): the state of the
  // layers before and the embedding of the next token, each normalised, side by side through a product of
  // 2 h x h and one more layer of the last one's kind, or those that the model says. Table and output head
  // are those of the model.
  TensorId further_token(TensorId state, std::int32_t depth) {
    const auto layers = static_cast<std::int32_t>(model_.num_layers);
    graph_.enter_layer(layers + depth);
    const TensorId tokens = data("mtp_tokens", {static_cast<double>(depth + 1)});
    const TensorId embedded = graph_.activation("mtp_embedding", rows());
    graph_.add("mtp_embedding", Opcode::gather, Function::none, {word_table_, tokens}, {embedded});
    if (depth == 0) double_hidden_ = graph_.dimension("double_hidden", 2 * model_.hidden_size);
    const TensorId pair = graph_.activation("mtp_concat", {dims_.batch, dims_.sequence, double_hidden_});
    graph_.add("mtp_concat", Opcode::map, Function::concat,
               {layer_.norm("mtp_embedding_norm", embedded, ""), layer_.norm("mtp_state_norm", state, "")},
               {pair});
    const TensorId weight = graph_.parameter("mtp_projection_weight", {double_hidden_, dims_.hidden});
    const TensorId x = graph_.activation("mtp_projection", rows());
    graph_.add("mtp_projection", Opcode::gemm, Function::none, {pair, weight}, {x});
    if (model_.further_layers.empty()) return layer_.add(x, layers - 1);
    TensorId y = x;
    for (const LayerKind& kind : model_.further_layers) y = layer_.add(y, kind);
    return y;
  }

  TensorId output_table() {
    if (model_.tie_word_embeddings) return word_table_;
    if (!output_weight_) output_weight_ = graph_.parameter("output_weight", {vocab_, dims_.hidden});
    return *output_weight_;
  }

  TensorId output_bias() {
    if (!output_bias_) output_bias_ = graph_.parameter("output_bias", {vocab_});
    return *output_bias_;
  }

  // Final norm and logits. They are kept in fp32 for the softmax (Korthikanti et al. 2022, section 4.3: 4sbv
  // bytes).
  TensorId logits(TensorId x, const std::string& prefix) {
    // Behind a post-norm layer there is nothing left to normalise.
    const TensorId y =
        model_.norm_placement == NormPlacement::post ? x : layer_.norm(prefix + "final_norm", x, "layernorm");
    const TensorId table = output_table();
    const std::vector<DimensionId> scores{dims_.batch, dims_.sequence, vocab_};
    TensorId logits = graph_.activation(prefix + "logits", scores);
    std::vector<TensorId> operands{y, table};
    if (model_.output_bias) operands.push_back(output_bias());
    graph_.add(prefix + "logits", Opcode::gemm, Function::none, std::move(operands), {logits});
    if (model_.logit_multiplier != 1) {
      const TensorId scaled = graph_.activation(prefix + "logits_scale", scores);
      graph_.add(prefix + "logits_scale", Opcode::map, Function::scale, {logits}, {scaled}).constants = {
          model_.logit_multiplier};
      logits = scaled;
    }
    if (training_.precision != Dtype::fp32 && training_.precision != Dtype::tf32) {
      const TensorId cast = wide(prefix + "logits_fp32", scores);
      graph_.add(prefix + "logits_fp32", Opcode::map, Function::cast, {logits}, {cast});
      logits = cast;
    }
    if (model_.logit_soft_cap > 0) {
      const TensorId capped = wide("logits_soft_cap", scores);
      Operator& op = graph_.add("logits_soft_cap", Opcode::map, Function::soft_cap, {logits}, {capped});
      op.soft_cap = model_.logit_soft_cap;
      op.constants = {model_.logit_soft_cap};
      logits = capped;
    }
    return logits;
  }

  const ModelConfig& model_;
  const Training& training_;
  GraphBuilder graph_;
  DecoderDimensions dims_;
  DimensionId vocab_;
  DecoderLayer layer_;
  TensorId word_table_ = 0;
  std::optional<TensorId> output_weight_, output_bias_;
  DimensionId double_hidden_ = 0;
};

}  // namespace

Graph decoder_graph(const Job& job) { return DecoderBuilder(job).build(); }

}  // namespace simrun
