#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <set>

#include "models/backward.h"
#include "schedules/chunk_code.h"
#include "schedules/context_parallel.h"
#include "schedules/conversion_step.h"
#include "schedules/fp8_linears.h"
#include "schedules/joint_exchange.h"
#include "schedules/late_sums.h"
#include "schedules/ring_attention.h"

namespace simrun {
namespace {

class BackwardLowering {
 public:
  BackwardLowering(const ChunkContext& context, ChunkCode& code)
      : context_(context), code_(code), forward_values_(code.values.size()), casts_(context, code) {
    std::set<ValueId> columns;
    for (std::size_t v = 0; v < forward_values_; ++v) {
      const Value& value = code_.values[v];
      if (value.kind != ValueKind::activation || value.flat_elements > 0) continue;
      if (value.quantised_from != no_index) {
        if (value.column != v && value.column != no_index) columns.insert(value.column);
        if (!columns.contains(static_cast<ValueId>(v)))
          rows_[value.tensor].push_back(static_cast<ValueId>(v));
        continue;
      }
      if (value.conversion == Opcode::free) base_[value.tensor] = static_cast<ValueId>(v);
      by_layout_[value.tensor].push_back(static_cast<ValueId>(v));
    }
  }

  void run() {
    for (std::size_t p = 0; p < code_.parameters.size(); ++p)
      parameter_index_[code_.values[code_.parameters[p]].tensor] = p;
    for (std::size_t s = 0; s < code_.forward.size(); ++s)
      if (code_.forward[s].region >= 0) region_steps_[code_.forward[s].region].push_back(s);
    count_contributions();
    for (const BorderTensor& output : context_.outputs) receive_output_gradient(output);
    for (auto o = context_.operators.rbegin(); o != context_.operators.rend(); ++o) differentiate(*o);
    for (const BorderTensor& input : context_.inputs)
      code_.input_gradients.push_back(is_differentiated(input.tensor) ? gradients_.at(input.tensor)
                                                                      : no_index);
    casts_.update_scales({code_.backward, Phase::backward_input});
    wait_for_output_gradient();
  }

 private:
  const Graph& graph() const { return context_.graph; }
  bool is_parameter(TensorId tensor) const { return graph().tensors[tensor].kind == TensorKind::parameter; }

  bool is_differentiated(TensorId tensor) const {
    return !is_parameter(tensor) && !graph().tensors[tensor].frozen;
  }
  // ---- gradients of activations: of their consumers, summed and laid out as the producer wants them ----

  void count_contributions() {
    for (const std::size_t o : context_.operators) {
      const Operator& op = graph().operators[o];
      for (const BackwardStep& step : backward_steps(graph(), op))
        for (const std::uint8_t i : step.gradients_of)
          if (is_differentiated(op.inputs[i])) ++expected_[op.inputs[i]];
    }
    for (const BorderTensor& output : context_.outputs)
      if (is_differentiated(output.tensor)) ++expected_[output.tensor];
  }

  // Where something before the border is trained.
  void receive_output_gradient(const BorderTensor& output) {
    if (!is_differentiated(output.tensor)) return code_.output_gradients.push_back(no_index);
    const ValueId value = add_value(output.tensor, output.layout, "_grad_received");
    code_.values[value].arrived = true;
    code_.output_gradients.push_back(value);
    if (!context_.from_behind.axes.empty())
      code_.backward.push_back(broadcast_step(context_, code_, value, context_.from_behind));
    contribute(output.tensor, value, -1);
  }

  // Frameworks receive the gradient before they start the pass: recomputation does not run ahead of it.
  void wait_for_output_gradient() {
    std::vector<ValueId> arriving = code_.output_gradients;
    std::erase(arriving, no_index);
    if (arriving.empty()) return;
    for (CodeStep& step : code_.backward) {
      if (step.opcode != Opcode::broadcast) step.waits_for = arriving;
      if (step.stream == compute_stream) return;
    }
  }

  ValueId add_value(TensorId tensor, Layout layout, const char* suffix) {
    const Tensor& t = graph().tensors[tensor];
    code_.values.push_back(
        {tensor, ValueKind::backward, context_.gradient_dtype, std::move(layout), t.name + suffix});
    return static_cast<ValueId>(code_.values.size() - 1);
  }

  void contribute(TensorId tensor, ValueId value, std::int32_t layer) {
    contributions_[tensor].push_back(value);
    if (contributions_[tensor].size() != expected_[tensor]) return;
    if (waiting_.waits(tensor, gradients_, expected_)) return;
    complete(tensor, layer);
    for (const TensorId beside : waiting_.released(tensor)) complete(beside, layer);
  }

