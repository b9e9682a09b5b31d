#pragma once

#include <map>
#include <set>
#include <vector>

#include "schedules/chunk_code.h"

namespace simrun {

// In the backward pass of a chunk: which gradients may stay the ranks' summands (Operator::sums_later), and
// which are of all tokens of a group (Operator::gathers_tokens).
class LateSums {
 public:
  explicit LateSums(const ChunkContext& context);

  // Whether these contributions to a tensor's gradient, alone or added, are as the backward pass of the
  // operator that wrote it may be given them: summands of the layout `wanted`.
  bool stay(const ChunkCode& code, TensorId tensor, const std::vector<ValueId>& contributions,
            const Layout& wanted) const;

  // The same of the value that the operator's forward step was given.
  static bool were_given(const Operator& op, const Layout& held, const Layout& wanted) {
    return op.sums_later && without_partials(held) == wanted;
  }

  // The axes over which that value is a summand, where it was given so.
  static std::vector<AxisId> given_summands(const Operator& op, const Layout& held, const Layout& wanted) {
    return were_given(op, held, wanted) ? held.partial_sum : std::vector<AxisId>{};
  }

  // Notes, and returns, a contribution of an operator; notes its sum with others like it.
  ValueId written_by(const Operator& op, ValueId gradient);
  void summed(TensorId tensor, ValueId first, ValueId total);
  bool of_all_tokens(ValueId gradient) const { return gathered_.contains(gradient); }

 private:
  const Graph& graph_;
  std::map<TensorId, std::size_t> writer_;  // operators of the chunk
  std::set<ValueId> gathered_;
};

// Adds what is missing; ascending.
void add_axes(std::vector<AxisId>& to, const std::vector<AxisId>& axes);
// Adds to the axes over which a value is a summand.
void add_partial(Layout& layout, const std::vector<AxisId>& axes);

}  // namespace simrun
