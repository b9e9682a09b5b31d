#include "models/gnmt.h"

#include "models/decoder.h"
#include "models/graph_builder.h"
#include "models/loss.h"

namespace simrun {
namespace {

class GnmtBuilder {
 public:
  explicit GnmtBuilder(const Job& job)
      : job_(job),
        gnmt_(*family_as<GnmtConfig>(job.model.family)),
        graph_(job.training.precision),
        batch_(graph_.dimension("batch", job.training.micro_batch_size * job.parallelism.data_parallel_size)),
        source_(graph_.dimension("sequence", job.training.seq_length)),
        target_(graph_.dimension("sequence", job.training.decoder_seq_length)),
        hidden_(graph_.dimension("hidden", job.model.hidden_size)),
        both_(graph_.dimension("both", 2 * job.model.hidden_size)),
        gates_(graph_.dimension("gates", 4)),
        cell_(graph_.dimension("cell", job.model.hidden_size)),
        vocab_(padded_vocabulary(job, graph_)) {}

  Graph build() {
    const TensorId table = word_table("word_embeddings");
    const TensorId memory = encoder(embedding("encoder", table, source_));
    graph_.enter_layer(static_cast<std::int32_t>(gnmt_.encoder_layers));
    const TensorId own = gnmt_.share_embedding ? table : word_table("decoder_word_embeddings");
    const TensorId x = decoder(embedding("decoder", own, target_), memory);
    graph_.leave_layers();
    head(x);
    return graph_.take();
  }

 private:
  TensorId word_table(const char* name) { return graph_.parameter(name, {vocab_, hidden_}); }

  TensorId embedding(const std::string& name, TensorId table, DimensionId sequence) {
    const TensorId tokens = add_indices(graph_, name + "_tokens", {batch_, sequence}, sequence);
    const TensorId x = graph_.activation(name + "_embedding", {batch_, sequence, hidden_});
    graph_.add(name + "_embedding", Opcode::gather, Function::none, {table, tokens}, {x});
    return x;
  }

  // out = dropout(sum of the inputs).
  TensorId sum(const std::string& name, std::vector<TensorId> inputs, const std::vector<DimensionId>& dims,
               double dropout) {
    std::vector<TensorId> outputs{graph_.activation(name, dims)};
    const TensorId out = outputs.front();
    if (dropout > 0)
      outputs.push_back(graph_.tensor(name + "_mask", dims, Dtype::uint8, TensorKind::activation));
    graph_.add(name, Opcode::map, Function::add, std::move(inputs), std::move(outputs)).dropout =
        static_cast<float>(dropout);
    return out;
  }

  // x [batch, sequence, width] -> hidden states [batch, sequence, hidden], behind a dropout of x.
  TensorId lstm(const std::string& name, TensorId x, DimensionId sequence, DimensionId width,
                bool is_reversed = false) {
    if (job_.training.hidden_dropout > 0)
      x = sum(name + "_dropout", {x}, {batch_, sequence, width}, job_.training.hidden_dropout);
    const std::vector<DimensionId> gates{batch_, sequence, gates_, cell_};
    const TensorId inputs = graph_.activation(name + "_gates", gates);
    graph_.add(name + "_gates", Opcode::gemm, Function::none,
               {x, graph_.parameter(name + "_input_weight", {width, gates_, cell_}),
                graph_.parameter(name + "_bias", {gates_, cell_})},
               {inputs});
    const TensorId states = graph_.activation(name, {batch_, sequence, hidden_});
    Operator& op =
        graph_.add(name, Opcode::lstm, Function::none,
                   {inputs, graph_.parameter(name + "_recurrent_weight", {gates_, cell_, hidden_})},
                   {states, graph_.activation(name + "_kept_gates", gates),
                    graph_.activation(name + "_cells", {batch_, sequence, cell_})});
    op.whole_dims = {sequence, gates_, cell_, hidden_};
    op.constants = {is_reversed ? -1.0 : 1.0};
    return states;
  }

