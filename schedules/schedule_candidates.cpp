#include "schedules/schedule_candidates.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "schedules/greedy_pass.h"

namespace simrun {

bool better(const ScoredOrder& a, const ScoredOrder& b) {
  return std::tie(a.times.makespan, a.times.span, a.elsewhere, a.input_peak) <
         std::tie(b.times.makespan, b.times.span, b.elsewhere, b.input_peak);
}

void OrderPool::offer(ScoredOrder candidate) {
  candidate.input_peak = peak_in_flight(candidate.order, OpKind::backward_input);
  if (candidate.input_peak > input_limit_) return;
  for (OrderEvaluator& other : others_) candidate.elsewhere += other.run(candidate.order).makespan;
  const auto place = std::lower_bound(orders_.begin(), orders_.end(), candidate, better);
  if (place == orders_.end() ? orders_.size() >= size_ : !better(candidate, *place)) return;
  orders_.insert(place, std::move(candidate));
  if (orders_.size() > size_) orders_.pop_back();
}

namespace {

PassTimes mean_times(const SearchModel& model) {
  PassTimes mean{0, 0, 0, 0, 0, 0};
  for (const ScheduleLane& lane : model.lanes) {
    mean.forward += lane.times.forward;
    mean.backward_input += lane.times.backward_input;
    mean.backward_weight += lane.times.backward_weight;
  }
  const auto lanes = static_cast<std::int64_t>(model.lanes.size());
  mean.forward /= lanes;
  mean.backward_input /= lanes;
  mean.backward_weight /= lanes;
  return mean;
}

// From the end of F to the start of I, by lane, if nothing waits.
std::vector<std::int64_t> round_trips(const SearchModel& model) {
  std::vector<std::int64_t> trips(model.lanes.size());
  for (std::size_t l = trips.size(); l-- > 0;) {
    if (model.lanes[l].next < 0) continue;
    const auto next = static_cast<std::size_t>(model.lanes[l].next);
    const ScheduleLane& behind = model.lanes[next];
    trips[l] = behind.forward_delay + behind.times.forward + trips[next] + behind.times.backward_input +
               model.lanes[l].backward_delay;
  }
  return trips;
}

}  // namespace

PipelineLoad pipeline_load(const SearchModel& model) {
  PipelineLoad load;
  load.round_trips = round_trips(model);
  load.mean = mean_times(model);
  for (const std::vector<int>& lanes : model.lanes_of) {
    std::int64_t work = 0;
    std::int64_t lifetimes = 0;
    for (const int index : lanes) {
      const auto l = static_cast<std::size_t>(index);
      const PassTimes& times = model.lanes[l].times;
      const std::int64_t passes = times.forward + times.backward_input + times.backward_weight;
      work += passes;
      lifetimes += passes + load.round_trips[l];
    }
    load.work = std::max(load.work, work);
    load.lifetimes = std::max(load.lifetimes, lifetimes);
  }
  return load;
}

namespace {

// How far a lane runs ahead: `spare` forwards more than fill the time of a round trip, at a rate between one
// in the time of all passes of the rank (eagerness 0: the steady state needs no more) and one in the time of
// a forward (8: the warm-up could use no more).
struct GreedyChoice {
  double spare = 1;
  int eagerness = 0;
  bool backward_first = false;
  bool late_chunk_first = false;
  bool weight_before_backward = false;
  int patience = 0;  // in halves of a forward
  int weight_fill = 0;
};

// The best of small and large pipelines first. Of one lane per rank no chunk comes late.
std::vector<GreedyChoice> greedy_choices(bool several_chunks) {
  std::vector<GreedyChoice> choices;
  const std::vector<bool> late_chunks =
      several_chunks ? std::vector<bool>{true, false} : std::vector<bool>{true};
  for (const int fill : {0, 100})
    for (const int patience : {0, 1, 2})
      for (const double spare : {1.0, 1.5, 2.0, 3.0})
        for (const bool backward_first : {false, true})
          for (const bool late_first : late_chunks)
            for (const bool weight_first : {false, true})
              for (const int eagerness : {8, 2, 4, 0, 6, 3, 1, 5, 7})
                choices.push_back(
                    {spare, eagerness, backward_first, late_first, weight_first, patience, fill});
  return choices;
}

GreedyRule greedy_rule(const SearchModel& model, const GreedyChoice& choice, const PipelineLoad& load) {
  GreedyRule rule;
  const auto lanes = static_cast<std::int64_t>(model.lanes.size());
  for (std::size_t l = 0; l < model.lanes.size(); ++l) {
    const ScheduleLane& lane = model.lanes[l];
    const double trip = static_cast<double>(load.round_trips[l]);
    const double slowest = trip / static_cast<double>(load.work);
    const double fastest = trip / static_cast<double>(std::max<std::int64_t>(1, lane.times.forward));
    const double rate = slowest + (fastest - slowest) * choice.eagerness / 8;
    rule.ahead.push_back(static_cast<int>(std::min<double>(lane.microbatches, choice.spare + rate)));
    const std::int64_t rank_in_line = choice.late_chunk_first ? lanes - lane.stage : lane.stage;
    rule.forward_target.push_back(rank_in_line + (choice.backward_first ? 2 * lanes : 0));
    rule.backward_target.push_back(rank_in_line + (choice.backward_first ? 0 : 2 * lanes));
  }
  rule.patience = choice.patience * load.mean.forward / 2;
  rule.weight_fill = choice.weight_fill;
  rule.weight_before_backward = choice.weight_before_backward;
  return rule;
}

}  // namespace

void offer_greedy_orders(const CandidateOrders& candidates, OrderPool& pool) {
  const SearchModel& model = candidates.model;
  const PipelineLoad load = pipeline_load(model);
  OrderEvaluator evaluator(candidates.scored_by);
  std::int64_t left = candidates.count;
  for (const GreedyChoice& choice : greedy_choices(model.lanes_of.front().size() > 1)) {
    if (left-- <= 0) return;
    GreedyRule rule = greedy_rule(model, choice, load);
    rule.split = candidates.split;
    PassOrder order = greedy_pass(model, rule);
    const OrderTimes times = evaluator.run(order);
    pool.offer(
        {std::move(order), times, 0, candidates.split ? "greedy pass" : "greedy pass, backward whole"});
  }
}

}  // namespace simrun
