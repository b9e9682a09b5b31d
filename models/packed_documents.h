#pragma once

#include <cstdint>
#include <vector>

#include "configs/training_config.h"
#include "models/causal_mask.h"

namespace simrun {

// Tokens of the documents in one sequence of a step; they add up to seq_length.
//
//   recorded   the documents lie one behind the other in the data, which is cut into sequences and read in a
//              circle: sequence n holds the tokens [n s, (n + 1) s). A document that is cut is two.
//   otherwise  drawn afresh for every sequence, keyed by (seed, n), and the last is cut: whatever the layout
//   of the
//              job, sequence n is the same.
// uniform: 1 to 2 mean - 1 tokens; lognormal: exp(mu + sigma N(0, 1)) with mu = ln(mean) - sigma^2 / 2.
std::vector<std::int64_t> documents_of_sequence(const DocumentConfig& config, std::int64_t seq_length,
                                                std::int64_t sequence);

// Share of the scores that one document as long as the sequence would have: under a causal mask
//   sum of f(length) / f(s), with f(l) = l^2 / 2, or under a sliding window w < l: w l - w^2 / 2.
double document_share(const std::vector<std::int64_t>& lengths, const CausalMask& mask);

}  // namespace simrun
