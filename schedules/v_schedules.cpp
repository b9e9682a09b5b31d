#include "schedules/greedy_pass.h"
#include "schedules/repeating_pattern.h"
#include "schedules/schedule_search.h"
#include "schedules/tuned_schedule.h"
#include "schedules/zb_v.h"

namespace simrun {

namespace {

// Starts of F0, F1, I1 and I0 of a microbatch on a rank, in units of F = I = W.
struct BlockRow {
  int forward_there = 0, forward_back = 0, input_back = 0, input_there = 0;
};

// Table of Qi et al. 2024: a row per rank, the next microbatch 6 units later.
BlockRow v_half_row(int ranks, int rank) {
  const int shift = ranks % 2 == 0 ? 3 : 0;  // or passes of two microbatches fall into one slot
  return {2 * rank, 3 * ranks - rank - 2, 3 * ranks + shift + 2 * rank - 1, 6 * ranks + shift - rank - 2};
}

BlockRow v_min_row(int ranks, int rank) {
  const int shift = ranks % 3 == 0 ? 2 : 0;
  return {rank, 2 * ranks - 1 - rank, 2 * ranks + shift + rank, 4 * ranks + shift - 1 - rank};
}

PassOrder block_order(const SearchModel& model, BlockRow (*row)(int ranks, int rank)) {
  RepeatingPattern pattern;
  pattern.period = 6;
  pattern.forward.resize(model.lanes.size());
  pattern.backward.resize(model.lanes.size());
  for (int rank = 0; rank < model.ranks; ++rank) {
    const BlockRow starts = row(model.ranks, rank);
    const auto there = static_cast<std::size_t>(rank);
    const auto back = static_cast<std::size_t>(2 * model.ranks - 1 - rank);
    pattern.forward[there] = starts.forward_there;
    pattern.forward[back] = starts.forward_back;
    pattern.backward[there] = starts.input_there;
    pattern.backward[back] = starts.input_back;
  }
  return fill_weights(model, GreedyRule{}, unroll(model, pattern));
}

// The schedules with a name of their own are for F = I = W, whatever the shape's times are.
TunedOrder equal_times_order(const PipelineShape& shape, int memory_limit, BlockRow (*row)(int, int)) {
  PipelineShape unit;
  unit.ranks = shape.ranks;
  unit.virtual_stages = 2;
  unit.microbatches = shape.microbatches;
  unit.memory_limit = memory_limit;
  PassOrder block = block_order(make_search_model(few_microbatches(unit), Placement::wave), row);
  const int input_peak = peak_in_flight(block, OpKind::backward_input);
  return tuned_order(unit, {.placement = Placement::wave,
                            .patterns = true,
                            .other_times = other_times_than_equal(),
                            .passes = 200'000,
                            .input_limit = input_peak,
                            .rules = {{std::move(block), {}}}});
}

TunedOrder v_half_order(const PipelineShape& shape) {
  return equal_times_order(shape, v_half_memory(shape.ranks), v_half_row);
}

TunedOrder v_min_order(const PipelineShape& shape) {
  return equal_times_order(shape, v_min_memory(shape.ranks), v_min_row);
}

PassOrder zb_v_order(const PipelineShape& shape) {
  return to_pass_order(make_search_model(shape, Placement::wave), zb_v(shape.ranks, shape.microbatches));
}

}  // namespace

int v_half_memory(int ranks) { return 2 * ((ranks + 2) / 2); }
int v_min_memory(int ranks) { return 2 * ((ranks + 4) / 3); }

Schedule v_half(const PipelineShape& shape) {
  return to_schedule(make_search_model(shape, Placement::wave), v_half_order(shape).whole);
}

Schedule v_min(const PipelineShape& shape) {
  return to_schedule(make_search_model(shape, Placement::wave), v_min_order(shape).whole);
}

Schedule v_auto(const PipelineShape& shape) {
  PipelineShape limited = shape;
  if (limited.memory_limit == 0) limited.memory_limit = 2 * shape.ranks;
  const SearchModel model = make_search_model(limited, Placement::wave);
  const TunedOrder rule = {zb_v_order(few_microbatches(shape)), zb_v_order(shape)};
  if (peak_in_flight(rule.whole) <= limited.memory_limit &&
      OrderEvaluator(model).run(rule.whole).makespan <= makespan_lower_bound(limited, Placement::wave))
    return to_schedule(model, rule.whole);
  return tuned_schedule_within(limited, {.placement = Placement::wave,
                                         .patterns = true,
                                         .passes = 200'000,
                                         .rules = {rule, v_half_order(shape), v_min_order(shape)}});
}

}  // namespace simrun
