#include <algorithm>
#include <numeric>
#include <set>

#include "schedules/greedy_pass.h"
#include "schedules/repeating_pattern.h"
#include "schedules/schedule_candidates.h"

namespace simrun {

namespace {

void offer_filled(const CandidateOrders& candidates, const GreedyRule& weights, const PassOrder& sequence,
                  const std::string& rule, OrderPool& pool) {
  PassOrder order = fill_weights(candidates.model, weights, sequence);
  if (order.empty()) return;
  const OrderTimes times = OrderEvaluator(candidates.scored_by).run(order);
  pool.offer({std::move(order), times, 0, rule});
}

}  // namespace

namespace {

// Waits that shift a pass by whole other passes.
std::vector<std::int64_t> pattern_waits(const PassTimes& times) {
  const std::int64_t f = times.forward;
  const std::int64_t i = times.backward_input;
  const std::int64_t w = times.backward_weight;
  const std::set<std::int64_t> waits = {0, f, i, w, f + w, i + w, f + i};
  return {waits.begin(), waits.end()};
}

// Choice number `choice` of waits: one per chunk and kind for up to two chunks, else one per kind.
PatternRule pattern_rule(int chunks, std::int64_t period, const std::vector<std::int64_t>& waits,
                         std::size_t choice) {
  PatternRule rule;
  rule.period = period;
  const auto next = [&] {
    const std::int64_t wait = waits[choice % waits.size()];
    choice /= waits.size();
    return wait;
  };
  for (std::vector<std::int64_t>* kind : {&rule.forward_wait, &rule.backward_wait}) {
    kind->assign(static_cast<std::size_t>(chunks), 0);
    if (chunks <= 2)
      for (std::int64_t& wait : *kind) wait = next();
    else
      std::fill(kind->begin(), kind->end(), next());
  }
  return rule;
}

std::vector<RepeatingPattern> feasible_patterns(const SearchModel& model, std::int64_t count) {
  const PipelineLoad load = pipeline_load(model);
  const std::vector<std::int64_t> waits = pattern_waits(load.mean);
  const int chunks = static_cast<int>(model.lanes.size()) / model.ranks /
                     (model.placement == Placement::bidirectional ? 2 : 1);
  std::size_t choices = waits.size() * waits.size();
  if (chunks == 2) choices *= choices;
  const std::int64_t memory = model.memory_limit;
  const std::int64_t least_period = std::max(load.work, (load.lifetimes + memory - 1) / memory);
  std::vector<RepeatingPattern> patterns;
  RepeatingPattern pattern;
  std::int64_t unrolled = 0;
  for (const ScheduleLane& lane : model.lanes) unrolled += 3 * std::int64_t{lane.microbatches};
  // That are laid in all.
  const auto most_passes =
      static_cast<std::size_t>(std::clamp<std::int64_t>(8 * count * unrolled, 400'000, 3'000'000));
  const std::size_t stride = 1 + 10 * choices * 2 * model.lanes.size() / most_passes;
  for (int step = 0; step < 10; ++step)
    for (std::size_t choice = 0; choice < choices; choice += stride) {
      const PatternRule rule = pattern_rule(chunks, least_period + step * load.work / 24, waits, choice);
      if (!lay_pattern(model, rule, pattern)) continue;
      if (mean_in_flight(model, pattern) <= model.memory_limit) patterns.push_back(pattern);
    }
  return patterns;
}

}  // namespace

void offer_pattern_orders(const CandidateOrders& candidates, OrderPool& pool) {
  if (candidates.count <= 0) return;
  const SearchModel& model = candidates.model;
  const std::vector<RepeatingPattern> patterns = feasible_patterns(model, candidates.count);
  const std::size_t tried = std::min(patterns.size(), static_cast<std::size_t>(candidates.count));
  for (std::size_t n = 0; n < tried; ++n) {
    const PassOrder sequence = unroll(model, patterns[n * patterns.size() / tried]);
    GreedyRule weights;
    weights.eager_drain = n % 2 == 0;
    offer_filled(candidates, weights, sequence, "repeating pattern", pool);
  }
}

namespace {

// The forwards of the whole pipeline in rounds: `per_round` microbatches on the first chunk, then on the
// next.
std::vector<int> round_chunks(int chunks, int microbatches, int per_round) {
  std::vector<int> order;
  for (int first = 0; first < microbatches; first += per_round)
    for (int chunk = 0; chunk < chunks; ++chunk)
      order.insert(order.end(), static_cast<std::size_t>(std::min(per_round, microbatches - first)), chunk);
  return order;
}

struct RoundChoice {
  int group = 1;
  double step = 1;  // forwards before the first backward that a rank has more than the next one
  int spare = 0;
};

// Warm-up, then a forward and a backward in turn, then the rest: interleaved 1F1B has step 2.
PassOrder round_sequence(const SearchModel& model, const RoundChoice& choice) {
  const int chunks = static_cast<int>(model.lanes_of.front().size());
  const std::vector<int> rounds = round_chunks(chunks, model.lanes.front().microbatches, choice.group);
  PassOrder sequence;
  for (int rank = 0; rank < model.ranks; ++rank) {
    const auto ahead =
        static_cast<int>(choice.step * (model.ranks - 1 - rank)) + (chunks - 1) * choice.group + choice.spare;
    const std::size_t warmup = std::min(rounds.size(), static_cast<std::size_t>(ahead));
    const auto lane = [&](int chunk) { return static_cast<std::uint16_t>(chunk * model.ranks + rank); };
    PassList passes;
    for (std::size_t k = 0; k < rounds.size() + warmup; ++k) {
      if (k < rounds.size()) passes.push_back({OpKind::forward, lane(rounds[k])});
      if (k >= warmup) passes.push_back({OpKind::backward_input, lane(chunks - 1 - rounds[k - warmup])});
    }
    sequence.push_back(std::move(passes));
  }
  return sequence;
}

}  // namespace

void offer_round_orders(const CandidateOrders& candidates, OrderPool& pool) {
  const SearchModel& model = candidates.model;
  std::int64_t left = candidates.count;
  if (model.placement != Placement::loop) return;
  const int microbatches = model.lanes.front().microbatches;
  std::vector<int> backlog(static_cast<std::size_t>(model.ranks));
  std::iota(backlog.begin(), backlog.end(), 0);
  const int rounds = std::max(1, microbatches / model.ranks);
  const std::set<int> groups = {std::min(model.ranks, microbatches),
                                (microbatches + rounds - 1) / rounds,
                                std::min(model.ranks + 1, microbatches),
                                std::min(model.ranks + 2, microbatches),
                                std::min(model.ranks * 3 / 2, microbatches),
                                std::min(2 * model.ranks, microbatches),
                                std::max(1, model.ranks / 2)};
  for (const int group : groups)
    for (const double step : {1.0, 1.25, 1.5, 2.0})
      for (const int spare : {0, 1, 2, 4})
        for (const bool on_time : {false, true}) {
          if (left-- <= 0) return;
          GreedyRule weights;
          weights.eager_drain = !on_time;
          if (on_time) weights.weight_backlog = backlog;
          if (on_time) weights.weight_fill = -1;
          offer_filled(candidates, weights, round_sequence(model, {group, step, spare}), "rounds", pool);
        }
}

}  // namespace simrun
