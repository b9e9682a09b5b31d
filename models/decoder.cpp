#include "models/decoder.h"

#include <string>
#include <utility>

namespace simrun {
namespace {

// Adds operators to a graph; remembers the dimensions that a decoder uses.
class DecoderBuilder {
 public:
  explicit DecoderBuilder(const Job& job) : model_(job.model), training_(job.training) {
    add_dimensions(job);
  }

  Graph build() {
    TensorId x = embedding();
    for (std::int32_t layer = 0; layer < model_.num_layers; ++layer) {
      layer_ = layer;
      x = attention_block(x);
      x = mlp_block(x);
    }
    layer_ = -1;
    after_layers_ = true;
    head(x);
    return std::move(graph_);
  }

 private:
  void add_dimensions(const Job& job) {
    const std::int64_t group = model_.num_attention_heads / model_.num_key_value_heads;
    const std::int64_t multiple = 128 * job.parallelism.tensor_model_parallel_size;
    const std::int64_t padded_vocab = (model_.vocab_size + multiple - 1) / multiple * multiple;
    batch_ = dimension("batch", training_.micro_batch_size * job.parallelism.data_parallel_size);
    sequence_ = dimension("sequence", training_.seq_length);
    hidden_ = dimension("hidden", model_.hidden_size);
    kv_heads_ = dimension("kv_heads", model_.num_key_value_heads);
    group_ = dimension("group", group);
    qkv_ = dimension("qkv", group + 2);
    head_dim_ = dimension("head_dim", model_.head_dim);
    ffn_ = dimension("ffn", model_.ffn_hidden_size);
    gate_ = dimension("gate", 2);
    vocab_ = dimension("vocab", model_.vocab_size, padded_vocab);
    positions_ = dimension("positions", model_.max_position_embeddings);
    key_sequence_ = dimension("key_sequence", training_.seq_length);
    statistics_ = dimension("statistics", model_.normalization == Normalization::layer_norm ? 2 : 1);
    sums_ = dimension("sums", 2);
  }

  DimensionId dimension(const char* name, std::int64_t size, std::int64_t padded = 0) {
    graph_.dimensions.push_back({name, size, padded == 0 ? size : padded});
    return static_cast<DimensionId>(graph_.dimensions.size() - 1);
  }

  TensorId tensor(std::string name, std::vector<DimensionId> dims, Dtype dtype, TensorKind kind) {
    graph_.tensors.push_back({std::move(name), std::move(dims), dtype, kind});
    return static_cast<TensorId>(graph_.tensors.size() - 1);
  }
  TensorId activation(std::string name, std::vector<DimensionId> dims) {
    return tensor(std::move(name), std::move(dims), training_.precision, TensorKind::activation);
  }
  TensorId parameter(std::string name, std::vector<DimensionId> dims) {
    return tensor(std::move(name), std::move(dims), training_.precision, TensorKind::parameter);
  }

  Operator& add(std::string name, Opcode opcode, Function function, std::vector<TensorId> inputs,
                std::vector<TensorId> outputs) {
    Operator op;
    op.name = std::move(name);
    op.opcode = opcode;
    op.function = function;
    op.layer = layer_;
    op.after_layers = after_layers_;
    op.forward_inputs = inputs.size();
    op.inputs = std::move(inputs);
    op.outputs = std::move(outputs);
    graph_.operators.push_back(std::move(op));
    return graph_.operators.back();
  }

  TensorId embedding() {
    const TensorId tokens = tensor("tokens", {batch_, sequence_}, Dtype::int64, TensorKind::index);
    // Every rank can read all of its samples: the data need no exchange.
    add("tokens", Opcode::input, Function::none, {}, {tokens}).whole_dims = {sequence_};
    word_table_ = parameter("word_embeddings", {vocab_, hidden_});
    TensorId x = activation("word_embedding", {batch_, sequence_, hidden_});
    add("word_embedding", Opcode::gather, Function::none, {word_table_, tokens}, {x});
    if (model_.position_embedding == PositionEmbedding::learned_absolute) {
      const TensorId table = parameter("position_embeddings", {positions_, hidden_});
      const TensorId sum = activation("position_embedding", {batch_, sequence_, hidden_});
      add("position_embedding", Opcode::gather, Function::none, {table, x}, {sum});
      x = sum;
    }
    if (training_.hidden_dropout > 0) x = add_rows("embedding_dropout", {x});
    return x;
  }

