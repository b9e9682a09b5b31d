#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "backend/sequence_parts.h"

namespace simrun {

// Rows that experts with a capacity have for the tokens of a rank in a microbatch, taken choice by choice in
// the order of the tokens, batch then sequence: the first ones of each part of the sequence, or of each group
// of tokens, get them (Lepikhin et al. 2020, arXiv 2006.16668, section 2.2).
class ExpertCapacity {
 public:
  // `constants` of a dispatch (backend/operations.h), none: no limit; `sequence`: places of the rank's part
  // of the sequence; `rows`: of an expert for all parts.
  ExpertCapacity(const std::vector<double>& constants, std::int64_t sequence, std::int64_t rows);

  bool is_limited() const { return parts_ > 0; }
  // The next token's choices follow; its place in the rank's part of the sequence.
  void begin_token(std::int64_t in_sequence);
  // The expert's row, counted from the first of the token's part or group; none is left: the choice is
  // dropped. Without a limit 0.
  std::optional<std::int64_t> take(std::int32_t expert);
  // Rows that nobody took.
  std::int64_t empty_rows(std::int32_t expert) const;

 private:
  SequenceParts part_of_place_;
  std::int64_t parts_ = 0, rows_ = 0, room_ = 0;  // room: of a part or a group
  std::int64_t group_tokens_ = 0;                 // 0: a part is one group
  std::int64_t part_ = 0, group_ = 0;             // of the token
  std::vector<std::int64_t> tokens_;              // seen, by part
  std::map<std::tuple<std::int32_t, std::int64_t, std::int64_t>, std::int64_t> taken_;  // expert, part, group
};

}  // namespace simrun
