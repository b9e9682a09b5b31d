#include "models/moe_layer.h"

#include <cmath>
#include <utility>

#include "models/up_projection.h"

namespace simrun {
namespace {

// Recompute modules as Megatron-LM names them: the whole layer, and what is within it.
constexpr const char* module = "moe";
constexpr const char* router_module = "moe_router";
constexpr const char* activation_module = "moe_act";
constexpr const char* shared_module = "shared_experts";

std::int64_t rounded_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

MoeDimensions moe_dimensions(const Job& job, GraphBuilder& graph) {
  const ExpertConfig& experts = job.model.experts;
  const Parallelism& parallelism = job.parallelism;
  const std::int64_t tokens =
      job.training.micro_batch_size * parallelism.data_parallel_size * job.training.seq_length;
  const double mean = static_cast<double>(tokens * experts.topk) / static_cast<double>(experts.count);
  const double factor = job.moe.capacity_factor > 0 ? job.moe.capacity_factor : 1;
  const std::int64_t ranks = parallelism.tensor_model_parallel_size * parallelism.context_parallel_size *
                             parallelism.data_parallel_size;
  MoeDimensions dims;
  dims.experts = graph.dimension("experts", experts.count);
  dims.expert_scores = graph.dimension("expert_scores", experts.count);
  dims.topk = graph.dimension("topk", experts.topk);
  dims.capacity = graph.dimension("capacity", std::llround(std::ceil(mean)),
                                  rounded_up(std::llround(std::ceil(mean * factor)), ranks));
  dims.expert_ffn = graph.dimension("expert_ffn", experts.ffn_hidden_size);
  if (experts.shared_ffn_hidden_size > 0)
    dims.shared_ffn = graph.dimension("shared_ffn", experts.shared_ffn_hidden_size);
  return dims;
}

TensorId MoeLayer::add(TensorId y) {
  const TensorId sum = routed(y, route(y));
  if (experts_.shared_ffn_hidden_size == 0) return sum;
  const TensorId of_shared = shared(y);
  const TensorId total = graph_.activation("moe_add", {dims_.batch, dims_.sequence, dims_.hidden});
  graph_.add("moe_add", Opcode::map, Function::add, {sum, of_shared}, {total}).module = module;
  return total;
}

MoeLayer::Routing MoeLayer::route(TensorId y) {
  const TensorId logits = graph_.tensor("router", {dims_.batch, dims_.sequence, moe_.expert_scores},
                                        Dtype::fp32, TensorKind::activation);
  std::vector<TensorId> operands{y, graph_.parameter("router_weight", {dims_.hidden, moe_.expert_scores})};
  if (experts_.router_bias) operands.push_back(graph_.parameter("router_bias", {moe_.expert_scores}));
  Operator& product = graph_.add("router", Opcode::gemm, Function::none, std::move(operands), {logits});
  product.module = module;
  product.inner_module = router_module;

  const std::vector<DimensionId> chosen{dims_.batch, dims_.sequence, moe_.topk};
  const Routing routing{graph_.tensor("probabilities", chosen, Dtype::fp32, TensorKind::activation),
                        graph_.tensor("expert_indices", chosen, Dtype::int32, TensorKind::index)};
  std::vector<TensorId> inputs{logits};
  if (experts_.selection_bias) inputs.push_back(graph_.parameter("selection_bias", {moe_.expert_scores}));
  Operator& op = graph_.add("route", Opcode::route, Function::none, std::move(inputs),
                            {routing.probabilities, routing.indices});
  op.module = module;
  op.inner_module = router_module;
  op.whole_dims = {moe_.expert_scores};
  return routing;
}

TensorId MoeLayer::routed(TensorId y, const Routing& routing) {
  const Regroup regroup{{dims_.batch, dims_.sequence}, moe_.capacity};
  const std::vector<DimensionId> rows{moe_.experts, moe_.capacity};
  const std::vector<DimensionId> wide{moe_.experts, moe_.capacity, dims_.hidden};
  const TensorId dispatched = graph_.activation("dispatch", wide);
  Operator& dispatch =
      graph_.add("dispatch", Opcode::gather, Function::dispatch, {y, routing.indices}, {dispatched});
  dispatch.module = module;
  dispatch.regroup = regroup;

  const TensorId activated = add_up_projection({.name = "expert_fc1",
                                                .activation = "expert_activation",
                                                .module = module,
                                                .activation_module = activation_module,
                                                .rows = rows,
                                                .experts = {moe_.experts},
                                                .hidden = dims_.hidden,
                                                .gate = dims_.gate,
                                                .ffn = moe_.expert_ffn,
                                                .function = model_.activation,
                                                .bias = experts_.bias},
                                               dispatched, graph_);
  std::vector<TensorId> operands{
      activated, graph_.parameter("expert_fc2_weight", {moe_.experts, moe_.expert_ffn, dims_.hidden})};
  if (experts_.bias) operands.push_back(graph_.parameter("expert_fc2_bias", {moe_.experts, dims_.hidden}));
  const TensorId expert_out = graph_.activation("expert_fc2", wide);
  graph_.add("expert_fc2", Opcode::gemm, Function::none, std::move(operands), {expert_out}).module = module;

  const TensorId combined = graph_.activation("combine", {dims_.batch, dims_.sequence, dims_.hidden});
  Operator& combine = graph_.add("combine", Opcode::gather, Function::combine,
                                 {expert_out, routing.probabilities, routing.indices}, {combined});
  combine.module = module;
  combine.regroup = regroup;
  return combined;
}

TensorId MoeLayer::shared(TensorId y) {
  const TensorId activated = add_up_projection({.name = "shared_fc1",
                                                .activation = "shared_activation",
                                                .module = module,
                                                .activation_module = shared_module,
                                                .rows = {dims_.batch, dims_.sequence},
                                                .experts = {},
                                                .hidden = dims_.hidden,
                                                .gate = dims_.gate,
                                                .ffn = moe_.shared_ffn,
                                                .function = model_.activation,
                                                .bias = false},
                                               y, graph_);
  const TensorId weight = graph_.parameter("shared_fc2_weight", {moe_.shared_ffn, dims_.hidden});
  const TensorId z = graph_.activation("shared_fc2", {dims_.batch, dims_.sequence, dims_.hidden});
  graph_.add("shared_fc2", Opcode::gemm, Function::none, {activated, weight}, {z}).module = module;
  return experts_.shared_gate ? gated(y, z) : z;
}

// Qwen2-MoE: sigmoid(y w) per token, w [hidden, 1].
TensorId MoeLayer::gated(TensorId y, TensorId shared) {
  const TensorId gate = graph_.activation("shared_gate", {dims_.batch, dims_.sequence, dims_.one});
  const TensorId weight = graph_.parameter("shared_gate_weight", {dims_.hidden, dims_.one});
  graph_.add("shared_gate", Opcode::gemm, Function::none, {y, weight}, {gate}).module = module;
  const TensorId scaled = graph_.activation("shared_scale", {dims_.batch, dims_.sequence, dims_.hidden});
  graph_.add("shared_scale", Opcode::map, Function::sigmoid_gate, {shared, gate}, {scaled}).module = module;
  return scaled;
}

}  // namespace simrun
