#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <set>
#include <string_view>

#include "schedules/chunk_code.h"
#include "schedules/context_parallel.h"
#include "schedules/ring_attention.h"

namespace simrun {
namespace {

class ForwardLowering {
 public:
  ForwardLowering(const ChunkContext& context, ChunkCode& code) : context_(context), code_(code) {}

  void run() {
    for (const BorderTensor& input : context_.inputs) {
      const ValueId value = add_value(input.tensor, ValueKind::activation, input.layout, "_received");
      code_.values[value].arrived = true;
      base_[input.tensor] = value;
      code_.inputs.push_back(value);
    }
    for (const std::size_t o : context_.operators) lower(o);
    for (const BorderTensor& output : context_.outputs)
      code_.outputs.push_back(in_layout(output.tensor, output.layout, {-1, -1, "next stage", false}));
  }

 private:
  // Whom a tensor is converted for.
  struct Reader {
    std::int32_t region = -1;
    std::int32_t layer = -1;
    std::string_view name;
    bool gathers_tokens = false;
  };

  const Graph& graph() const { return context_.graph; }

  ValueId add_value(TensorId tensor, ValueKind kind, Layout layout, const char* suffix = "") {
    const Tensor& t = graph().tensors[tensor];
    code_.values.push_back({tensor, kind, t.dtype, std::move(layout), t.name + suffix});
    return static_cast<ValueId>(code_.values.size() - 1);
  }

  void lower(std::size_t o) {
    const Operator& op = graph().operators[o];
    const Layout& layout = context_.layouts[o];
    const std::int32_t region = context_.regions.region_of[o];
    CodeStep step;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const Layout wanted = input_layout(graph(), op, layout, i);
      const ValueId value =
          graph().tensors[op.inputs[i]].kind == TensorKind::parameter ? parameter(op.inputs[i], wanted)
          : op.keeps_partial_sums || (i == 0 && takes_partial_sum(op, wanted))
              ? base_.at(op.inputs[i])
              : in_layout(op.inputs[i], wanted, {region, op.layer, op.name, op.gathers_tokens});
      if (i < op.forward_inputs) step.inputs.push_back(value);
      assert(!op.keeps_partial_sums ||
             code_.values[value].layout == code_.values[step.inputs.front()].layout);
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      Layout written = op.keeps_partial_sums ? code_.values[step.inputs.front()].layout
                                             : output_layout(graph(), op, layout, i);
      if (op.sums_later) add_partial(written, code_.values[step.inputs.front()].layout.partial_sum);
      const ValueId value = add_value(op.outputs[i], ValueKind::activation, std::move(written));
      code_.values[value].region = region;
      base_[op.outputs[i]] = value;
      if (op.gathers_tokens) sums_of_tokens_.insert(op.outputs[i]);
      step.outputs.push_back(value);
    }
    step.opcode = op.opcode;
    step.function = op.function;
    step.layer = op.layer;
    step.dropout = op.dropout;
    step.causal = op.causal;
    step.soft_cap = op.opcode == Opcode::attention && op.soft_cap > 0;
    step.region = region;
    step.label = op.name;
    if (op.opcode == Opcode::attention) context_.context_parallel.describe(step, graph());
    if (op.opcode == Opcode::attention && context_.context_parallel.is_ring())
      return add_ring_forward(context_, code_, step);
    code_.forward.push_back(std::move(step));
  }

  // That the operator may be given as its ranks' summands.
  bool takes_partial_sum(const Operator& op, const Layout& wanted) const {
    return op.sums_later && without_partials(code_.values[base_.at(op.inputs[0])].layout) == wanted;
  }

  ValueId parameter(TensorId tensor, const Layout& layout) {
    const auto known = parameter_of_.find(tensor);
    if (known != parameter_of_.end()) return known->second;
    const ValueId value = add_value(tensor, ValueKind::parameter, layout);
    code_.values[value].frozen = graph().tensors[tensor].frozen;
    code_.parameters.push_back(value);
    parameter_of_[tensor] = value;
    const ValueId gradient = add_value(tensor, ValueKind::parameter_gradient, layout, "_grad");
    code_.values[gradient].dtype = Dtype::fp32;
    code_.parameter_gradients.push_back(gradient);
    code_.gradient_axes.emplace_back();
    code_.of_experts.push_back(has_dimension(graph(), tensor, "experts"));
    return value;
  }

  // The tensor in the wanted layout, converted if no value has it yet.
  ValueId in_layout(TensorId tensor, const Layout& wanted, const Reader& reader) {
    ValueId value = base_.at(tensor);
    if (code_.values[value].layout == wanted) return value;
    std::vector<ValueId>& made = converted_[tensor];
    for (const ValueId known : made)
      if (code_.values[known].layout == wanted) return known;
    const bool of_all_tokens = reader.gathers_tokens || sums_of_tokens_.contains(tensor);
    for (const Conversion& conversion : conversions(code_.values[value].layout, wanted, of_all_tokens)) {
      CodeStep step;
      step.opcode = conversion.opcode;
      step.axes = conversion.axes;
      step.reduction = conversion.reduction;
      step.stream = stream_of(context_, tensor, conversion, of_all_tokens);
      step.layer = reader.layer;
      step.region = reader.region;
      step.label = fmt::format("{} {}", graph().tensors[tensor].name, to_string(conversion.opcode));
      step.cause = fmt::format("{}: {} -> {} for {}", graph().tensors[tensor].name,
                               describe(code_.values[value].layout, graph(), context_.mesh),
                               describe(conversion.result, graph(), context_.mesh), reader.name);
      const ValueId result = add_value(tensor, ValueKind::activation, conversion.result, "_converted");
      code_.values[result].source = value;
      code_.values[result].conversion = conversion.opcode;
      code_.values[result].region = reader.region;
      step.inputs = {value};
      step.outputs = {result};
      code_.forward.push_back(std::move(step));
      value = result;
    }
    made.push_back(value);
    return value;
  }

  const ChunkContext& context_;
  ChunkCode& code_;
  std::map<TensorId, ValueId> parameter_of_;
  std::map<TensorId, ValueId> base_;                    // as its operator writes it
  std::map<TensorId, std::vector<ValueId>> converted_;  // in other layouts
  std::set<TensorId> sums_of_tokens_;                   // written by operators that gather tokens
};

}  // namespace

bool has_dimension(const Graph& graph, TensorId tensor, const char* name) {
  const std::vector<DimensionId>& dims = graph.tensors[tensor].dims;
  return std::any_of(dims.begin(), dims.end(),
                     [&](DimensionId dim) { return graph.dimensions[dim].name == name; });
}

void add_partial(Layout& layout, const std::vector<AxisId>& axes) {
  for (const AxisId axis : axes)
    if (std::find(layout.partial_sum.begin(), layout.partial_sum.end(), axis) == layout.partial_sum.end())
      layout.partial_sum.push_back(axis);
  std::sort(layout.partial_sum.begin(), layout.partial_sum.end());
}

std::uint8_t stream_of(const ChunkContext& context, TensorId tensor, const Conversion& conversion,
                       bool of_all_tokens) {
  if (conversion.opcode == Opcode::copy) return compute_stream;
  return of_all_tokens || has_dimension(context.graph, tensor, "experts")
             ? context.expert_stream
             : context.stream_of_axis[conversion.axes.front()];
}

void lower_forward(const ChunkContext& context, ChunkCode& code) { ForwardLowering(context, code).run(); }

}  // namespace simrun
