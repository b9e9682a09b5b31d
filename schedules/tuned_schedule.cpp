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
  for (const ScheduleLane& lane : model.lanes) passes += std::int64_t{3} * lane.microbatches;
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

}  // namespace

LongOrder longest_lasting(const SearchModel& model, const std::vector<ScoredOrder>& orders, int extra) {
  LongOrder best;
  if (extra == 0) return {orders.front().order, {}, 0, orders.front().times.makespan};
  for (const ScoredOrder& order : orders) {
    Middle middle = find_middle(model, order.order, extra);
    if (middle.microbatches == 0) continue;
    const int copies = extra / middle.microbatches;
    const std::int64_t makespan = order.times.makespan + copies * middle.time;
    if (best.makespan >= 0 && makespan >= best.makespan) continue;
    best = {order.order, std::move(middle), copies, makespan};
  }
  return best;
}

PassOrder whole_order(const LongOrder& order) { return repeat_middle(order.few, order.middle, order.copies); }

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
  const std::int64_t changes = std::min<std::int64_t>(4 * tuning.passes / pass_count(model), 10'000);
  constexpr std::int64_t least_changes = 60;  // fewer hardly ever help, and in large pipelines take long
  if (changes < least_changes) return pool;
  improve_pool(model, makespan_lower_bound(few, tuning.placement), changes, pool);
  improve_elsewhere(model, others, changes / 4, pool);
  return pool;
}

TunedOrder tuned_order(const PipelineShape& shape, const Tuning& tuning) {
  const PipelineShape few = few_microbatches(shape);
  const SearchModel model = make_search_model(few, tuning.placement);
  const OrderPool pool = few_orders(few, model, tuning);
  const LongOrder best = longest_lasting(model, pool.orders(), shape.microbatches - few.microbatches);
  if (few.microbatches == shape.microbatches) return {best.few, best.few};
  const SearchModel whole = make_search_model(shape, tuning.placement);
  OrderPool longer(1);
  for (const TunedOrder& rule : tuning.rules) offer_rule(whole, rule.whole, longer);
  if (longer.orders().empty() && best.makespan >= 0) return {best.few, whole_order(best)};
  if (best.makespan < 0)
    offer_greedy_orders({whole, whole, 1}, longer);
  else
    longer.offer(scored(whole, whole_order(best), "repeated middle"));
  return {best.makespan < 0 ? pool.orders().front().order : best.few, longer.orders().front().order};
}

Schedule tuned_schedule(const PipelineShape& shape, const Tuning& tuning) {
  return to_schedule(make_search_model(shape, tuning.placement), tuned_order(shape, tuning).whole);
}

// Every limit up to twice the ranks if they are few, an eighth more each time if they are many, a quarter
// more where memory is plenty; up to all activations of a rank. It does not depend on the limit of the model.
static std::vector<int> limit_row(const SearchModel& model) {
  int most = 0;
  for (const std::vector<int>& lanes : model.lanes_of) {
    int passes = 0;
    for (const int lane : lanes) passes += model.lanes[static_cast<std::size_t>(lane)].microbatches;
    most = std::max(most, passes);
  }
  const int ranks = model.ranks;
  std::vector<int> row;
  for (int limit = least_memory(model); limit < most;) {
    row.push_back(limit);
    if (limit < ranks)
      limit = std::min(limit + (ranks <= 16 ? 1 : std::max(1, limit / 8)), ranks);
    else if (limit < 2 * ranks)
      limit += ranks <= 16 ? 1 : ranks / 4;
    else
      limit += std::max(1, limit / 4);
  }
  row.push_back(most);
  return row;
}

// The best order for the microbatches that candidates are tried on, made for them all.
static LongOrder limited_order(const PipelineShape& shape, const Tuning& tuning) {
  const PipelineShape few = few_microbatches(shape);
  const SearchModel model = make_search_model(few, tuning.placement);
  const OrderPool pool = few_orders(few, model, tuning);
  return longest_lasting(model, pool.orders(), shape.microbatches - few.microbatches);
}

Schedule tuned_schedule_within(const PipelineShape& shape, const Tuning& tuning) {
  const SearchModel model = make_search_model(shape, tuning.placement);
  const std::vector<int> row = limit_row(model);
  OrderPool pool(1);
  for (const TunedOrder& rule : tuning.rules) offer_rule(model, rule.whole, pool);
  LongOrder best;
  bool tried =
      false;  // the largest limit always is: of equally short orders it may have that of the least span
  for (auto limit = row.rbegin(); limit != row.rend(); ++limit) {
    if (*limit > shape.memory_limit) continue;
    PipelineShape limited = shape;
    limited.memory_limit = *limit;
    const std::int64_t bound = makespan_lower_bound(limited, tuning.placement);
    if (best.makespan >= 0 && bound >= best.makespan) continue;
    if (tried && !pool.orders().empty() && bound >= pool.orders().front().times.makespan) continue;
    tried = true;
    LongOrder found = limited_order(limited, tuning);
    if (found.makespan >= 0 && (best.makespan < 0 || found.makespan < best.makespan)) best = std::move(found);
  }
  if (best.makespan >= 0) pool.offer(scored(model, whole_order(best), "repeated middle"));
  if (pool.orders().empty()) offer_greedy_orders({model, model, 1}, pool);
  return to_schedule(model, pool.orders().front().order);
}

}  // namespace simrun
