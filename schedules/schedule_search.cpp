#include "schedules/schedule_search.h"

#include <algorithm>

#include "schedules/evaluate_schedule.h"
#include "schedules/improve_order.h"
#include "schedules/schedule_candidates.h"
#include "schedules/tuned_schedule.h"

namespace simrun {

namespace {

constexpr std::int64_t most_orders = 60'000;
constexpr std::size_t most_starts = 30;  // of local search

// What the whole search works on and with.
struct Search {
  const PipelineShape& shape;  // of the few microbatches that orders are tried on
  const SearchOptions& options;
  SearchModel model;
  std::int64_t bound = 0;
  std::int64_t orders_left = 0;
  OrderPool pool;
};

bool split(const Op& op) { return op.kind == OpKind::backward_input; }

bool keeps_to(const SearchOptions& options, const Schedule& schedule) {
  if (options.split_backward) return true;
  return std::none_of(schedule.begin(), schedule.end(),
                      [](const RankOps& ops) { return std::any_of(ops.begin(), ops.end(), split); });
}

// Named schedules of that placement that accept the shape and keep the limit, to `take(entry, schedule,
// times)`.
template <class Take>
void each_named(const PipelineShape& shape, const SearchOptions& options, const Take& take) {
  if (!options.named_seeds) return;
  for (const ScheduleEntry& entry : pipeline_schedules()) {
    if (entry.placement != options.placement || !entry.refusal(shape).empty()) continue;
    Schedule schedule = entry.build(shape);
    const ScheduleTimes times = evaluate(schedule, shape);
    const std::vector<int>& peaks = times.peak_in_flight_at_w;
    const bool fits =
        shape.memory_limit == 0 || *std::max_element(peaks.begin(), peaks.end()) <= shape.memory_limit;
    if (fits && keeps_to(options, schedule)) take(entry, std::move(schedule), times);
  }
}

// Offers those that run first in, first out, and returns the best as it is, which an order without overlapped
// pairs may not reach.
SearchResult try_named(const PipelineShape& shape, const SearchOptions& options, const SearchModel& model,
                       OrderPool& pool) {
  SearchResult best;
  OrderEvaluator evaluator(model);
  each_named(shape, options, [&](const auto& entry, Schedule schedule, const ScheduleTimes& times) {
    if (PassOrder order = to_pass_order(model, schedule); !order.empty()) {
      const OrderTimes order_times = evaluator.run(order);
      pool.offer({std::move(order), order_times, 0, entry.name});
    }
    if (!best.schedule.empty() && times.makespan >= best.makespan) return;
    best = {std::move(schedule), options.placement, times.makespan, 0, entry.name};
  });
  return best;
}

bool whole_is_faster(const SearchModel& model) {
  return std::any_of(model.lanes.begin(), model.lanes.end(), [](const ScheduleLane& lane) {
    return lane.times.backward < lane.times.backward_input + lane.times.backward_weight;
  });
}

// Every I with its W right behind it becomes B on one rank after the other, as long as that is not slower.
void merge_backwards(const SearchModel& model, ScoredOrder& best) {
  OrderEvaluator evaluator(model);
  for (std::size_t rank = 0; rank < best.order.size(); ++rank) {
    PassOrder merged = best.order;
    PassList& passes = merged[rank];
    passes.clear();
    std::vector<int> waiting(model.lanes.size());  // I's without W
    for (const Pass pass : best.order[rank]) {
      if (pass.kind == OpKind::backward_input) ++waiting[pass.lane];
      if (pass.kind == OpKind::backward_weight) --waiting[pass.lane];
      const bool merges = pass.kind == OpKind::backward_weight && waiting[pass.lane] == 0 &&
                          !passes.empty() && passes.back() == Pass{OpKind::backward_input, pass.lane};
      if (merges)
        passes.back().kind = OpKind::backward;
      else
        passes.push_back(pass);
    }
    const OrderTimes times = evaluator.run(merged);
    if (times.makespan <= best.times.makespan) best = {std::move(merged), times, 0, best.rule};
  }
}

// Orders that are best for equal times are often good for others: searched for themselves, then held against
// the others.
void try_equal_times(Search& search, std::int64_t share) {
  PipelineShape equal = search.shape;
  equal.times = {};
  equal.stage_times.clear();
  const SearchModel unit = make_search_model(equal, search.options.placement);
  const std::int64_t bound = makespan_lower_bound(equal, search.options.placement);
  OrderPool pool(6);
  offer_greedy_orders({unit, unit, share}, pool);
  offer_pattern_orders({unit, unit, share}, pool);
  OrderEvaluator evaluator(search.model);
  const std::vector<ScoredOrder> starts = pool.orders();
  for (const ScoredOrder& start : starts) {
    ImproveOptions options;
    options.evaluations = 2 * share / static_cast<std::int64_t>(starts.size());
    options.stop_at = bound;
    PassOrder better = improve_order(unit, start.order, options).order;
    const OrderTimes times = evaluator.run(better);
    search.pool.offer({std::move(better), times, 0, start.rule + " for equal times"});
    search.pool.offer({start.order, evaluator.run(start.order), 0, start.rule + " for equal times"});
  }
}

// The best few of each way to make orders: local search ends elsewhere from each.
void try_candidates(Search& search) {
  const SearchModel& model = search.model;
  const std::int64_t share = std::max<std::int64_t>(search.orders_left / 32, 24);
  const auto offer_best = [&](const auto& offer, const CandidateOrders& candidates) {
    OrderPool pool(6);
    offer(candidates, pool);
    for (const ScoredOrder& order : pool.orders()) search.pool.offer(order);
  };
  if (search.options.split_backward) {
    offer_best(offer_greedy_orders, {model, model, 2 * share});
    offer_best(offer_pattern_orders, {model, model, share});
    offer_best(offer_round_orders, {model, model, share});
    try_equal_times(search, share);
  }
  if (!search.options.split_backward || whole_is_faster(model))
    offer_best(offer_greedy_orders, {model, model, 2 * share, false});
  search.orders_left -= 8 * share;
}

// Local search from the best orders in turn, longer and longer from those that come out best.
void improve(Search& search) {
  constexpr int rounds = 4;
  for (int round = 0; round < rounds; ++round) {
    const std::vector<ScoredOrder> starts = search.pool.orders();
    const std::size_t used = std::max<std::size_t>(1, starts.size() >> round);
    for (std::size_t n = 0; n < used; ++n) {
      ImproveOptions options;
      options.evaluations = search.orders_left / static_cast<std::int64_t>(rounds * used);
      options.stop_at = search.bound;
      options.seed = static_cast<std::uint64_t>(round) * 1000 + 1;
      if (search.pool.orders().front().times.makespan <= search.bound) return;
      Improvement found = improve_order(search.model, starts[n].order, options);
      const OrderTimes times = OrderEvaluator(search.model).run(found.order);
      search.pool.offer({std::move(found.order), times, 0, starts[n].rule});
    }
  }
}

std::int64_t passes_of(const SearchModel& model, const SearchOptions& options) {
  std::int64_t passes = 0;
  for (const ScheduleLane& lane : model.lanes)
    passes += std::int64_t{options.split_backward ? 3 : 2} * lane.microbatches;
  return std::max<std::int64_t>(passes, 1);
}

}  // namespace

// The best orders for `shape`, best first; `named`: those of the schedules that have a name.
static std::vector<ScoredOrder> searched_orders(const PipelineShape& shape, const SearchOptions& options,
                                                const OrderPool& named) {
  Search search{shape, options, make_search_model(shape, options.placement), 0, 0, named};
  search.bound = makespan_lower_bound(shape, options.placement);
  search.orders_left = std::min(most_orders, options.effort / passes_of(search.model, options));
  try_candidates(search);
  if (whole_is_faster(search.model) && options.split_backward) {
    ScoredOrder merged = search.pool.orders().front();
    merge_backwards(search.model, merged);
    search.pool.offer(std::move(merged));
  }
  improve(search);
  return search.pool.orders();
}

// Of those the one that lasts shortest for all microbatches.
static ScoredOrder extended(const SearchModel& few, const SearchModel& whole, const SearchOptions& options,
                            const std::vector<ScoredOrder>& orders) {
  const int extra = whole.lanes.front().microbatches - few.lanes.front().microbatches;
  if (extra == 0) return orders.front();
  OrderPool pool(1);
  if (const LongOrder best = longest_lasting(few, orders, extra); best.makespan >= 0) {
    PassOrder longer = whole_order(best);
    const OrderTimes times = OrderEvaluator(whole).run(longer);
    pool.offer({std::move(longer), times, 0, orders.front().rule});
  } else {
    offer_greedy_orders({whole, whole, 4, options.split_backward}, pool);
  }
  return pool.orders().front();
}

SearchResult search_schedule(const PipelineShape& shape, const SearchOptions& options) {
  const PipelineShape few = few_microbatches(shape);
  const SearchModel few_model = make_search_model(few, options.placement);
  const SearchModel model = make_search_model(shape, options.placement);
  OrderPool seeds(most_starts);
  SearchResult named = try_named(few, options, few_model, seeds);
  const ScoredOrder found = extended(few_model, model, options, searched_orders(few, options, seeds));
  if (few.microbatches < shape.microbatches) named = try_named(shape, options, model, seeds);
  if (named.schedule.empty() || found.times.makespan < named.makespan)
    named = {to_schedule(model, found.order), options.placement, found.times.makespan, 0, found.rule};
  named.lower_bound = makespan_lower_bound(shape, options.placement);
  return named;
}

}  // namespace simrun
