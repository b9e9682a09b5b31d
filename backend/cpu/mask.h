#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/operations.h"
#include "models/causal_mask.h"

// What a score of an attention is masked by, and what is added to it: functions of the places of its query
// and key in the whole sequence, whichever rank has them.
namespace simrun::cpu {

struct ScoreMask {
  CausalMask causal;
  // Packed documents: by place in the sequence, the first token of its document. Empty: one document.
  std::vector<std::int64_t> document_begin = {};

  bool sees(std::int64_t query, std::int64_t key) const {
    if (causal.on && (key > query || key < causal.first_key(query))) return false;
    return document_begin.empty() ||
           document_begin[static_cast<std::size_t>(query)] == document_begin[static_cast<std::size_t>(key)];
  }
};

// Of sample `sample` of the step, over a sequence of `length` tokens.
ScoreMask mask_of(const KernelCall& call, std::int64_t sample, std::int64_t length);

// ALiBi (Press et al. 2021, arXiv 2108.12409, section 3): a score loses slope x distance. For n heads, a
// power of two, head h of 0.. has the slope 2^(-bias_max (h + 1) / n), with bias_max = 8; for other n every
// second of those for the next power of two, then the ones between them (the authors' code).
double alibi_slope(std::int64_t head, std::int64_t heads, double bias_max);

// T5's row for a key `distance` places behind (below 0: before) its query (Raffel et al. 2020, arXiv
// 1910.10683, section 2.1, and its code): a row for each of the near half of the distances, then rows that
// grow with the logarithm of the distance up to `farthest`, whose row all beyond it share. Attention to both
// sides has half of the rows for each.
struct RelativeBuckets {
  std::int64_t rows = 0;
  double farthest = 0;
  bool both_sides = false;
  std::int64_t row(std::int64_t distance) const;
};

}  // namespace simrun::cpu
