#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <set>
#include <string_view>

#include "schedules/chunk_code.h"
#include "schedules/context_parallel.h"
#include "schedules/conversion_step.h"
#include "schedules/fp8_linears.h"
#include "schedules/joint_exchange.h"
#include "schedules/late_sums.h"
#include "schedules/ring_attention.h"

namespace simrun {
namespace {

class ForwardLowering {
 public:
  ForwardLowering(const ChunkContext& context, ChunkCode& code)
      : context_(context), code_(code), casts_(context, code) {}

  void run() {
    for (const BorderTensor& input : context_.inputs) {
      const ValueId value = add_value(input.tensor, ValueKind::activation, input.layout, "_received");
      code_.values[value].arrived = true;
      base_[input.tensor] = value;
      code_.inputs.push_back(value);
      if (!context_.from_before.axes.empty())
        code_.forward.push_back(broadcast_step(context_, code_, value, context_.from_before));
    }
    for (const std::size_t o : context_.operators) lower(o);
    for (const BorderTensor& output : context_.outputs)
      code_.outputs.push_back(in_layout(output.tensor, output.layout, {-1, -1, "next stage", false}));
    casts_.update_scales({code_.forward, Phase::forward});
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
    const bool in_fp8 = context_.fp8 != nullptr && context_.fp8->is_linear[o];
    CodeStep step = operator_step(op);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const Layout wanted = input_layout(graph(), op, layout, i);
      ValueId value =
          graph().tensors[op.inputs[i]].kind == TensorKind::parameter ? parameter(op.inputs[i], wanted)
          : op.keeps_partial_sums || (i == 0 && LateSums::were_given(op, held(op.inputs[0]), wanted))
              ? base_.at(op.inputs[i])
          : in_fp8 && i == 0
              ? fp8_input(o, wanted)
              : in_layout(op.inputs[i], wanted, {region, op.layer, op.name, op.gathers_tokens});
      if (in_fp8 && i == 1) value = casts_.weight(value, op.layer).row;
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
    step.region = region;
    if (op.opcode == Opcode::attention) context_.context_parallel.describe(step, graph());
    if (op.opcode == Opcode::attention && context_.context_parallel.is_ring())
      return add_ring_forward(context_, code_, step);
    code_.forward.push_back(std::move(step));
  }

  // As its operator wrote it; nothing of a parameter.
  Layout held(TensorId tensor) const {
    const auto written = base_.find(tensor);
    return written == base_.end() ? Layout{} : code_.values[written->second].layout;
  }

  ValueId parameter(TensorId tensor, const Layout& layout) {
    const auto known = parameter_of_.find(tensor);
    if (known != parameter_of_.end()) return known->second;
    const ValueId value = add_value(tensor, ValueKind::parameter, layout);
    code_.values[value].frozen = graph().tensors[tensor].frozen;
    code_.values[value].scale_block = graph().tensors[tensor].scale_block;
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
    for (const Conversion& conversion : conversions(code_.values[value].layout, wanted, of_all_tokens))
      value = convert(value, conversion, reader);
    made.push_back(value);
    return value;
  }

  ValueId convert(ValueId value, const Conversion& conversion, const Reader& reader) {
    const bool of_all_tokens = reader.gathers_tokens || sums_of_tokens_.contains(code_.values[value].tensor);
    CodeStep step = conversion_step(context_, code_, value, conversion,
                                    {ValueKind::activation, "_converted", "", of_all_tokens});
    step.layer = reader.layer;
    const bool is_sum =
        conversion.opcode == Opcode::all_reduce || conversion.opcode == Opcode::reduce_scatter;
    const bool is_kept = context_.regions.keeps_sums && is_sum && code_.values[value].region < 0;
    step.region = is_kept ? -1 : reader.region;
    step.cause += fmt::format(" for {}", reader.name);
    const ValueId result = step.outputs.front();
    code_.values[result].region = step.region;
    code_.forward.push_back(std::move(step));
    join_exchange(context_, code_, code_.forward);
    return result;
  }

  // ---- fp8 ----