  // out = dropout(in0 + bias) + residual, with what there is of them, in one kernel.
  TensorId add_rows(const std::string& name, std::vector<TensorId> inputs) {
    const TensorId out = activation(name, {batch_, sequence_, hidden_});
    std::vector<TensorId> outputs{out};
    if (training_.hidden_dropout > 0)
      outputs.push_back(
          tensor(name + "_mask", {batch_, sequence_, hidden_}, Dtype::uint8, TensorKind::activation));
    add(name, Opcode::map, Function::add, std::move(inputs), std::move(outputs)).dropout =
        static_cast<float>(training_.hidden_dropout);
    return out;
  }

  TensorId norm(const std::string& name, TensorId x) {
    const bool layer_norm = model_.normalization == Normalization::layer_norm;
    std::vector<TensorId> inputs{x, parameter(name + "_weight", {hidden_})};
    if (layer_norm) inputs.push_back(parameter(name + "_bias", {hidden_}));
    const TensorId y = activation(name, {batch_, sequence_, hidden_});
    const TensorId statistics =
        tensor(name + "_statistics", {batch_, sequence_, statistics_}, Dtype::fp32, TensorKind::activation);
    Operator& op = add(name, Opcode::norm, layer_norm ? Function::layer_norm : Function::rms_norm,
                       std::move(inputs), {y, statistics});
    op.whole_dims = {hidden_};
    op.module = "layernorm";
    return y;
  }

  TensorId attention_block(TensorId x) {
    const TensorId y = norm("input_norm", x);
    const std::vector<DimensionId> packed{batch_, sequence_, kv_heads_, qkv_, head_dim_};
    TensorId qkv = activation("qkv", packed);
    std::vector<TensorId> inputs{y, parameter("qkv_weight", {hidden_, kv_heads_, qkv_, head_dim_})};
    if (model_.qkv_bias) inputs.push_back(parameter("qkv_bias", {kv_heads_, qkv_, head_dim_}));
    add("qkv", Opcode::gemm, Function::none, std::move(inputs), {qkv});
    if (model_.position_embedding == PositionEmbedding::rope) {
      const TensorId rotated = activation("rope", packed);
      add("rope", Opcode::map, Function::rope, {qkv}, {rotated}).whole_dims = {head_dim_, qkv_};
      qkv = rotated;
    }
    const TensorId context = core_attention(qkv);
    const TensorId z = activation("attention_projection", {batch_, sequence_, hidden_});
    add("attention_projection", Opcode::gemm, Function::none,
        {context, parameter("attention_projection_weight", {kv_heads_, group_, head_dim_, hidden_})}, {z});
    std::vector<TensorId> summands{z};
    if (model_.linear_bias) summands.push_back(parameter("attention_projection_bias", {hidden_}));
    summands.push_back(x);
    return add_rows("attention_add", std::move(summands));
  }

  TensorId core_attention(TensorId qkv) {
    const TensorId context = activation("core_attention", {batch_, sequence_, kv_heads_, group_, head_dim_});
    std::vector<TensorId> outputs{context};
    const bool flash = training_.attention == AttentionKernel::flash;
    if (flash) {
      outputs.push_back(
          tensor("log_sum_exp", {batch_, kv_heads_, group_, sequence_}, Dtype::fp32, TensorKind::activation));
    } else {
      const std::vector<DimensionId> scores{batch_, kv_heads_, group_, sequence_, key_sequence_};
      outputs.push_back(activation("attention_probabilities", scores));
      if (training_.attention_dropout > 0) {
        outputs.push_back(tensor("attention_mask", scores, Dtype::uint8, TensorKind::activation));
        outputs.push_back(activation("attention_dropped", scores));
      }
    }
    Operator& op = add("core_attention", Opcode::attention, flash ? Function::flash : Function::unfused,
                       {qkv}, std::move(outputs));
    op.module = "core_attn";
    op.causal = true;
    op.dropout = static_cast<float>(training_.attention_dropout);
    op.whole_dims = {sequence_, key_sequence_, head_dim_, qkv_, group_};
    return context;
  }

