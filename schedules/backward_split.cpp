#include "schedules/backward_split.h"

#include <algorithm>

namespace simrun {

BackwardSplit split_backward(const ChunkCode& code, const std::vector<ValueId>& kept_before) {
  // From the last step to the first: a step belongs to I if it is not for weights alone, I reads what it
  // writes, nobody does (the end of what a checkpoint runs again), or what it reads does not live until W.
  std::vector<bool> wanted(code.values.size(), false), of_weights(wanted),
      in_input(code.backward.size(), false);
  for (std::size_t s = code.backward.size(); s-- > 0;) {
    const CodeStep& step = code.backward[s];
    bool needed = step.phase == Phase::backward_input;
    for (const ValueId output : step.outputs) needed = needed || wanted[output];
    const auto is_for_weights = [&](ValueId output) {
      return of_weights[output] || code.values[output].kind == ValueKind::parameter_gradient;
    };
    needed = needed || (step.phase == Phase::recompute && std::ranges::none_of(step.outputs, is_for_weights));
    // In a recomputed ring what a rank sends is needed where the next step, its RECV, is.
    if (step.opcode == Opcode::send && s + 1 < code.backward.size()) needed = needed || in_input[s + 1];
    needed = needed || std::find_first_of(step.inputs.begin(), step.inputs.end(), kept_before.begin(),
                                          kept_before.end()) != step.inputs.end();
    in_input[s] = needed;
    for (const ValueId input : step.inputs)
      if (!needed)
        of_weights[input] = true;
      else if (code.values[input].kind != ValueKind::parameter_gradient)
        wanted[input] = true;
  }
  BackwardSplit split;
  split.crosses.assign(code.values.size(), false);
  for (std::size_t s = 0; s < code.backward.size(); ++s) {
    (in_input[s] ? split.input : split.weight).push_back(s);
    if (in_input[s]) continue;
    for (const ValueId input : code.backward[s].inputs) split.crosses[input] = true;
  }
  // What W itself writes stays inside W.
  for (const std::size_t s : split.weight)
    for (const ValueId output : code.backward[s].outputs) split.crosses[output] = false;
  return split;
}

}  // namespace simrun