  // Whether some linear layer in fp8 wants the tensor for the gradient of its weight.
  bool is_read_again(TensorId tensor) const {
    return std::any_of(context_.operators.begin(), context_.operators.end(), [&](std::size_t o) {
      const Operator& op = graph().operators[o];
      return context_.fp8->is_linear[o] && op.inputs[0] == tensor && !graph().tensors[op.inputs[1]].frozen;
    });
  }

  // Whether an operator that is not in fp8 reads the tensor in this layout.
  bool is_read_wide(TensorId tensor, const Layout& layout) const {
    return std::any_of(context_.operators.begin(), context_.operators.end(), [&](std::size_t o) {
      const Operator& op = graph().operators[o];
      for (std::size_t i = 0; i < op.inputs.size(); ++i)
        if (op.inputs[i] == tensor && !(context_.fp8->is_linear[o] && i == 0) &&
            input_layout(graph(), op, context_.layouts[o], i) == layout)
          return true;
      return false;
    });
  }

  // The rows of the first input of a product, cast in front of the gathers that end its conversion: they then
  // move fp8. Behind them where the gathered wide value is needed and no copy is kept.
  ValueId fp8_input(std::size_t o, const Layout& wanted) {
    const Operator& op = graph().operators[o];
    const TensorId tensor = op.inputs[0];
    std::vector<ValueId>& made = quantised_[tensor];
    for (const ValueId known : made)
      if (code_.values[known].layout == wanted) return known;
    const std::vector<Conversion> path = conversions(code_.values[base_.at(tensor)].layout, wanted);
    const bool again = is_read_again(tensor);
    std::size_t before = path.size();
    if (again || !is_read_wide(tensor, wanted))
      while (before > 0 && path[before - 1].opcode == Opcode::all_gather) --before;
    const Layout& at = before == 0 ? code_.values[base_.at(tensor)].layout : path[before - 1].result;
    const Reader reader{context_.regions.region_of[o], op.layer, op.name, op.gathers_tokens};
    const ValueId wide = in_layout(tensor, Layout(at), reader);
    std::vector<AxisId> over;
    for (std::size_t i = before; i < path.size(); ++i)
      over.insert(over.end(), path[i].axes.begin(), path[i].axes.end());
    ValueId value = fp8_rows(wide, o, again && (over.empty() || !context_.fp8->transposes()), over);
    for (; before < path.size(); ++before) value = convert(value, path[before], reader);
    made.push_back(value);
    return value;
  }

  // A checkpoint that discards the wide value discards what was cast from it.
  ValueId fp8_rows(ValueId wide, std::size_t o, bool columns, std::vector<AxisId> shared_over) {
    const auto known = rows_of_.find(wide);
    if (known != rows_of_.end()) return known->second;
    const std::int32_t own = code_.values[wide].region;
    const bool discarded = own >= 0 && context_.regions.discards_output[static_cast<std::size_t>(own)];
    const Fp8Casts::Place place{code_.forward, Phase::forward, graph().operators[o].layer,
                                discarded ? own : context_.regions.region_of[o], std::move(shared_over)};
    return rows_of_[wide] = casts_.cast(wide, {true, columns}, place).row;
  }

  const ChunkContext& context_;
  ChunkCode& code_;
  std::map<TensorId, ValueId> parameter_of_;
  std::map<TensorId, ValueId> base_;                    // as its operator writes it
  std::map<TensorId, std::vector<ValueId>> converted_;  // in other layouts
  std::set<TensorId> sums_of_tokens_;                   // written by operators that gather tokens
  Fp8Casts casts_;
  std::map<TensorId, std::vector<ValueId>> quantised_;  // rows in fp8, in the layouts in which they are read
  std::map<ValueId, ValueId> rows_of_;                  // as they were cast
};

}  // namespace

bool has_dimension(const Graph& graph, TensorId tensor, const char* name) {
  const std::vector<DimensionId>& dims = graph.tensors[tensor].dims;
  return std::any_of(dims.begin(), dims.end(),
                     [&](DimensionId dim) { return graph.dimensions[dim].name == name; });
}

void lower_forward(const ChunkContext& context, ChunkCode& code) { ForwardLowering(context, code).run(); }

}  // namespace simrun