  TensorId joined(const std::string& name, TensorId a, TensorId b, DimensionId sequence) {
    const TensorId out = graph_.activation(name, {batch_, sequence, both_});
    graph_.add(name, Opcode::map, Function::concatenate, {a, b}, {out});
    return out;
  }

  TensorId encoder(TensorId x) {
    for (std::int32_t layer = 0; layer < gnmt_.encoder_layers; ++layer) {
      graph_.enter_layer(layer);
      if (layer == 0) {
        const TensorId forward = lstm("lstm", x, source_, hidden_);
        const TensorId backward = lstm("reversed_lstm", x, source_, hidden_, /*is_reversed=*/true);
        x = joined("directions", forward, backward, source_);
        continue;
      }
      const TensorId y = lstm("lstm", x, source_, layer == 1 ? both_ : hidden_);
      x = layer < 2 ? y : sum("residual", {y, x}, {batch_, source_, hidden_}, 0);
    }
    return x;
  }

  // What the target's positions read of the source: [batch, target, hidden].
  TensorId attention(TensorId x, TensorId memory) {
    const DimensionId heads = graph_.dimension("attention_head", 1);
    const DimensionId group = graph_.dimension("group", 1);
    const DimensionId head_dim = graph_.dimension("head_dim", job_.model.hidden_size);
    const DimensionId width = gnmt_.encoder_layers > 1 ? hidden_ : both_;
    const TensorId q = graph_.activation("query", {batch_, target_, heads, group, head_dim});
    const TensorId k = graph_.activation("key", {batch_, source_, heads, head_dim});
    graph_.add("query", Opcode::gemm, Function::none,
               {x, graph_.parameter("query_weight", {hidden_, heads, group, head_dim})}, {q});
    graph_.add("key", Opcode::gemm, Function::none,
               {memory, graph_.parameter("key_weight", {width, heads, head_dim})}, {k});
    const TensorId context = graph_.activation("context", {batch_, target_, hidden_});
    const TensorId probabilities =
        graph_.activation("attention_probabilities", {batch_, heads, group, target_, source_});
    Operator& op = graph_.add("core_attention", Opcode::attention, Function::unfused, {q, k, memory},
                              {context, probabilities});
    op.module = "core_attn";
    op.whole_dims = {target_, source_, heads, head_dim, group};
    op.constants = {1, 0};
    return context;
  }

  TensorId decoder(TensorId x, TensorId memory) {
    const auto first = static_cast<std::int32_t>(gnmt_.encoder_layers);
    x = lstm("lstm", x, target_, hidden_);
    const TensorId context = attention(x, memory);
    for (std::int32_t layer = 1; layer < gnmt_.decoder_layers; ++layer) {
      graph_.enter_layer(first + layer);
      const TensorId y = lstm("lstm", joined("with_context", x, context, target_), target_, both_);
      x = layer < 2 ? y : sum("residual", {y, x}, {batch_, target_, hidden_}, 0);
    }
    // The only reader of what attention returned, where there is but one layer.
    return gnmt_.decoder_layers > 1 ? x : sum("with_context", {x, context}, {batch_, target_, hidden_}, 0);
  }

  void head(TensorId x) {
    const std::vector<DimensionId> scores{batch_, target_, vocab_};
    const TensorId logits = graph_.activation("logits", scores);
    graph_.add(
        "logits", Opcode::gemm, Function::none,
        {x, graph_.parameter("output_weight", {vocab_, hidden_}), graph_.parameter("output_bias", {vocab_})},
        {logits});
    const TensorId wide = add_fp32(graph_, "logits", logits, scores, job_.training.precision);
    add_cross_entropy(graph_, "", {wide, add_indices(graph_, "labels", {batch_, target_}, target_)},
                      {batch_, target_});
  }

  const Job& job_;
  const GnmtConfig gnmt_;
  GraphBuilder graph_;
  DimensionId batch_, source_, target_, hidden_, both_, gates_, cell_, vocab_;
};

}  // namespace

Graph gnmt_graph(const Job& job) { return GnmtBuilder(job).build(); }

}  // namespace simrun
