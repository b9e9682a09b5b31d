#include "models/lora.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace simrun {
namespace {

bool is_part(const std::string& target) { return target == "q" || target == "k" || target == "v"; }

// fc1 and fc2 are those of an MLP, of experts and of shared experts alike (Megatron Bridge's linear_fc1, the
// modules of one name in PEFT); fc1 may be two products, its gate and the rest.
bool is_named(const std::string& product, const std::string& target) {
  if (product == target) return true;
  if (target == "fc1" && (product == "fc1_gate" || product == "fc1_up")) return true;
  return (target == "fc1" || target == "fc2") &&
         (product == "expert_" + target || product == "shared_" + target);
}

class LoraWriter {
 public:
  LoraWriter(Graph& graph, const LoraConfig& lora) : graph_(graph), lora_(lora), found_(lora.targets.size()) {
    graph_.dimensions.push_back({"lora_rank", lora.rank, lora.rank});
    rank_ = static_cast<DimensionId>(graph_.dimensions.size() - 1);
  }

  void run() {
    std::vector<Operator> before = std::exchange(graph_.operators, {});
    replaced_.resize(graph_.tensors.size());
    for (TensorId t = 0; t < replaced_.size(); ++t) replaced_[t] = t;
    for (Operator& op : before) {
      redirect(op);
      const std::vector<std::string> targets = targets_of(op);
      graph_.operators.push_back(op);
      if (!targets.empty()) adapt(op, targets);
    }
    for (std::size_t t = 0; t < found_.size(); ++t)
      if (!found_[t])
        throw std::invalid_argument(
            fmt::format("training.lora.targets: the model has no product '{}'", lora_.targets[t]));
  }

 private:
  // Reads what stands behind the adapter. A sum of partial sums can no longer put off its reduction: one of
  // its summands has an adapter's output in it, which is whole.
  void redirect(Operator& op) const {
    bool changed = false;
    for (TensorId& input : op.inputs) {
      if (input >= replaced_.size() || replaced_[input] == input) continue;
      input = replaced_[input];
      changed = true;
    }
    if (!changed || !op.keeps_partial_sums) return;
    op.keeps_partial_sums = false;
    op.whole_dims.clear();
  }

  std::vector<std::string> targets_of(const Operator& op) {
    std::vector<std::string> targets;
    if (op.opcode != Opcode::gemm || graph_.tensors[op.inputs[1]].kind != TensorKind::parameter)
      return targets;
    for (std::size_t t = 0; t < lora_.targets.size(); ++t) {
      const std::string& target = lora_.targets[t];
      const bool parted = is_part(target) && op.name == "qkv";
      if (!is_named(op.name, target) && !parted) continue;
      found_[t] = true;
      targets.push_back(parted ? target : op.name);
    }
    return targets;
  }

  void adapt(const Operator& op, const std::vector<std::string>& targets) {
    const TensorId y = op.outputs.front();
    std::vector<TensorId> summands{y};
    for (const std::string& target : targets) summands.push_back(branch(op, target));
    const TensorId sum = activation(op.name + "_lora_add", graph_.tensors[y].dims);
    Operator& add = append(op, op.name + "_lora_add", Opcode::map, Function::add);
    add.inputs = std::move(summands);
    add.forward_inputs = add.inputs.size();
    add.outputs = {sum};
    replaced_[y] = sum;
  }

