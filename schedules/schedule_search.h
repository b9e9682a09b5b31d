#pragma once

#include "schedules/pipeline_schedule.h"

namespace simrun {

// Zero Bubble's automatic schedule (Qi et al. 2024, arXiv 2401.10241, section 3.1): one stage per rank,
// backward split, best of many greedy passes (schedule_candidates.h) by makespan, then by the most time of a
// rank from the start of its first F to the end of its last W; never worse than zb_h1 where that fits, and
// more memory never makes it longer. Uses times, communication and memory_limit (default 2 x ranks: ZB-2p).
// zb_h2 is it with unit times and that limit, whatever the shape's.
Schedule zb_auto(const PipelineShape& shape);
Schedule zb_h2(const PipelineShape& shape);

// Controllable-memory V schedules (Qi et al. 2024, arXiv 2405.15362): two stages per rank in V placement,
// from uniform building blocks, then squeezed without raising the peak. v_half and v_min are for unit times,
// whatever the shape's, within v_half_memory and v_min_memory. v_auto: for the shape's times, the best
// block or other order under memory_limit (chunk units, >= 2, default 2 x ranks), never worse than zb_v,
// v_half or v_min where they fit; more memory never makes it longer.
Schedule v_half(const PipelineShape& shape);
Schedule v_min(const PipelineShape& shape);
Schedule v_auto(const PipelineShape& shape);
int v_half_memory(int ranks);
int v_min_memory(int ranks);

// The best order that a search finds in a given effort (a count, not seconds: results must not depend on the
// machine), for the shape's own times and memory limit; never worse than any named schedule that accepts the
// shape and keeps the limit, if those are given as seeds.
//
// Starts from greedy passes, repeating patterns, rounds like interleaved 1F1B's, the best orders for equal
// times and the named schedules; local search improves the best of each.
// REQUIRES: slices == 1; memory_limit 0 (none) or >= stages of a rank; bidirectional: even microbatches and
// virtual_stages == 1.
struct SearchOptions {
  Placement placement = Placement::loop;
  bool split_backward = true;
  bool named_seeds = true;
  // Passes in all orders that are tried, and no more than 60'000 orders. Orders for many microbatches are
  // tried on as few as show the steady state, whose middle is then repeated.
  std::int64_t effort = 160'000'000;
};
struct SearchResult {
  Schedule schedule;
  Placement placement = Placement::loop;
  std::int64_t makespan = 0;
  std::int64_t lower_bound = 0;  // proven: no order of this placement can be shorter
  std::string seed;              // what it started from: a named schedule, "greedy pass", "rounds", ...
};
SearchResult search_schedule(const PipelineShape& shape, const SearchOptions& options);

// `auto`: the best that search_schedule() finds over the placements in which every stage's weights are held
// once (loop; of an even number of virtual stages also wave), which share the effort. Never worse than any
// named schedule of those placements that accepts the shape and keeps the limit. The lower bound is that of
// all of them. `options.placement` is not looked at.
SearchResult best_order(const PipelineShape& shape, const SearchOptions& options);

// "" if best_order() accepts the shape under that effort, else why not, with a size that works.
std::string best_order_refusal(const PipelineShape& shape, const SearchOptions& options);

// A makespan that no order under this placement, split or not, can beat: work of the fullest rank plus the
// least time before its first and behind its last pass; the longest chain of one microbatch; both under the
// memory limit. The proof is at the head of lower_bound.cpp.
std::int64_t makespan_lower_bound(const PipelineShape& shape, Placement placement);

}  // namespace simrun
