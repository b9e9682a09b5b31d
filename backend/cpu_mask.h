#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/causal_mask.h"

// What a score of an attention is masked by: a function of the places of its query and key in the whole
// sequence, whichever rank has them.
namespace simrun::cpu {

struct ScoreMask {
  CausalMask causal;
  // Packed documents: by place in the sequence, the first token of its document. Empty: one document.
  std::vector<std::int64_t> document_begin = {};

  bool sees(std::int64_t query, std::int64_t key) const {
    if (causal.on && (key > query || (causal.window > 0 && query - key >= causal.window))) return false;
    return document_begin.empty() || document_begin[static_cast<std::size_t>(query)] ==
                                         document_begin[static_cast<std::size_t>(key)];
  }
};

}  // namespace simrun::cpu
