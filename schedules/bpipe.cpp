#include "schedules/bpipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "schedules/accepted_sizes.h"
#include "schedules/one_f_one_b.h"

namespace simrun {

static std::string bpipe_rule(const PipelineShape& shape) {
  if (std::string broken = one_stage_rule(shape); !broken.empty()) return broken;
  if (shape.ranks % 2 != 0)
    return fmt::format("bpipe pairs ranks, and {} of them is an odd number", shape.ranks);
  return "";
}

std::string bpipe_refusal(const PipelineShape& shape) { return refusal_with_sizes(shape, bpipe_rule); }

Schedule bpipe(int ranks, int microbatches) { return one_f_one_b(ranks, microbatches); }

// Activations that a rank holds at most, its own and its partner's.
static int limit_of(int ranks) { return (ranks + 3) / 2; }  // ceil((ranks + 2) / 2)

int bpipe_resident_peak(int ranks, int microbatches, int rank) {
  const int limit = limit_of(ranks);
  const int own = std::min(microbatches, ranks - rank);
  const int partners = std::min(microbatches, rank + 1);
  return std::min(own, limit) + std::max(0, partners - limit);
}

static void add_moves_of(const RankOps& ops, ActivationMove move, int limit,
                         std::vector<ActivationMove>& moves) {
  std::set<std::int32_t> held, lent;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind == OpKind::forward)
      held.insert(ops[i].microbatch);
    else
      held.erase(ops[i].microbatch);
    move.after = i;
    while (!lent.empty() && std::cmp_less(held.size(), limit)) {
      move.microbatch = *lent.begin();
      move.returns = true;
      moves.push_back(move);
      held.insert(move.microbatch);
      lent.erase(move.microbatch);
    }
    const bool forward_next = i + 1 < ops.size() && ops[i + 1].kind == OpKind::forward;
    if (!forward_next || std::cmp_less(held.size(), limit)) continue;
    move.microbatch = *held.rbegin();
    move.returns = false;
    moves.push_back(move);
    lent.insert(move.microbatch);
    held.erase(move.microbatch);
  }
}

std::vector<ActivationMove> bpipe_moves(const Schedule& schedule) {
  std::vector<ActivationMove> moves;
  const auto ranks = static_cast<std::int32_t>(schedule.size());
  for (std::int32_t rank = 0; rank < ranks; ++rank)
    add_moves_of(schedule[static_cast<std::size_t>(rank)], {rank, ranks - 1 - rank}, limit_of(ranks), moves);
  return moves;
}

}  // namespace simrun
