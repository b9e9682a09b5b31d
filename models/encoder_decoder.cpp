#include "models/encoder_decoder.h"

#include <cmath>
#include <optional>

#include "models/decoder.h"
#include "models/decoder_layer.h"
#include "models/graph_builder.h"
#include "models/loss.h"
#include "models/moe_layer.h"

namespace simrun {
namespace {

Job encoder_of(Job job) {
  job.model.causal_attention = false;
  return job;
}

DecoderDimensions decoder_side(const Job& job, DecoderDimensions dims, GraphBuilder& graph) {
  dims.sequence = graph.dimension("sequence", job.training.decoder_seq_length);
  dims.key_sequence = graph.dimension("key_sequence", job.training.decoder_seq_length);
  if (dims.moe) {  // its tokens are others
    Job of_targets = job;
    of_targets.training.seq_length = job.training.decoder_seq_length;
    if (std::optional<ExpertScope>& scope = of_targets.moe.scope) {
      scope->rows = scope->decoder_rows;
      scope->group_tokens = scope->decoder_group_tokens;
    }
    dims.moe = moe_dimensions(of_targets, graph);
  }
  return dims;
}

class EncoderDecoderBuilder {
 public:
  explicit EncoderDecoderBuilder(const Job& job)
      : job_(job),
        encoder_job_(encoder_of(job)),
        stacks_(*family_as<EncoderDecoderConfig>(job.model.family)),
        graph_(job.training.precision),
        source_(decoder_dimensions(job, graph_)),
        target_(decoder_side(job, source_, graph_)),
        vocab_(padded_vocabulary(job, graph_)),
        encoder_(encoder_job_, source_, graph_),
        decoder_(job, target_, graph_) {}

  Graph build() {
    word_table_ = graph_.parameter("word_embeddings", {vocab_, source_.hidden});
    TensorId x = embedding("encoder", encoder_, source_);
    encoder_.use_position_bias(bias_table("encoder"));
    for (std::int32_t layer = 0; layer < stacks_.encoder_layers; ++layer) {
      graph_.enter_layer(layer);
      x = encoder_.add(x, layer);
    }
    decoder_.attend_to({dropped(encoder_, "encoder", encoder_.norm("encoder_final_norm", x, "layernorm")),
                        source_.sequence});
    const auto first = static_cast<std::int32_t>(stacks_.encoder_layers);
    graph_.enter_layer(first);
    x = embedding("decoder", decoder_, target_);
    decoder_.use_position_bias(bias_table("decoder"));
    for (std::int32_t layer = first; layer < first + stacks_.decoder_layers; ++layer) {
      graph_.enter_layer(layer);
      x = decoder_.add(x, layer);
    }
    graph_.leave_layers();
    head(dropped(decoder_, "decoder", decoder_.norm("final_norm", x, "layernorm")));
    return graph_.take();
  }

 private:
  static std::vector<DimensionId> rows(const DecoderDimensions& dims) {
    return {dims.batch, dims.sequence, dims.hidden};
  }
  TensorId dropped(DecoderLayer& layer, const std::string& name, TensorId x) {
    return job_.training.hidden_dropout > 0 ? layer.add_rows(name + "_dropout", {x}) : x;
  }
  std::optional<DecoderLayer::PositionBias> bias_table(const std::string& name) {
    if (stacks_.relative_buckets == 0) return {};
    const DimensionId buckets = graph_.dimension("buckets", stacks_.relative_buckets);
    return DecoderLayer::PositionBias{graph_.parameter(name + "_position_bias", {buckets, source_.kv_heads}),
                                      stacks_.relative_distance};
  }

  TensorId embedding(const std::string& name, DecoderLayer& layer, const DecoderDimensions& dims) {
    const TensorId tokens = add_indices(graph_, name + "_tokens", {dims.batch, dims.sequence}, dims.sequence);
    TensorId x = graph_.activation(name + "_embedding", rows(dims));
    graph_.add(name + "_embedding", Opcode::gather, Function::none, {word_table_, tokens}, {x});
    if (job_.model.position_embedding == PositionEmbedding::learned_absolute) {
      const DimensionId positions = graph_.dimension("positions", job_.model.max_position_embeddings);
      const TensorId table = graph_.parameter(name + "_positions", {positions, dims.hidden});
      const TensorId sum = graph_.activation(name + "_position_embedding", rows(dims));
      graph_.add(name + "_position_embedding", Opcode::gather, Function::none, {table, x}, {sum})
          .constants = {0};
      x = sum;
    }
    return dropped(layer, name + "_embedding", x);
  }

  // A tied table serves T5 scaled: its logits are of y / sqrt(hidden).
  void head(TensorId y) {
    TensorId table = word_table_;
    if (!job_.model.tie_word_embeddings) {
      table = graph_.parameter("output_weight", {vocab_, target_.hidden});
    } else if (stacks_.relative_buckets > 0) {
      const TensorId scaled = graph_.activation("output_scale", rows(target_));
      graph_.add("output_scale", Opcode::map, Function::scale, {y}, {scaled}).constants = {
          1 / std::sqrt(static_cast<double>(job_.model.hidden_size))};
      y = scaled;
    }
    add_token_loss(graph_, y, table, {target_.batch, target_.sequence, vocab_});
  }

  const Job& job_;
  const Job encoder_job_;
  const EncoderDecoderConfig stacks_;
  GraphBuilder graph_;
  DecoderDimensions source_, target_;
  DimensionId vocab_;
  DecoderLayer encoder_, decoder_;
  TensorId word_table_ = 0;
};

}  // namespace

Graph encoder_decoder_graph(const Job& job) { return EncoderDecoderBuilder(job).build(); }

}  // namespace simrun
