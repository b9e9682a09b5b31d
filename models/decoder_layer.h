#pragma once

#include <optional>
#include <string>
#include <vector>

#include "configs/job.h"
#include "models/decoder_dimensions.h"
#include "models/graph_builder.h"

namespace simrun {

// The operators of a decoder's layer, as the model's values say: [batch, sequence, hidden] in and out.
class DecoderLayer {
 public:
  DecoderLayer(const Job& job, const DecoderDimensions& dims, GraphBuilder& graph)
      : model_(job.model), training_(job.training), dims_(dims), graph_(graph) {}

  //   pre       x + attention(norm(x)), then x + mlp(norm(x))
  //   parallel  x + attention(norm(x)) + mlp(norm'(x)), of which one norm may be both; without dropout the
  //             branches are added first and summed over tensor-parallel ranks then (GPT-NeoX-20B, Black et
  //             al. 2022, section 2.2)
  //   post      norm(x + attention(x)), then norm(x + mlp(x))
  //   sandwich  x + norm(attention(norm(x))), then x + norm(mlp(norm(x)))
  // Cross attention is a sublayer of the same form (not with `parallel`).
  // `kind` says which sublayers there are, the attention's window, and whether experts are in the MLP's
  // place.
  TensorId add(TensorId x, const LayerKind& kind);
  TensorId add(TensorId x, std::int32_t layer) { return add(x, model_.layer_kind(layer)); }

  // From here on every layer has cross attention to `rows` between self attention and MLP.
  struct Memory {
    TensorId rows = 0;  // [batch, sequence, hidden]
    DimensionId sequence = 0;
  };
  void attend_to(Memory memory) { memory_ = memory; }
  // What the next layer's self attention adds to its scores.
  struct PositionBias {
    TensorId table = 0;         // [buckets, kv_heads]
    std::int64_t distance = 0;  // beyond which all share a bucket
  };
  void use_position_bias(std::optional<PositionBias> bias) { position_bias_ = bias; }

  // A norm over the hidden dimension with its parameters; `module` as in Operator.
  TensorId norm(const std::string& name, TensorId x, const char* module);
  TensorId scaled(const std::string& name, TensorId x, double factor);
  // dropout(in0 [+ biases]) [+ residual] in one kernel.
  TensorId add_rows(const std::string& name, std::vector<TensorId> inputs);

 private:
  using Branch = std::vector<TensorId> (DecoderLayer::*)(TensorId);
  struct Names {
    const char *norm, *output_norm, *add, *scale;
  };
  TensorId sublayer(TensorId x, const Names& names, Branch branch);
  TensorId parallel_branches(TensorId x, const Names& of_attention, const Names& of_mlp);
  // Each returns its last product and the bias that is still to be added, if there is one.
  std::vector<TensorId> attention(TensorId y);
  std::vector<TensorId> feed_forward(TensorId y);
  std::vector<TensorId> mlp(TensorId y);
  std::vector<TensorId> projection(const std::string& name, std::vector<TensorId> operands,
                                   const char* module, std::optional<TensorId> bias);
  std::vector<TensorId> cross_attention(TensorId y);  // models/cross_attention.cpp
  TensorId cross_core(TensorId q, TensorId k, TensorId v);
  TensorId packed_qkv(TensorId y);
  TensorId packed_qkv_of_rows(TensorId y);
  std::vector<TensorId> latent_attention(TensorId y);
  std::vector<TensorId> mamba(TensorId y);
  std::vector<TensorId> delta_net(TensorId y);
  // `inputs`: packed q, k, v, or each by itself; `dims` of the context.
  double score_factor() const;
  TensorId core_attention(std::vector<TensorId> inputs, std::vector<DimensionId> dims);
  TensorId output_gate(TensorId y, TensorId context);
  TensorId prepared_heads(TensorId qkv);
  TensorId on_packed_heads(const std::string& name, Function function, TensorId qkv,
                           std::vector<double> constants);
  TensorId qk_norm(TensorId qkv);
  bool has_norm_behind_branch() const {
    return model_.norm_placement == NormPlacement::sandwich || model_.norm_placement == NormPlacement::output;
  }

  const ModelConfig& model_;
  const Training& training_;
  const DecoderDimensions& dims_;
  GraphBuilder& graph_;
  LayerKind kind_;
  std::optional<Memory> memory_;
  std::optional<PositionBias> position_bias_;
};

}  // namespace simrun
