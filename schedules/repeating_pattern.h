#pragma once

#include <vector>

#include "schedules/search_model.h"

namespace simrun {

// A pattern in which every microbatch runs like the one before it, `period` later (the uniform building
// blocks of Qi et al. 2024, arXiv 2405.15362, are those with equal steps from rank to rank).
struct RepeatingPattern {
  std::int64_t period = 1;
  std::vector<std::int64_t> forward, backward;  // by lane: start of the first microbatch
};

// Lays one microbatch along its way, stage by stage: each pass as soon as its input is there plus the wait of
// its chunk (stage / ranks), at the next time at which its rank is free, all times modulo the period.
// Bidirectional: first down, then up. False if a pass finds no place.
struct PatternRule {
  std::int64_t period = 1;
  std::vector<std::int64_t> forward_wait, backward_wait;  // by chunk
};
bool lay_pattern(const SearchModel& model, const PatternRule& rule, RepeatingPattern& pattern);

// Forwards and backward-inputs of every rank in the order of the pattern's times; without W's.
PassOrder unroll(const SearchModel& model, const RepeatingPattern& pattern);

// Activations that the fullest rank holds on average: the sum of (end of I + W - start of F) / period.
double mean_in_flight(const SearchModel& model, const RepeatingPattern& pattern);

}  // namespace simrun
