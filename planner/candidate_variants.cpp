#include "planner/candidate_variants.h"

#include <algorithm>

namespace simrun {
namespace {

// Heads are copied for an exchange only where the job asks for one: Transformer Engine makes no copies.
std::vector<AttentionExchange> exchanges_of(const ModelConfig& model, const PlanConfig& limits,
                                            const Candidate& of) {
  if (!limits.exchange_is_open || of.context == 1) return {of.exchange};
  std::vector<AttentionExchange> all = {{}, {ContextExchange::all_gather, 1}};
  for (std::int64_t inner = 2; inner <= of.context; ++inner)
    if (of.context % inner == 0 && !copies_key_value_heads(model, of.tensor, inner))
      all.push_back({inner == of.context ? ContextExchange::a2a : ContextExchange::a2a_p2p, inner});
  return all;
}

}  // namespace

std::vector<Candidate> variants_of(const Job& job, const PlanConfig& limits, const Candidate& candidate) {
  std::vector<Candidate> variants;
  if (candidate.is_as_written) return variants;
  const bool may_be_whole = takes_sequence_parallel(job, candidate.tensor, candidate.context);
  for (const AttentionExchange& exchange : exchanges_of(job.model, limits, candidate))
    for (const bool whole : {false, true}) {
      Candidate next = candidate;
      next.exchange = exchange;
      next.whole_sequences = whole;
      if ((may_be_whole || !whole) && next != candidate) variants.push_back(next);
    }
  std::ranges::sort(variants);
  return variants;
}

}  // namespace simrun
