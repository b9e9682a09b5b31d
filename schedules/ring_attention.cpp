#include "schedules/ring_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "schedules/context_parallel.h"

namespace simrun {
namespace {

using Values = std::vector<ValueId>;

class Ring {
 public:
  Ring(const ChunkContext& context, ChunkCode& code, std::vector<CodeStep>& steps, const CodeStep& attention)
      : context_(context),
        parallel_(context.context_parallel),
        code_(code),
        steps_(steps),
        attention_(attention),
        ranks_(static_cast<std::int32_t>(parallel_.ranks())) {}

  void forward() {
    Values block(attention_.inputs.begin() + 1, attention_.inputs.end());
    ValueId output = no_index, sums = no_index;
    for (std::int32_t i = 0; i < ranks_; ++i) {
      const bool last = i + 1 == ranks_;
      const Values next = last ? Values{} : travelled(block, i + 1, "");
      if (!last) transfer(block, next, 1, i);
      CodeStep step = attention_;
      step.inputs = {attention_.inputs[0]};
      step.inputs.insert(step.inputs.end(), block.begin(), block.end());
      step.outputs = {like(attention_.outputs[0], i), like(attention_.outputs[1], i)};
      parallel_.describe(step, context_.graph, i);
      steps_.push_back(step);
      if (i == 0) {
        output = step.outputs[0];
        sums = step.outputs[1];
      } else {
        CodeStep join = accumulation(step, Function::flash);
        join.inputs = {output, sums, step.outputs[0], step.outputs[1]};
        output = last ? attention_.outputs[0] : like(attention_.outputs[0], i);
        sums = last ? attention_.outputs[1] : like(attention_.outputs[1], i);
        join.outputs = {output, sums};
        steps_.push_back(std::move(join));
      }
      block = next;
    }
  }

  // Inputs: gradient, q, the block, context and log-sum-exp; outputs: gradients of q and of the block.
  void backward() {
    const auto first = attention_.inputs.begin() + 2, behind = attention_.inputs.end() - 2;
    Values block(first, behind), summed;
    if (attention_.outputs.size() != 1 + block.size())
      throw std::invalid_argument(attention_.label +
                                  ": a ring needs the gradients of q, k and v all or none");
    ValueId query_gradient = no_index;
    for (std::int32_t i = 0; i < ranks_; ++i) {
      const bool last = i + 1 == ranks_;
      const Values next = last ? Values{} : travelled(block, i + 1, "");
      const Values arriving = travelled(summed, i, "_grad");
      transfer(last ? summed : joined(block, summed), joined(next, arriving), -1, i);
      CodeStep step = attention_;
      std::copy(block.begin(), block.end(), step.inputs.begin() + 2);
      for (ValueId& output : step.outputs) output = like(output, i);
      parallel_.describe(step, context_.graph, ranks_ - 1 - i);
      steps_.push_back(step);
      query_gradient = sum(step, query_gradient, 0);
      summed.resize(block.size(), no_index);
      for (std::size_t part = 0; part < block.size(); ++part)
        summed[part] = sum(step, i == 0 ? no_index : arriving[part], part + 1);
      block = next;
    }
  }

 private:
  ValueId copy_of(ValueId value, std::string name) {
    Value copy = code_.values[value];
    copy.name = std::move(name);
    copy.saved = copy.arrived = false;
    code_.values.push_back(std::move(copy));
    return static_cast<ValueId>(code_.values.size() - 1);
  }

  // Of one step of the ring.
  ValueId like(ValueId value, std::int32_t step) {
    const ValueId copy = copy_of(value, fmt::format("{}_step{}", code_.values[value].name, step));
    code_.values[copy].kind = kind_of_steps();
    code_.values[copy].source = value;
    code_.values[copy].conversion = Opcode::map;  // one summand of many
    return copy;
  }
  ValueKind kind_of_steps() const {
    return attention_.opcode == Opcode::attention ? ValueKind::activation : ValueKind::backward;
  }

  static Values joined(Values a, const Values& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  // What arrives where these leave.
  Values travelled(const Values& values, std::int32_t step, const char* what) {
    Values arrived;
    for (const ValueId value : values) {
      const Tensor& tensor = context_.graph.tensors[code_.values[value].tensor];
      const ValueId copy = copy_of(value, fmt::format("{}{}_ring{}", tensor.name, what, step));
      code_.values[copy].kind = kind_of_steps();
      code_.values[copy].region = attention_.region;
      code_.values[copy].source = value;
      code_.values[copy].conversion = Opcode::recv;
      arrived.push_back(copy);
    }
    return arrived;
  }

  void transfer(const Values& sent, const Values& received, std::int32_t offset, std::int32_t number) {
    CodeStep step;
    step.opcode = Opcode::send;
    step.phase = attention_.phase;
    step.layer = attention_.layer;
    step.region = attention_.region;
    step.stream = parallel_.stream_out();
    step.peer = {-1, parallel_.axes(), offset, true, {}};
    step.label = fmt::format("{} ring", attention_.label);
    step.cause =
        fmt::format("{} ring: step {} {}", attention_.label, number, context_.mesh.words(parallel_.axes()));
    step.inputs = sent;
    steps_.push_back(step);
    step.opcode = Opcode::recv;
    step.stream = parallel_.stream_in();
    step.peer.offset = -offset;
    step.inputs.clear();
    step.outputs = received;
    steps_.push_back(std::move(step));
  }

  CodeStep accumulation(const CodeStep& attention, Function function) {
    CodeStep step;
    step.opcode = Opcode::map;
    step.function = function;
    step.phase = attention.phase;
    step.layer = attention.layer;
    step.region = attention.region;
    step.label = attention.label + " ring sum";
    step.work_table = parallel_.where_launched(attention);
    return step;
  }

  // The gradient so far with what the step adds to its output of this number.
  ValueId sum(const CodeStep& attention, ValueId so_far, std::size_t output) {
    if (so_far == no_index) return attention.outputs[output];
    const std::int32_t offset = attention.part.key_offset;
    const ValueId whole = attention_.outputs[output];
    CodeStep step = accumulation(attention, Function::sum_gradients);
    step.inputs = {so_far, attention.outputs[output]};
    step.outputs = {offset == 0 ? whole : like(whole, ranks_ - 1 - offset)};
    const ValueId result = step.outputs[0];
    steps_.push_back(std::move(step));
    return result;
  }

  const ChunkContext& context_;
  ContextParallelism& parallel_;
  ChunkCode& code_;
  std::vector<CodeStep>& steps_;
  const CodeStep attention_;
  const std::int32_t ranks_;
};

}  // namespace

void add_ring_forward(const ChunkContext& context, ChunkCode& code, const CodeStep& attention) {
  Ring(context, code, code.forward, attention).forward();
}

void add_ring_backward(const ChunkContext& context, ChunkCode& code, const CodeStep& attention) {
  Ring(context, code, code.backward, attention).backward();
}

ValueId last_block(const ChunkCode& code, ValueId own) {
  ValueId last = own;
  for (ValueId v = own + 1; v < code.values.size(); ++v)
    if (code.values[v].conversion == Opcode::recv && code.values[v].kind == ValueKind::activation &&
        code.values[v].source == last)
      last = v;
  return last;
}

}  // namespace simrun
