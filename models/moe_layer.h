#pragma once

#include <optional>
#include <string>

#include "configs/job.h"
#include "models/decoder_dimensions.h"
#include "models/graph_builder.h"

namespace simrun {

// REQUIRES: the model has experts.
MoeDimensions moe_dimensions(const Job& job, GraphBuilder& graph);

// The operators that stand in place of an MLP (Shazeer et al. 2017, arXiv 1701.06538):
//   router     logits [batch, sequence, expert_scores] in fp32
//   route      probabilities and indices of each token's topk experts [batch, sequence, topk]
//   dispatch   rows by expert [experts, capacity, hidden]
//   expert_fc1, expert_activation, expert_fc2: an MLP of each expert
//   combine    each token's rows back, summed with its probabilities [batch, sequence, hidden]
// With the dispatcher deepep a token's row goes once to each node, and there once to each GPU, that has any
// of its experts (DeepSeek-V3, arXiv 2412.19437, section 3.2.2), and back the same way:
//   dispatch          rows by node [experts, node_rows, hidden]
//   dispatch_in_node  rows by GPU [experts, gpu_rows, hidden]
//   permute           rows by expert [experts, capacity, hidden]
//   unpermute, combine_in_node, combine  sums of a token's rows of a GPU, of a node, of all nodes
//   dispatch_probabilities, dispatch_in_node_probabilities  of a token, beside its row [.., topk]
//   permute_probabilities, expert_weighting  an expert's rows are weighted in front of their second product
//                     (Megatron Core, experts.py: activation_func_with_probs), behind it, by unpermute,
//                     where that has a bias
// Its indices travel with them and are not counted: 4 topk bytes beside 2 hidden.
// With the dispatcher einsum dispatch and combine are products with masks (GShard, arXiv 2006.16668, appendix
// A), which route's choices make:
//   dispatch_masks    combine_mask and dispatch_mask [batch, sequence, mask_places]
// With a latent_size what is sent, and what experts work on, is latent_fc1 of a token; latent_fc2 turns their
// sum back into a hidden vector. Router and shared experts read the token itself.
// With scales_input (Llama 4) a token is multiplied by its weight before it is sent, by expert_input_scale,
// and what its expert puts out is combined as it is.
//   shared_*   the shared experts, an MLP of every token, and moe_add, their sum with the routed ones
class MoeLayer {
 public:
  MoeLayer(const ModelConfig& model, const DecoderDimensions& dims, GraphBuilder& graph)
      : model_(model),
        experts_(model.experts),
        dims_(dims),
        moe_(*dims.moe),
        row_(moe_.latent.value_or(dims.hidden)),
        graph_(graph) {}

  // [batch, sequence, hidden] in and out.
  TensorId add(TensorId y);

 private:
  struct Routing {
    TensorId probabilities, indices;
    std::optional<TensorId> combine_mask = {}, dispatch_mask = {};
    // Behind the last exchange, if a token has rows there: of its choices, and of each expert's rows.
    std::optional<TensorId> row_probabilities = {}, expert_probabilities = {};
  };
  Routing route(TensorId y);
  void add_masks(Routing& routing);
  std::vector<double> capacity_constants() const;  // of what counts an expert's rows
  TensorId to_latent(TensorId y);
  TensorId from_latent(TensorId sum);
  TensorId routed(TensorId y, Routing& routing);
  TensorId scaled_input(TensorId y, const Routing& routing);
  TensorId weighted(TensorId activated, const Routing& routing);
  // One exchange to the experts and back: the operators before and behind it, and what it exchanges.
  struct Hop {
    const char* dispatch;
    const char* combine;
    DimensionId rows;
  };
  std::vector<Hop> hops() const;
  void describe(Operator& op, const Regroup& regroup) const;
  void add_dispatch(const std::string& name, std::vector<TensorId> inputs, TensorId out,
                    const Regroup& regroup);
  TensorId dispatch(TensorId y, Routing& routing);
  TensorId combine(TensorId expert_out, const Routing& routing);
  TensorId shared(TensorId y);
  TensorId gated(TensorId y, TensorId shared);

  const ModelConfig& model_;
  const ExpertConfig& experts_;
  const DecoderDimensions& dims_;
  const MoeDimensions& moe_;
  const DimensionId row_;  // what experts have of a token
  GraphBuilder& graph_;
};

}  // namespace simrun
