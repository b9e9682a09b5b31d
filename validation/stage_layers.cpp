#include "validation/stage_layers.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

namespace simrun {
namespace {

std::int64_t whole_number(const RowJob& made, const char* fact) {
  const auto found = made.facts.find(fact);
  return found == made.facts.end() ? 0 : std::atoll(found->second.c_str());
}

// Every stage but the last has a layer.
void fill_empty_stages(std::vector<std::int64_t>& counts) {
  for (std::size_t stage = counts.size() - 1; stage-- > 0;) {
    std::size_t giver = stage;
    while (giver > 0 && counts[giver] < 2) --giver;
    if (counts[stage] > 0 || counts[giver] < 2) continue;
    --counts[giver];
    ++counts[stage];
  }
}

}  // namespace

std::vector<std::int64_t> layers_by_cost(std::int64_t layers, std::int64_t stages, double head_cost) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(stages));
  const double share = (static_cast<double>(layers) + head_cost) / static_cast<double>(stages);
  std::size_t stage = 0;
  for (std::int64_t layer = 1; layer <= layers; ++layer) {
    ++counts[stage];
    if (static_cast<double>(layer) > share * static_cast<double>(stage + 1) && stage + 1 < counts.size())
      ++stage;
  }
  fill_empty_stages(counts);
  return counts;
}

std::vector<std::int64_t> sublayers_by_cost(std::int64_t layers, std::int64_t stages,
                                            const Sublayers& costs) {
  const auto count = static_cast<std::size_t>(2 * layers), ranks = static_cast<std::size_t>(stages);
  constexpr double never = std::numeric_limits<double>::infinity();
  const double enough = 2 * (costs.attention + costs.mlp) + costs.table;  // a stage never needs two layers
  // Of the stages so far, which hold the sublayers before `end`: the largest, as small as it can be.
  std::vector<double> least(count + 1, never);
  least[0] = 0;
  std::vector<std::vector<std::size_t>> begins;  // by stage and `end`: where the stage begins then
  for (std::size_t stage = 0; stage < ranks; ++stage) {
    const bool has_table = stage == 0 || stage + 1 == ranks;
    std::vector<double> next(count + 1, never);
    std::vector<std::size_t> begin(count + 1, 0);
    for (std::size_t end = 0; end <= count; ++end) {
      double own = has_table ? costs.table : 0;
      for (std::size_t from = end;; --from) {
        const double largest = std::max(least[from], own);
        const bool holds_something = has_table || from < end;
        if (holds_something && largest < next[end]) {
          next[end] = largest;
          begin[end] = from;
        }
        if (from == 0 || own > enough) break;
        own += from % 2 == 1 ? costs.attention : costs.mlp;
      }
    }
    least = std::move(next);
    begins.push_back(std::move(begin));
  }
  std::vector<std::int64_t> counts(ranks);
  std::size_t end = count;
  for (std::size_t stage = ranks; stage-- > 0; end = begins[stage][end])
    counts[stage] = static_cast<std::int64_t>(end - begins[stage][end]);
  return counts;
}

std::vector<std::int64_t> layers_by_module(std::int64_t layers, std::int64_t stages) {
  const std::int64_t modules = layers + 3;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), modules / stages);
  for (std::int64_t s = 0; s < modules % stages; ++s) ++counts[static_cast<std::size_t>(s)];
  counts.front() -= 1;
  counts.back() -= 2;
  if (counts.back() < 0) return {};
  return counts;
}

std::vector<std::int64_t> layers_between(std::int64_t layers, std::int64_t stages, std::int64_t first,
                                         std::int64_t last) {
  const std::int64_t between = stages - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
  const std::int64_t rest = layers - first - last;
  if (between < 1 || rest < between || rest % between != 0) return {};
  std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), rest / between);
  if (first > 0) counts.front() = first;
  if (last > 0) counts.back() = last;
  return counts;
}

std::vector<std::int64_t> named_stage_layers(const RowJob& made, std::int64_t layers, std::int64_t stages) {
  const std::int64_t first = whole_number(made, "first_stage_layers");
  const std::int64_t last = whole_number(made, "last_stage_layers");
  if (first > 0 || last > 0) return layers_between(layers, stages, first, last);
  const auto kind = made.facts.find("stages");
  if (kind == made.facts.end()) return {};
  if (kind->second == "by_module") return layers_by_module(layers, stages);
  if (kind->second != "by_cost") return {};
  const auto hidden = made.row.integer(Column::hidden), ffn = made.row.integer(Column::ffn_hidden);
  const auto vocab = made.row.integer(Column::vocab);
  if (!hidden || !ffn || !vocab || *hidden < 1 || *ffn < 1) return {};
  return layers_by_cost(layers, stages,
                        static_cast<double>(*vocab) / static_cast<double>(4 * *hidden + 3 * *ffn));
}

}  // namespace simrun