  // (x A) B x alpha / rank.
  TensorId branch(const Operator& op, const std::string& target) {
    const std::vector<DimensionId> of_x = graph_.tensors[op.inputs[0]].dims;
    const std::vector<DimensionId> of_w = graph_.tensors[op.inputs[1]].dims;
    const std::vector<DimensionId> of_y = parts(graph_.tensors[op.outputs.front()].dims, target);
    std::vector<DimensionId> rows, in, out;
    for (const DimensionId dim : of_x) {
      if (has(of_w, dim)) in.push_back(dim);
      if (!has(of_w, dim) || has(of_y, dim)) rows.push_back(dim);  // in all three: one matrix each (experts)
    }
    for (const DimensionId dim : of_y)
      if (has(of_x, dim) && has(of_w, dim)) out.push_back(dim);
    out.push_back(rank_);
    for (const DimensionId dim : of_y)
      if (!has(of_x, dim)) out.push_back(dim);
    in.push_back(rank_);
    rows.push_back(rank_);

    const TensorId x = lora_.dropout > 0 ? dropped(op, target) : op.inputs[0];
    const TensorId a = product(op, target + "_lora_a", {x, parameter(target + "_lora_a_weight", in)}, rows);
    const TensorId b = product(op, target + "_lora_b", {a, parameter(target + "_lora_b_weight", out)}, of_y);
    const TensorId scaled = activation(target + "_lora_scale", of_y);
    Operator& scale = append(op, target + "_lora_scale", Opcode::map, Function::scale);
    scale.inputs = {b};
    scale.forward_inputs = 1;
    scale.outputs = {scaled};
    scale.constants = {lora_.alpha / static_cast<double>(lora_.rank)};
    return scaled;
  }

  TensorId dropped(const Operator& op, const std::string& target) {
    const std::vector<DimensionId> dims = graph_.tensors[op.inputs[0]].dims;
    const std::string name = target + "_lora_dropout";
    const TensorId out = activation(name, dims);
    graph_.tensors.push_back({name + "_mask", dims, Dtype::uint8, TensorKind::activation});
    Operator& drop = append(op, name, Opcode::map, Function::add);
    drop.inputs = {op.inputs[0]};
    drop.forward_inputs = 1;
    drop.outputs = {out, static_cast<TensorId>(graph_.tensors.size() - 1)};
    drop.dropout = static_cast<float>(lora_.dropout);
    return out;
  }

  // q: `group` heads of the packed group + 2; k and v: one.
  std::vector<DimensionId> parts(std::vector<DimensionId> dims, const std::string& target) const {
    if (is_part(target))
      std::replace(dims.begin(), dims.end(), graph_.dimension("qkv"),
                   graph_.dimension(target == "q" ? "group" : "one"));
    return dims;
  }

  TensorId product(const Operator& op, const std::string& name, std::vector<TensorId> operands,
                   const std::vector<DimensionId>& dims) {
    const TensorId out = activation(name, dims);
    Operator& gemm = append(op, name, Opcode::gemm, Function::none);
    gemm.inputs = std::move(operands);
    gemm.forward_inputs = gemm.inputs.size();
    gemm.outputs = {out};
    return out;
  }

  // In the place of its target: same layer, stage and recompute module.
  Operator& append(const Operator& target, std::string name, Opcode opcode, Function function) {
    Operator op;
    op.name = std::move(name);
    op.module = target.module;
    op.stack = target.stack;
    op.opcode = opcode;
    op.function = function;
    op.layer = target.layer;
    op.after_layers = target.after_layers;
    op.whole_dims = target.whole_dims;
    graph_.operators.push_back(std::move(op));
    return graph_.operators.back();
  }

  TensorId tensor(std::string name, std::vector<DimensionId> dims, TensorKind kind) {
    const Dtype dtype = graph_.tensors[graph_.operators.back().outputs.front()].dtype;
    graph_.tensors.push_back({std::move(name), std::move(dims), dtype, kind});
    return static_cast<TensorId>(graph_.tensors.size() - 1);
  }
  TensorId activation(std::string name, std::vector<DimensionId> dims) {
    return tensor(std::move(name), std::move(dims), TensorKind::activation);
  }
  TensorId parameter(std::string name, std::vector<DimensionId> dims) {
    return tensor(std::move(name), std::move(dims), TensorKind::parameter);
  }

  Graph& graph_;
  const LoraConfig& lora_;
  std::vector<bool> found_;  // by target
  DimensionId rank_ = 0;
  std::vector<TensorId> replaced_;  // by tensor of the graph without adapters
};

}  // namespace

void add_lora(Graph& graph, const LoraConfig& lora) { LoraWriter(graph, lora).run(); }

}  // namespace simrun
