#include "schedules/late_sums.h"

#include <algorithm>

namespace simrun {

LateSums::LateSums(const ChunkContext& context) : graph_(context.graph) {
  for (const std::size_t o : context.operators)
    for (const TensorId output : graph_.operators[o].outputs) writer_[output] = o;
}

bool LateSums::stay(const ChunkCode& code, TensorId tensor, const std::vector<ValueId>& contributions,
                    const Layout& wanted) const {
  const auto writer = writer_.find(tensor);
  if (writer == writer_.end()) return false;
  const Layout& layout = code.values[contributions.front()].layout;
  return were_given(graph_.operators[writer->second], layout, wanted) &&
         std::ranges::all_of(contributions,
                             [&](ValueId value) { return code.values[value].layout == layout; });
}

ValueId LateSums::written_by(const Operator& op, ValueId gradient) {
  if (op.gathers_tokens) gathered_.insert(gradient);
  return gradient;
}

void LateSums::summed(TensorId tensor, ValueId first, ValueId total) {
  const auto writer = writer_.find(tensor);
  const bool is_read_by_all = writer != writer_.end() && graph_.operators[writer->second].gathers_tokens;
  if (is_read_by_all || of_all_tokens(first)) gathered_.insert(total);
}

void add_axes(std::vector<AxisId>& to, const std::vector<AxisId>& axes) {
  for (const AxisId axis : axes)
    if (std::find(to.begin(), to.end(), axis) == to.end()) to.push_back(axis);
  std::sort(to.begin(), to.end());
}

void add_partial(Layout& layout, const std::vector<AxisId>& axes) { add_axes(layout.partial_sum, axes); }

}  // namespace simrun