  // Summands in one layout are added before they are communicated.
  void complete(TensorId tensor, std::int32_t layer) {
    const Layout wanted = without_partials(code_.values[base_.at(tensor)].layout);
    std::vector<ValueId> whole;
    std::vector<ValueId> rest = contributions_[tensor];
    if (late_.stay(code_, tensor, rest, wanted)) {
      gradients_[tensor] = sum(tensor, rest, layer);
      return;
    }
    if (gather_in_fp8(tensor, wanted, layer)) return;
    while (!rest.empty()) {
      const Layout layout = code_.values[rest.front()].layout;
      std::vector<ValueId> alike;
      for (const ValueId value : rest)
        if (code_.values[value].layout == layout) alike.push_back(value);
      std::erase_if(rest, [&](ValueId value) { return code_.values[value].layout == layout; });
      const ValueId total = sum(tensor, alike, layer);
      late_.summed(tensor, alike.front(), total);
      whole.push_back(converted(total, wanted, layer, "_grad", Phase::backward_input));
    }
    gradients_[tensor] = sum(tensor, whole, layer);
  }

  ValueId sum(TensorId tensor, const std::vector<ValueId>& summands, std::int32_t layer) {
    if (summands.size() == 1) return summands.front();
    const ValueId total = add_value(tensor, code_.values[summands.front()].layout, "_grad_sum");
    CodeStep step;
    step.opcode = Opcode::map;
    step.function = Function::sum_gradients;
    step.phase = Phase::backward_input;
    step.layer = layer;
    step.inputs = summands;
    step.outputs = {total};
    step.label = graph().tensors[tensor].name + " gradient sum";
    code_.backward.push_back(std::move(step));
    return total;
  }

  ValueId converted(ValueId value, const Layout& wanted, std::int32_t layer, const char* suffix,
                    Phase phase) {
    const ConvertedAs as{ValueKind::backward, suffix, suffix, late_.of_all_tokens(value)};
    for (const Conversion& conversion : conversions(code_.values[value].layout, wanted, as.of_all_tokens)) {
      CodeStep step = conversion_step(context_, code_, value, conversion, as);
      step.phase = phase;
      step.layer = layer;
      value = step.outputs.front();
      code_.backward.push_back(std::move(step));
      join_exchange(context_, code_, code_.backward);
    }
    return value;
  }

  // ---- values of the forward pass ----

  // A forward value as the backward pass may read it: kept, gathered again, or recomputed. `reader`:
  // recompute region of the reading operator.
  ValueId resolve(ValueId value, std::int32_t reader) {
    const Value& wanted = code_.values[value];
    if (wanted.kind == ValueKind::parameter) return value;
    // An exchanged copy is as large as its source and is kept in its place; where tokens go is small.
    const bool gathered = wanted.conversion == Opcode::all_gather || wanted.conversion == Opcode::copy;
    const bool routing =
        wanted.conversion == Opcode::all_gather && has_dimension(graph(), wanted.tensor, "topk");
    if (gathered && !routing) return gather_again(value, reader);
    const std::int32_t region = wanted.region;
    const bool inside = region >= 0 && (region == reader ||
                                        context_.regions.discards_output[static_cast<std::size_t>(region)]);
    if (!inside) {
      code_.values[value].saved = true;
      return value;
    }
    const bool repeats = region != reader && context_.regions.repeats[static_cast<std::size_t>(region)];
    if (repeats || recomputed_.find(value) == recomputed_.end()) recompute(region);
    return recomputed_.at(value);
  }

  ValueId gather_again(ValueId value, std::int32_t reader) {
    const auto known = gathered_.find(value);
    if (known != gathered_.end()) return known->second;
    const ValueId source = resolve(code_.values[value].source, reader);
    const Layout layout = code_.values[value].layout;
    const ValueId again = converted(source, layout, layer_, "_again", Phase::backward_weight);
    return gathered_[value] = again;
  }

  // Runs a region's forward steps once more, all of them, as a checkpoint does.
  void recompute(std::int32_t region) {
    for (const std::size_t s : region_steps_.at(region)) {
      CodeStep step = code_.forward[s];
      step.phase = Phase::recompute;
      if (code_.largest != no_index)
        std::erase(step.outputs, code_.largest);  // those of the forward pass hold
      for (ValueId& input : step.inputs) {
        const auto own = recomputed_.find(input);
        const bool from_region = own != recomputed_.end() && code_.values[input].region == region;
        input = from_region ? own->second : resolve(input, region);
      }
      for (ValueId& output : step.outputs) {
        Value again = code_.values[output];
        again.kind = ValueKind::backward;
        again.name += "_recomputed";
        again.saved = false;
        code_.values.push_back(std::move(again));
        recomputed_[output] = static_cast<ValueId>(code_.values.size() - 1);
        output = recomputed_[output];
      }
      code_.backward.push_back(std::move(step));
    }
  }

