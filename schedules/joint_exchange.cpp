#include "schedules/joint_exchange.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace simrun {

void join_exchange(const ChunkContext& context, const ChunkCode& code, std::vector<CodeStep>& steps) {
  const auto tensor_of = [&](const CodeStep& step) { return code.values[step.inputs.front()].tensor; };
  const CodeStep& last = steps.back();
  const std::optional<TensorId> rows = context.graph.tensors[tensor_of(last)].travels_with;
  if (!rows || last.stream == compute_stream) return;
  const auto other = std::find_if(steps.rbegin() + 1, steps.rend(), [&](const CodeStep& step) {
    return step.opcode == last.opcode && step.axes == last.axes && step.reduction == last.reduction &&
           step.phase == last.phase && step.region == last.region && tensor_of(step) == *rows;
  });
  if (other == steps.rend()) return;
  other->inputs.push_back(last.inputs.front());
  other->outputs.push_back(last.outputs.front());
  steps.pop_back();
}

bool WaitingGradients::waits(TensorId tensor, const std::map<TensorId, ValueId>& known,
                             const std::map<TensorId, std::size_t>& expected) {
  const std::optional<TensorId> rows = graph_.tensors[tensor].travels_with;
  if (!rows || known.contains(*rows) || !expected.contains(*rows)) return false;
  waiting_[*rows].push_back(tensor);
  return true;
}

std::vector<TensorId> WaitingGradients::released(TensorId tensor) {
  const auto waiting = waiting_.find(tensor);
  return waiting == waiting_.end() ? std::vector<TensorId>{} : std::exchange(waiting->second, {});
}

}  // namespace simrun
