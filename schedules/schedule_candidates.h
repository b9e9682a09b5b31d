#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "schedules/search_model.h"

namespace simrun {

struct ScoredOrder {
  PassOrder order;
  OrderTimes times;
  std::int64_t elsewhere = 0;  // sum of its makespans under the other times of the pool
  std::string rule;            // what made it, in words
  int input_peak = 0;          // activations from F to I or B on a rank; the pool counts them
};

// Less makespan first, then less span, less elsewhere, a lower peak to I.
bool better(const ScoredOrder& a, const ScoredOrder& b);

// The best orders seen, best first, without two of the same figures. An order for any pass times is known to
// be good under `other_times` too if there is a choice. Orders with an input_peak over `input_limit` are left
// out.
class OrderPool {
 public:
  explicit OrderPool(std::size_t size, const std::vector<SearchModel>& other_times = {},
                     int input_limit = std::numeric_limits<int>::max())
      : size_(size), others_(other_times.begin(), other_times.end()), input_limit_(input_limit) {}
  void offer(ScoredOrder candidate);
  const std::vector<ScoredOrder>& orders() const { return orders_; }

 private:
  std::size_t size_;
  std::vector<OrderEvaluator> others_;
  int input_limit_;
  std::vector<ScoredOrder> orders_;
};

// `count` orders that are made for the times of `model` and scored by those of `scored_by`.
struct CandidateOrders {
  const SearchModel& model;
  const SearchModel& scored_by;
  std::int64_t count = 0;
  bool split = true;  // I and W; else B (greedy passes alone)
};

// Greedy passes over a fixed list of rules, the most promising first.
void offer_greedy_orders(const CandidateOrders& candidates, OrderPool& pool);

// Repeating patterns whose mean in flight is within the limit, spread over all that could be laid with a few
// waits and periods. They win where memory is short: a microbatch never waits for long.
void offer_pattern_orders(const CandidateOrders& candidates, OrderPool& pool);

// Loop placement: rounds of a group of microbatches through one chunk after the other, as interleaved 1F1B
// has them, with other groups and warm-ups.
void offer_round_orders(const CandidateOrders& candidates, OrderPool& pool);

// What one microbatch asks of the pipeline if nothing waits.
struct PipelineLoad {
  std::vector<std::int64_t> round_trips;  // by lane: from the end of F to the start of I
  std::int64_t work = 1;                  // of all its passes on the fullest rank; > 0
  std::int64_t lifetimes = 0;             // of its activations on the rank that holds them longest, together
  PassTimes mean;                         // of F, I and W over the lanes
};
PipelineLoad pipeline_load(const SearchModel& model);

}  // namespace simrun
