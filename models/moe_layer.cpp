#include "models/moe_layer.h"

#include <optional>
#include <stdexcept>
#include <utility>

#include "configs/expert_nodes.h"
#include "models/expert_fanout.h"
#include "models/expert_scope.h"
#include "models/up_projection.h"

namespace simrun {
namespace {

// Recompute modules as Megatron-LM names them: the whole layer, and what is within it.
constexpr const char* module = "moe";
constexpr const char* router_module = "moe_router";
constexpr const char* activation_module = "moe_act";
constexpr const char* shared_module = "shared_experts";

// Rows per expert of a token's copies.
DimensionId rows(const char* name, const Job& job, double copies, GraphBuilder& graph) {
  const ExpertRowCount count = expert_row_count(job, copies);
  return graph.dimension(name, count.expected, count.planned);
}

}  // namespace

MoeDimensions moe_dimensions(const Job& job, GraphBuilder& graph) {
  const ExpertConfig& experts = job.model.experts;
  MoeDimensions dims;
  dims.experts = graph.dimension("experts", experts.count);
  dims.expert_scores = graph.dimension("expert_scores", experts.count);
  dims.topk = graph.dimension("topk", experts.topk);
  dims.capacity = rows("capacity", job, static_cast<double>(experts.topk), graph);
  dims.expert_ffn = graph.dimension("expert_ffn", experts.ffn_hidden_size);
  if (experts.latent_size > 0) dims.latent = graph.dimension("moe_latent", experts.latent_size);
  if (experts.shared_ffn_hidden_size > 0)
    dims.shared_ffn = graph.dimension("shared_ffn", experts.shared_ffn_hidden_size);
  dims.has_capacity = job.moe.capacity_factor > 0;
  if (job.moe.scope)
    dims.scope = {static_cast<double>(job.moe.scope->sequence_parts),
                  static_cast<double>(job.moe.scope->zigzag_ranks)};
  if (job.moe.token_dispatcher == TokenDispatcher::einsum) {
    const MaskGroup group = mask_group(job);
    dims.mask_places = graph.dimension("mask_places", experts.count * group.rows);
    dims.mask_group = {static_cast<double>(group.tokens), static_cast<double>(group.rows)};
  }
  dims.gathers_tokens = job.moe.token_dispatcher == TokenDispatcher::allgather;
  if (job.moe.token_dispatcher != TokenDispatcher::deepep) return dims;
  const std::optional<ExpertNodes> on = expert_nodes(job);
  if (!on) throw std::invalid_argument("deepep: expert parallel ranks do not lie alike on all nodes");
  if (on->nodes > 1)
    dims.node_rows = rows("node_rows", job, expected_nodes(experts, job.moe.node_limit, on->nodes), graph);
  if (on->ranks > 1)
    dims.gpu_rows = rows("gpu_rows", job, expected_destinations(experts, on->nodes * on->ranks), graph);
  return dims;
}

TensorId MoeLayer::add(TensorId y) {
  Routing routing = route(y);
  if (moe_.mask_places) add_masks(routing);
  const TensorId sum = moe_.latent ? from_latent(routed(to_latent(y), routing)) : routed(y, routing);
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
  if (!experts_.is_topk) return routing;
  op.constants = {experts_.score == RouterScore::sigmoid ? 1.0 : 0.0,
                  experts_.normalizes_weights ? 1.0 : 0.0,
                  experts_.scaling,
                  static_cast<double>(experts_.groups),
                  static_cast<double>(experts_.topk_groups),
                  static_cast<double>(experts_.group_best),
                  experts_.balance_loss};
  op.constants.insert(op.constants.end(), moe_.scope.begin(), moe_.scope.end());
  op.constants.push_back(experts_.balance_by_sequence ? 1.0 : 0.0);
  return routing;
}

void MoeLayer::add_masks(Routing& routing) {
  const std::vector<DimensionId> places{dims_.batch, dims_.sequence, *moe_.mask_places};
  routing.combine_mask = graph_.activation("combine_mask", places);
  // Where the other is not 0: nothing is differentiated by it.
  routing.dispatch_mask = graph_.tensor("dispatch_mask", places, graph_.precision(), TensorKind::index);
  Operator& op =
      graph_.add("dispatch_masks", Opcode::map, Function::dispatch_masks,
                 {routing.probabilities, routing.indices}, {*routing.combine_mask, *routing.dispatch_mask});
  op.module = module;
  op.inner_module = router_module;
  op.constants = capacity_constants();
}

std::vector<double> MoeLayer::capacity_constants() const {
  std::vector<double> constants = moe_.scope;
  constants.insert(constants.end(), moe_.mask_group.begin(), moe_.mask_group.end());
  return constants;
}

// A token's vector before it is sent, and the sum of its experts' rows (Megatron Core, moe_layer.py:
// fc1_latent_proj and fc2_latent_proj). Every tensor-parallel rank has them whole.
TensorId MoeLayer::to_latent(TensorId y) {
  const TensorId weight = graph_.parameter("latent_fc1_weight", {dims_.hidden, *moe_.latent});
  const TensorId z = graph_.activation("latent_fc1", {dims_.batch, dims_.sequence, *moe_.latent});
  graph_.add("latent_fc1", Opcode::gemm, Function::none, {y, weight}, {z}).module = module;
  return z;
}

TensorId MoeLayer::from_latent(TensorId sum) {
  const TensorId weight = graph_.parameter("latent_fc2_weight", {*moe_.latent, dims_.hidden});
  const TensorId z = graph_.activation("latent_fc2", {dims_.batch, dims_.sequence, dims_.hidden});
  graph_.add("latent_fc2", Opcode::gemm, Function::none, {sum, weight}, {z}).module = module;
  return z;
}

TensorId MoeLayer::routed(TensorId y, Routing& routing) {
  const std::vector<DimensionId> rows{moe_.experts, moe_.capacity};
  const TensorId dispatched = dispatch(experts_.scales_input ? scaled_input(y, routing) : y, routing);

  TensorId activated = add_up_projection({.name = "expert_fc1",
                                          .activation = "expert_activation",
                                          .module = module,
                                          .product_module = "",
                                          .activation_module = activation_module,
                                          .rows = rows,
                                          .experts = {moe_.experts},
                                          .hidden = row_,
                                          .gate = dims_.gate,
                                          .ffn = moe_.expert_ffn,
                                          .function = model_.activation,
                                          .bias = experts_.bias},
                                         dispatched, graph_);
  if (routing.expert_probabilities) activated = weighted(activated, routing);
  std::vector<TensorId> operands{
      activated, graph_.parameter("expert_fc2_weight", {moe_.experts, moe_.expert_ffn, row_})};
  if (experts_.bias) operands.push_back(graph_.parameter("expert_fc2_bias", {moe_.experts, row_}));
  const TensorId expert_out = graph_.activation("expert_fc2", {moe_.experts, moe_.capacity, row_});
  graph_.add("expert_fc2", Opcode::gemm, Function::none, std::move(operands), {expert_out}).module = module;

  return combine(expert_out, routing);
}

TensorId MoeLayer::scaled_input(TensorId y, const Routing& routing) {
  const TensorId scaled = graph_.activation("expert_input_scale", {dims_.batch, dims_.sequence, row_});
  graph_.add("expert_input_scale", Opcode::map, Function::scale_rows, {y, routing.probabilities}, {scaled})
      .module = module;
  return scaled;
}

TensorId MoeLayer::weighted(TensorId activated, const Routing& routing) {
  const TensorId out = graph_.activation("expert_weighting", {moe_.experts, moe_.capacity, moe_.expert_ffn});
  Operator& op = graph_.add("expert_weighting", Opcode::map, Function::weigh_rows,
                            {activated, *routing.expert_probabilities}, {out});
  op.module = module;
  op.inner_module = activation_module;
  return out;
}

// What a token's rows are counted by on their way: per node, per GPU, per expert.
std::vector<MoeLayer::Hop> MoeLayer::hops() const {
  std::vector<Hop> hops;
  if (moe_.node_rows) hops.push_back({"", "", *moe_.node_rows});
  if (moe_.gpu_rows) hops.push_back({"dispatch_in_node", "combine_in_node", *moe_.gpu_rows});
  hops.push_back({"permute", "unpermute", moe_.capacity});
  hops.front().dispatch = "dispatch";
  hops.front().combine = "combine";
  return hops;
}

void MoeLayer::describe(Operator& op, const Regroup& regroup) const {
  op.module = module;
  op.regroup = regroup;
  op.gathers_tokens = moe_.gathers_tokens;
  // A rank has tokens for all experts; behind the first exchange, for those of its node.
  if (!moe_.gathers_tokens && regroup.from.size() > 1) op.whole_dims = {moe_.experts};
}

void MoeLayer::add_dispatch(const std::string& name, std::vector<TensorId> inputs, TensorId out,
                            const Regroup& regroup) {
  Operator& op = graph_.add(name, Opcode::gather, Function::dispatch, std::move(inputs), {out});
  describe(op, regroup);
  op.sums_later = regroup.from.size() == 1 || moe_.gathers_tokens;
  if (moe_.has_capacity) op.constants = capacity_constants();
}

TensorId MoeLayer::dispatch(TensorId y, Routing& routing) {
  const std::vector<Hop> hops = this->hops();
  std::vector<DimensionId> from{dims_.batch, dims_.sequence};
  std::vector<TensorId> by{routing.indices};  // only in front of the first hop
  if (routing.dispatch_mask) by.push_back(*routing.dispatch_mask);
  TensorId rows = y, probabilities = routing.probabilities;
  for (const Hop& hop : hops) {
    const auto add = [&](const std::string& name, TensorId of, TensorId out) {
      std::vector<TensorId> inputs{of};
      inputs.insert(inputs.end(), by.begin(), by.end());
      add_dispatch(name, std::move(inputs), out, {from, hop.rows});
      return out;
    };
    rows = add(hop.dispatch, rows, graph_.activation(hop.dispatch, {moe_.experts, hop.rows, row_}));
    const bool last = hop.rows == moe_.capacity;
    if (hops.size() > 1 && !experts_.scales_input && (!last || !experts_.bias)) {
      const std::string name = std::string(hop.dispatch) + "_probabilities";
      const std::vector<DimensionId> dims{moe_.experts, hop.rows, last ? dims_.one : moe_.topk};
      const TensorId out = graph_.tensor(name, dims, Dtype::fp32, TensorKind::activation);
      if (!last) graph_.exchange_beside(out, rows);
      probabilities = add(name, probabilities, out);
      (last ? routing.expert_probabilities : routing.row_probabilities) = probabilities;
    }
    from = {hop.rows};
    by.clear();
  }
  return rows;
}

TensorId MoeLayer::combine(TensorId expert_out, const Routing& routing) {
  const std::vector<Hop> hops = this->hops();
  TensorId rows = expert_out;
  for (std::size_t h = hops.size(); h-- > 0;) {
    const bool first = h + 1 == hops.size(), last = h == 0;
    const TensorId out = last ? graph_.activation(hops[h].combine, {dims_.batch, dims_.sequence, row_})
                              : graph_.activation(hops[h].combine, {moe_.experts, hops[h - 1].rows, row_});
    std::vector<TensorId> inputs{rows};
    const bool weighs = first && !experts_.scales_input;
    if (weighs && !last && !routing.expert_probabilities) inputs.push_back(*routing.row_probabilities);
    if (weighs && last) inputs.push_back(routing.combine_mask.value_or(routing.probabilities));
    if (last) inputs.push_back(routing.indices);
    Operator& op = graph_.add(hops[h].combine, Opcode::gather, Function::combine, std::move(inputs), {out});
    describe(op, {last ? std::vector<DimensionId>{dims_.batch, dims_.sequence}
                       : std::vector<DimensionId>{hops[h - 1].rows},
                  hops[h].rows});
    op.sums_later = !last || moe_.gathers_tokens;
    const bool counts_rows = (experts_.scales_input && moe_.has_capacity) || moe_.mask_places;
    if (first && last && counts_rows) op.constants = capacity_constants();  // as dispatched
    rows = out;
  }
  return rows;
}

TensorId MoeLayer::shared(TensorId y) {
  const TensorId activated = add_up_projection({.name = "shared_fc1",
                                                .activation = "shared_activation",
                                                .module = module,
                                                .product_module = shared_module,
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
  Operator& down = graph_.add("shared_fc2", Opcode::gemm, Function::none, {activated, weight}, {z});
  down.module = module;
  down.inner_module = shared_module;
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
