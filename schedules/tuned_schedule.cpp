#include "schedules/tuned_schedule.h"

#include <algorithm>
#include <limits>

#include "schedules/extend_order.h"
#include "schedules/improve_order.h"
#include "schedules/schedule_search.h"

namespace simrun {

namespace {

std::int64_t pass_count(const SearchModel& model) {
  std::int64_t passes = 0;
  for (const Lane& lane : model.lanes) passes += std::int64_t{3} * lane.microbatches;
  return std::max<std::int64_t>(passes, 1);
}

ScoredOrder scored(const SearchModel& model, PassOrder order, const std::string& rule) {
  const OrderTimes times = OrderEvaluator(model).run(order);
  return {std::move(order), times, 0, rule};
}

void offer_rule(const SearchModel& model, const PassOrder& order, OrderPool& pool) {
  if (!order.empty() && peak_in_flight(order) <= model.memory_limit) pool.offer(scored(model, order, "rule"));
}

// Improves the best orders of the pool, unless the best cannot be shorter.
void improve_pool(const SearchModel& model, std::int64_t bound, std::int64_t evaluations, OrderPool& pool) {
  const std::vector<ScoredOrder> before = pool.orders();
  for (const ScoredOrder& start : before) {
    if (pool.orders().front().times.makespan <= bound) return;
    ImproveOptions options;
    options.evaluations = evaluations / static_cast<std::int64_t>(before.size());
    options.stop_at = bound;
    pool.offer(scored(model, improve_order(model, start.order, options).order, "improved"));
  }
}

// Makes the best order faster under each of the other times while no other of its makespans grows.
void improve_elsewhere(const SearchModel& model, const std::vector<SearchModel>& others,
                       std::int64_t evaluations, OrderPool& pool) {
  for (const SearchModel& target : others) {
    const PassOrder start = pool.orders().front().order;
    ImproveOptions options;
    options.evaluations = evaluations;
    options.restart = 200;
    for (const SearchModel& guard : others)
      if (&guard != &target) options.guards.push_back({&guard, OrderEvaluator(guard).run(start).makespan});
    options.guards.push_back({&model, pool.orders().front().times.makespan});
    pool.offer(scored(model, improve_order(target, start, options).order, "improved elsewhere"));
  }
}

// The order of the pool that is shortest with `extra` microbatches more, so far as the time of its middle
// tells, and with them.
TunedOrder longest_lasting(const SearchModel& model, const OrderPool& pool, int extra) {
  TunedOrder best = {pool.orders().front().order, {}};
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const ScoredOrder& order : pool.orders()) {
    const Middle middle = find_middle(model, order.order, extra);
    if (middle.microbatches == 0) continue;
    const int copies = extra / middle.microbatches;
    const std::int64_t makespan = order.times.makespan + copies * middle.time;
    if (makespan >= least) continue;
    least = makespan;
    best = {order.order, repeat_middle(order.order, middle, copies)};
  }
  return best;
}

}  // namespace

std::vector<PassTimes> other_times_than_equal() {
  PassTimes uneven{2, 4, 3, 1, 6, 0};
  PassTimes far;
  far.communication = 1;
  return {uneven, far};
}

PipelineShape few_microbatches(const PipelineShape& shape) {
  PipelineShape few = shape;
  few.microbatches = representative_microbatches(shape.ranks, shape.microbatches);
  return few;
}

// The best orders for the microbatches of `model`.
static OrderPool few_orders(const PipelineShape& few, const SearchModel& model, const Tuning& tuning) {
  std::vector<SearchModel> others;
  for (const PassTimes& times : tuning.other_times) {
    PipelineShape other = few;
    other.times = times;
    others.push_back(make_search_model(other, tuning.placement));
  }
  const std::int64_t candidates = std::clamp<std::int64_t>(tuning.passes / pass_count(model), 4, 1200);
  OrderPool pool(4, others, tuning.input_limit);
  for (const TunedOrder& rule : tuning.rules) offer_rule(model, rule.few, pool);
  const std::int64_t greedy = tuning.patterns ? candidates / 2 : candidates;
  offer_pattern_orders({model, model, candidates - greedy}, pool);
  offer_greedy_orders({model, model, greedy}, pool);
  for (const SearchModel& other : others) offer_greedy_orders({other, model, greedy / 4}, pool);
  PipelineShape unit = few;
  unit.times = {};
  unit.stage_times.clear();
  offer_greedy_orders({make_search_model(unit, tuning.placement), model, greedy / 4}, pool);
  // An order costs several times less to change and evaluate than to make.
  const std::int64_t changes = std::clamp<std::int64_t>(4 * tuning.passes / pass_count(model), 16, 10'000);
  improve_pool(model, makespan_lower_bound(few, tuning.placement), changes, pool);
  improve_elsewhere(model, others, changes / 4, pool);
  return pool;
}

TunedOrder tuned_order(const PipelineShape& shape, const Tuning& tuning) {
  const PipelineShape few = few_microbatches(shape);
  const SearchModel model = make_search_model(few, tuning.placement);
  const OrderPool pool = few_orders(few, model, tuning);
  const int extra = shape.microbatches - few.microbatches;
  if (extra == 0) return {pool.orders().front().order, pool.orders().front().order};
  const SearchModel whole = make_search_model(shape, tuning.placement);
  TunedOrder best = longest_lasting(model, pool, extra);
  OrderPool longer(1);
  for (const TunedOrder& rule : tuning.rules) offer_rule(whole, rule.whole, longer);
  if (longer.orders().empty() && !best.whole.empty()) return best;
  if (best.whole.empty())
    offer_greedy_orders({whole, whole, 1}, longer);
  else
    longer.offer(scored(whole, std::move(best.whole), "repeated middle"));
  return {std::move(best.few), longer.orders().front().order};
}

Schedule tuned_schedule(const PipelineShape& shape, const Tuning& tuning) {
  return to_schedule(make_search_model(shape, tuning.placement), tuned_order(shape, tuning).whole);
}

}  // namespace simrun
