#include "schedules/extend_order.h"

#include <algorithm>

namespace simrun {

int representative_microbatches(int ranks, int microbatches) {
  constexpr int common_multiple = 12;
  const int enough = (ranks <= 16 ? 3 : 2) * ranks + 2 * common_multiple;
  if (microbatches <= enough + common_multiple) return microbatches;
  return enough + (microbatches - enough) % common_multiple;
}

namespace {

// Whether every lane has as many forwards, backwards and releases in the middle as it has microbatches.
bool repeats(const SearchModel& model, const PassOrder& order, const Middle& middle) {
  for (std::size_t r = 0; r < order.size(); ++r) {
    std::vector<int> forwards(model.lanes.size()), backwards(model.lanes.size()),
        released(model.lanes.size());
    for (std::size_t i = middle.first[r]; i < middle.last[r]; ++i) {
      const Pass pass = order[r][i];
      if (pass.kind == OpKind::forward) ++forwards[pass.lane];
      if (pass.kind == OpKind::backward || pass.kind == OpKind::backward_input) ++backwards[pass.lane];
      if (pass.kind == OpKind::backward || pass.kind == OpKind::backward_weight) ++released[pass.lane];
    }
    for (const int lane : model.lanes_of[r]) {
      const auto l = static_cast<std::size_t>(lane);
      const int count = middle.microbatches;
      if (forwards[l] != count || backwards[l] != count || released[l] != count) return false;
    }
  }
  return true;
}

// What each rank starts from `from` until `to`.
Middle between(const std::vector<std::vector<std::int64_t>>& starts, std::int64_t from, std::int64_t to) {
  Middle middle;
  middle.time = to - from;
  for (const std::vector<std::int64_t>& rank : starts) {
    const auto index = [&](std::int64_t time) {
      return static_cast<std::size_t>(std::lower_bound(rank.begin(), rank.end(), time) - rank.begin());
    };
    middle.first.push_back(index(from));
    middle.last.push_back(index(to));
  }
  return middle;
}

}  // namespace

PassOrder repeat_middle(const PassOrder& order, const Middle& middle, int copies) {
  if (copies == 0) return order;
  PassOrder longer;
  for (std::size_t r = 0; r < order.size(); ++r) {
    const auto first = order[r].begin() + static_cast<std::ptrdiff_t>(middle.first[r]);
    const auto last = order[r].begin() + static_cast<std::ptrdiff_t>(middle.last[r]);
    PassList passes(order[r].begin(), last);
    passes.reserve(order[r].size() + static_cast<std::size_t>(copies) * (middle.last[r] - middle.first[r]));
    for (int copy = 0; copy < copies; ++copy) passes.insert(passes.end(), first, last);
    passes.insert(passes.end(), last, order[r].end());
    longer.push_back(std::move(passes));
  }
  return longer;
}

Middle find_middle(const SearchModel& model, const PassOrder& order, int extra) {
  OrderEvaluator evaluator(model);
  evaluator.run(order);
  const auto rank = static_cast<std::size_t>(model.lanes.front().rank);
  std::vector<std::int64_t> entries;  // starts of the first stage's forwards
  for (std::size_t i = 0; i < order[rank].size(); ++i)
    if (order[rank][i] == Pass{OpKind::forward, 0}) entries.push_back(evaluator.starts()[rank][i]);
  for (const int count : {1, 2, 3, 4, 6, 12}) {
    if (extra % count != 0) continue;
    for (std::size_t k = entries.size() / 2; k + static_cast<std::size_t>(count) < entries.size(); ++k) {
      Middle middle = between(evaluator.starts(), entries[k], entries[k + static_cast<std::size_t>(count)]);
      middle.microbatches = count;
      if (repeats(model, order, middle)) return middle;
    }
  }
  return {};
}

}  // namespace simrun
