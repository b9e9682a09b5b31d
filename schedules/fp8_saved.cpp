#include <algorithm>
#include <utility>

#include "schedules/fp8_linears.h"

namespace simrun {
namespace {

bool reads(const CodeStep& step, ValueId value) {
  return std::find(step.inputs.begin(), step.inputs.end(), value) != step.inputs.end();
}

// From the wide value, which is kept anyway: cast again in front of the copy's first reader.
void cast_again(const ChunkContext& context, ChunkCode& code, ValueId copy) {
  const auto first = std::find_if(code.backward.begin(), code.backward.end(),
                                  [&](const CodeStep& step) { return reads(step, copy); });
  if (first == code.backward.end()) return;
  const ValueId wide = code.values[copy].quantised_from;
  std::vector<CodeStep> steps;
  const QuantisedValue again =
      Fp8Casts(context, code)
          .cast(wide, {.row = true, .column = false}, {steps, Phase::backward_weight, first->layer, -1, {}});
  // One copy, for whichever product reads it; it is not among those that a later pass takes its scale from.
  steps.back().outputs = {again.row};
  for (auto step = first; step != code.backward.end(); ++step)
    std::replace(step->inputs.begin(), step->inputs.end(), copy, again.row);
  code.backward.insert(first, steps.begin(), steps.end());
  code.values[copy].saved = false;
}

// Leaves out of a list's casts the copies that none of its steps reads and nobody keeps.
void drop_unread(const ChunkCode& code, std::vector<CodeStep>& steps) {
  std::vector<bool> read(code.values.size(), false);
  for (const CodeStep& step : steps)
    for (const ValueId input : step.inputs) read[input] = true;
  for (CodeStep& step : steps)
    std::erase_if(step.outputs, [&](ValueId output) {
      const Value& value = code.values[output];
      return value.quantised_from != no_index && !read[output] && !value.saved;
    });
  std::erase_if(steps,
                [](const CodeStep& step) { return step.function == Function::cast && step.outputs.empty(); });
}

}  // namespace

void settle_saved_copies(const ChunkContext& context, ChunkCode& code) {
  if (context.fp8 == nullptr) return;
  if (context.fp8->recipe != Fp8Recipe::delayed)
    for (ValueId v = 0; v < code.values.size(); ++v) {
      const Value& value = code.values[v];
      if (value.saved && value.quantised_from != no_index && code.values[value.quantised_from].saved)
        cast_again(context, code, v);
    }
  drop_unread(code, code.forward);
  drop_unread(code, code.backward);
}

}  // namespace simrun