  TensorId mlp_block(TensorId x) {
    const bool swiglu = model_.activation == Activation::swiglu;
    const TensorId y = norm("mlp_norm", x);
    const TensorId up = activation("fc1", swiglu ? std::vector<DimensionId>{batch_, sequence_, gate_, ffn_}
                                                 : std::vector<DimensionId>{batch_, sequence_, ffn_});
    const TensorId up_weight = parameter("fc1_weight", swiglu ? std::vector<DimensionId>{hidden_, gate_, ffn_}
                                                              : std::vector<DimensionId>{hidden_, ffn_});
    add("fc1", Opcode::gemm, Function::none, {y, up_weight}, {up}).module = "mlp";
    const TensorId activated = activation("mlp_activation", {batch_, sequence_, ffn_});
    std::vector<TensorId> inputs{up};
    if (model_.linear_bias)
      inputs.push_back(parameter(
          "fc1_bias", swiglu ? std::vector<DimensionId>{gate_, ffn_} : std::vector<DimensionId>{ffn_}));
    Operator& op = add("mlp_activation", Opcode::map, swiglu ? Function::swiglu : Function::gelu,
                       std::move(inputs), {activated});
    op.module = "mlp";
    op.whole_dims = {gate_};
    const TensorId z = activation("fc2", {batch_, sequence_, hidden_});
    add("fc2", Opcode::gemm, Function::none, {activated, parameter("fc2_weight", {ffn_, hidden_})}, {z})
        .module = "mlp";
    std::vector<TensorId> summands{z};
    if (model_.linear_bias) summands.push_back(parameter("fc2_bias", {hidden_}));
    summands.push_back(x);
    return add_rows("mlp_add", std::move(summands));
  }

  // Final norm, logits and cross entropy. Logits are kept in fp32 for the softmax (Korthikanti et al. 2022,
  // section 4.3: 4sbv bytes); the row maximum and the sums are separate operators, so that their all-reduces
  // over a split vocabulary follow from layouts.
  void head(TensorId x) {
    const TensorId y = norm("final_norm", x);
    const TensorId table =
        model_.tie_word_embeddings ? word_table_ : parameter("output_weight", {vocab_, hidden_});
    const TensorId narrow = activation("logits", {batch_, sequence_, vocab_});
    add("logits", Opcode::gemm, Function::none, {y, table}, {narrow});
    const TensorId labels = tensor("labels", {batch_, sequence_}, Dtype::int64, TensorKind::index);
    add("labels", Opcode::input, Function::none, {}, {labels}).whole_dims = {sequence_};
    const auto wide = [&](const char* name, std::vector<DimensionId> dims) {
      return tensor(name, std::move(dims), Dtype::fp32, TensorKind::activation);
    };
    TensorId logits = narrow;
    if (training_.precision != Dtype::fp32) {
      logits = wide("logits_fp32", {batch_, sequence_, vocab_});
      add("logits_fp32", Opcode::map, Function::cast, {narrow}, {logits});
    }
    const TensorId maximum = wide("logits_max", {batch_, sequence_});
    add("logits_max", Opcode::reduce, Function::max, {logits}, {maximum});
    const TensorId sums = wide("cross_entropy_sums", {batch_, sequence_, sums_});
    add("cross_entropy", Opcode::cross_entropy, Function::none, {logits, maximum, labels}, {sums});
    const TensorId loss = wide("loss", {batch_, sequence_});
    add("loss", Opcode::map, Function::log_loss, {sums, maximum, logits, labels}, {loss}).forward_inputs = 2;
  }

  const ModelConfig& model_;
  const Training& training_;
  Graph graph_;
  std::int32_t layer_ = -1;
  bool after_layers_ = false;
  TensorId word_table_ = 0;
  DimensionId batch_ = 0, sequence_ = 0, hidden_ = 0, kv_heads_ = 0, group_ = 0, qkv_ = 0, head_dim_ = 0,
              ffn_ = 0, gate_ = 0, vocab_ = 0, positions_ = 0, key_sequence_ = 0, statistics_ = 0, sums_ = 0;
};

}  // namespace

Graph decoder_graph(const Job& job) { return DecoderBuilder(job).build(); }

}  // namespace simrun
