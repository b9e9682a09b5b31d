#pragma once

#include <optional>
#include <string>

#include "validation/measured_row.h"

namespace simrun {

// "n/a", "-", "not stated" and their like, whatever the case: the source does not say.
bool is_blank_word(const std::string& cell);

// Columns whose cells are words: precision, sp, zero_stage, recompute, schedule, flash_attention.
bool has_words(Column column);

// The cell in the words that the rules of configs/validation and the job know, whatever the case and what
// stands between letters: "Interleaved 1F1B" is interleaved-1f1b, "FULL_SHARD" fsdp, "yes" 1. "" where it
// names nothing definite ("mixed precision"); nothing for a word that is unknown. REQUIRES:
// has_words(column).
std::optional<std::string> known_word(Column column, const std::string& cell);

// What known_word() takes, for a message.
const char* accepted_words(Column column);

}  // namespace simrun