  // The value of a tensor that an operator read, in the layout in which it read it.
  ValueId forward_value(const Operator& op, const Layout& layout, OperandRole role, std::size_t index) const {
    if (role == OperandRole::output_value) return base_.at(op.outputs[index]);
    const TensorId tensor = op.inputs[index];
    if (is_parameter(tensor)) return code_.parameters[parameter_index_.at(tensor)];
    const Layout wanted = input_layout(graph(), op, layout, index);
    const bool ring = op.opcode == Opcode::attention && context_.context_parallel.is_ring();
    for (const ValueId value : by_layout_.at(tensor))
      if (code_.values[value].layout == wanted ||
          (index == 0 && value == base_.at(tensor) &&
           LateSums::were_given(op, code_.values[value].layout, wanted)))
        return ring && index > 0 ? last_block(code_, value) : value;
    assert(false && "the forward pass made every layout that an operator reads");
    return no_index;
  }

  // ---- operators ----

  void differentiate(std::size_t o) {
    const Operator& op = graph().operators[o];
    const std::vector<BackwardStep> steps = backward_steps(graph(), op);
    layer_ = op.layer;
    own_gradients_.assign(op.inputs.size(), no_index);
    std::vector<std::vector<ValueId>> reads;
    reads.reserve(steps.size());
    for (const BackwardStep& step : steps) reads.push_back(operands(o, step));
    for (const bool weight : {false, true})
      for (std::size_t s = 0; s < steps.size(); ++s)
        if (steps[s].weight == weight) emit(o, steps[s], std::move(reads[s]));
  }

  // Resolved before any step is emitted, so that gathers for the weight gradient overlap with the input
  // gradient's kernel.
  std::vector<ValueId> operands(std::size_t o, const BackwardStep& step) {
    const Operator& op = graph().operators[o];
    const bool in_fp8 = context_.fp8 != nullptr && context_.fp8->is_linear[o] && step.opcode == Opcode::gemm;
    std::vector<ValueId> values;
    for (const Operand& operand : step.reads) {
      if (in_fp8)
        values.push_back(fp8_operand(o, step, operand));
      else if (operand.role == OperandRole::output_gradient)
        values.push_back(gradients_.at(op.outputs[operand.index]));
      else if (operand.role == OperandRole::input_gradient)
        values.push_back(no_index);  // known when its step was emitted
      else
        values.push_back(resolve(forward_value(op, context_.layouts[o], operand.role, operand.index),
                                 context_.regions.region_of[o]));
    }
    return values;
  }

  void emit(std::size_t o, const BackwardStep& step, std::vector<ValueId> reads) {
    const Operator& op = graph().operators[o];
    for (std::size_t r = 0; r < reads.size(); ++r)
      if (reads[r] == no_index) reads[r] = own_gradients_[step.reads[r].index];
    CodeStep code = operator_step(op);
    code.opcode = step.opcode;
    code.function = step.function;
    code.phase = step.weight ? Phase::backward_weight : Phase::backward_input;
    code.inputs = reads;
    if (!step.constants.empty()) code.constants = step.constants;
    for (const std::uint8_t i : step.gradients_of)
      code.outputs.push_back(step.alias ? reads.front() : gradient_output(o, i));
    if (step.opcode == Opcode::attention_backward) context_.context_parallel.describe(code, graph());
    if (step.opcode == Opcode::attention_backward && context_.context_parallel.is_ring())
      add_ring_backward(context_, code_, code);
    else if (!step.alias)
      code_.backward.push_back(code);
    for (std::size_t g = 0; g < step.gradients_of.size(); ++g) {
      const std::uint8_t i = step.gradients_of[g];
      own_gradients_[i] = code.outputs[g];
      if (is_differentiated(op.inputs[i])) contribute(op.inputs[i], code.outputs[g], op.layer);
    }
  }

  ValueId gradient_output(std::size_t o, std::size_t input) {
    const Operator& op = graph().operators[o];
    Layout layout = gradient_layout(graph(), op, context_.layouts[o], input);
    if (op.sums_later) add_partial(layout, code_.values[gradients_.at(op.outputs[0])].layout.partial_sum);
    if (op.sums_later && input > 0)  // a product with what the forward step was given
      add_partial(layout, LateSums::given_summands(op, code_.values[base_.at(op.inputs[0])].layout,
                                                   input_layout(graph(), op, context_.layouts[o], 0)));
    if (!is_parameter(op.inputs[input]))
      return late_.written_by(op, add_value(op.inputs[input], std::move(layout), "_grad"));
    const std::size_t index = parameter_index_.at(op.inputs[input]);
    add_axes(code_.gradient_axes[index], layout.partial_sum);
    return code_.parameter_gradients[index];
  }

  // ---- linear layers in fp8 ----

  ValueId fp8_operand(std::size_t o, const BackwardStep& step, const Operand& operand) {
    const Operator& op = graph().operators[o];
    if (operand.role == OperandRole::output_gradient)
      return step.weight ? fp8_gradient(o).column : fp8_gradient(o).row;
    if (operand.index == 0) return fp8_input(o);
    return casts_.weight(code_.parameters[parameter_index_.at(op.inputs[1])], op.layer).column;
  }

  // The gradient of an operator's output as its two products read it.
  QuantisedValue fp8_gradient(std::size_t o) {
    const Operator& op = graph().operators[o];
    const Fp8Casts::Copies wanted = copies_of_gradient(graph(), op);
    const Fp8Casts::Place place{code_.backward, wanted.row ? Phase::backward_input : Phase::backward_weight,
                                op.layer};
    const auto [at, is_new] = fp8_gradients_.try_emplace(op.outputs[0]);
    QuantisedValue& gradient = at->second;
    if (is_new)
      gradient = casts_.cast(gradients_.at(op.outputs[0]), wanted, place);
    else if (gradient.column == no_index && wanted.column)
      gradient.column = context_.fp8->transposes() ? casts_.transposed(gradient.row, place) : gradient.row;
    return gradient;
  }

  // What a product wants whole is gathered in fp8 where one scale is enough, or two copies are small.
  bool gather_in_fp8(TensorId tensor, const Layout& wanted, std::int32_t layer) {
    const std::vector<AxisId> over = fp8_gather_axes(context_, code_, tensor, contributions_[tensor], wanted);
    if (over.empty()) return false;
    const Fp8Casts::Copies copies = copies_gathered_of_gradient(context_, tensor);
    const QuantisedValue local = casts_.cast(sum(tensor, contributions_[tensor], layer), copies,
                                             {code_.backward, Phase::backward_input, layer, -1, over});
    QuantisedValue& whole = fp8_gradients_[tensor];
    if (copies.row) whole.row = converted(local.row, wanted, layer, "_grad", Phase::backward_input);
    if (copies.column) whole.column = converted(local.column, wanted, layer, "_grad", Phase::backward_input);
    return true;
  }

  // What the product for the weight's gradient reads of the forward pass.
  ValueId fp8_input(std::size_t o) {
    const Operator& op = graph().operators[o];
    const Layout wanted = input_layout(graph(), op, context_.layouts[o], 0);
    const std::vector<ValueId>& rows = rows_.at(op.inputs[0]);
    const auto row =
        std::find_if(rows.begin(), rows.end(), [&](ValueId v) { return code_.values[v].layout == wanted; });
    assert(row != rows.end() && "the forward pass cast what a product in fp8 reads");
    const auto [at, is_new] = fp8_inputs_.try_emplace(*row, no_index);
    if (is_new) at->second = column_of(*row, context_.regions.region_of[o]);
    return at->second;
  }

  ValueId column_of(ValueId row, std::int32_t reader) {
    ValueId local = row;
    while (code_.values[local].conversion == Opcode::all_gather) local = code_.values[local].source;
    const ValueId column = code_.values[local].column;
    if (column != no_index) {
      const ValueId kept = resolve(column, reader);
      return converted(kept, Layout(code_.values[row].layout), layer_, "_again", Phase::backward_weight);
    }
    const ValueId again = resolve(row, reader);
    const Fp8Casts::Place place{code_.backward, Phase::backward_weight, layer_};
    return context_.fp8->transposes() ? casts_.transposed(again, place) : again;
  }

  const ChunkContext& context_;
  ChunkCode& code_;
  std::size_t forward_values_;
  std::map<TensorId, std::size_t> parameter_index_;
  std::map<std::int32_t, std::vector<std::size_t>> region_steps_;  // forward steps of each recompute region
  std::map<TensorId, ValueId> base_;
  std::map<TensorId, std::vector<ValueId>> by_layout_;
  std::map<TensorId, std::size_t> expected_;
  std::map<TensorId, std::vector<ValueId>> contributions_;
  std::map<TensorId, ValueId> gradients_;
  std::map<ValueId, ValueId> recomputed_, gathered_;
  Fp8Casts casts_;
  LateSums late_{context_};
  WaitingGradients waiting_{context_.graph};
  std::map<TensorId, std::vector<ValueId>> rows_;     // in fp8, of the forward pass
  std::map<TensorId, QuantisedValue> fp8_gradients_;  // of outputs, as they were first cast
  std::map<ValueId, ValueId> fp8_inputs_;  // by rows of the forward pass: for the weight's gradient
  std::vector<ValueId> own_gradients_;     // of the operator at hand, by input
  std::int32_t layer_ = -1;
};

}  // namespace

void lower_backward(const ChunkContext& context, ChunkCode& code) { BackwardLowering(context, code).run(); }

}  // namespace simrun
