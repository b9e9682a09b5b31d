#include "planner/search.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include "configs/node_groups.h"
#include "planner/approach.h"
#include "planner/candidate_neighbours.h"
#include "planner/climb_starts.h"
#include "planner/contradiction.h"
#include "planner/dealt_layers.h"
#include "planner/estimate_all.h"
#include "planner/estimate_errors.h"
#include "planner/estimated_schedules.h"
#include "planner/evaluator.h"
#include "planner/mixed_search.h"
#include "planner/moved_layers.h"
#include "planner/ranking.h"
#include "planner/refinements.h"
#include "planner/search_start.h"
#include "sim/in_threads.h"

namespace simrun {
namespace {

constexpr std::size_t batch = 16;  // candidates between two looks at what was found
constexpr std::int64_t most_evaluations_per_asked = 4;

// Before as many are simulated as were asked for nobody looks whether it is enough.
std::size_t batch_of_many(const PlanConfig& limits) {
  const std::int64_t asked = std::max<std::int64_t>(limits.evaluations, 1);
  return (static_cast<std::size_t>(asked) + batch - 1) / batch * batch;
}

class Search {
 public:
  Search(const PlanBase& base, const PlanSearchOptions& options)
      : base_(base),
        limits_(base.job.plan),
        options_(options),
        evaluator_(base, options),
        tunes_(options.tunes),
        batch_(options.among.processes == 1 ? batch : batch_of_many(limits_)) {}

  void simulate_most_promising(const std::vector<EstimatedCandidate>& shortlist, PlanSearchResult& result) {
    shortlist_ = shortlist;
    std::vector<EstimatedCandidate> left = shortlist;
    while (!left.empty()) {
      const std::vector<EstimatedCandidate> next = take_next(left);
      if (next.empty()) return;
      simulate(next, static_cast<std::int64_t>(shortlist.size()), result);
      if (result.was_stopped) return;
    }
  }

  // Those that were not yet.
  void simulate(const std::vector<Candidate>& of, PlanSearchResult& result) {
    std::vector<EstimatedCandidate> next;
    for (const Candidate& one : std::set(of.begin(), of.end())) next.push_back({one, {}});
    simulate_new(std::move(next), result);
  }
  void simulate_new(std::vector<EstimatedCandidate> next, PlanSearchResult& result) {
    std::erase_if(next, [&](const EstimatedCandidate& of) { return simulated_.contains(of.candidate); });
    if (next.empty() || result.was_stopped) return;
    simulate(next, result.evaluated + static_cast<std::int64_t>(next.size()), result);
  }

  // A few at a time, until one fits, and no more.
  void simulate_front(const std::vector<EstimatedCandidate>& front, PlanSearchResult& result) {
    for (std::size_t begin = 0; begin < front.size() && fitting_.empty(); begin += few_of_front) {
      const std::size_t end = std::min(begin + few_of_front, front.size());
      simulate({front.begin() + static_cast<std::ptrdiff_t>(begin),
                front.begin() + static_cast<std::ptrdiff_t>(end)},
               static_cast<std::int64_t>(front.size()), result);
    }
    result.was_stopped = result.is_without_contention = true;
    sort_by_goal(fitting_, limits_.minimise);
    result.pareto = pareto_of(fitting_);
    list_first(static_cast<std::size_t>(limits_.best), result);
  }

  // Of a job without estimates, whose candidates were simulated without overlaps, or a grid of them: from the
  // best starts to their neighbours, as long as one is better.
  void climb_from_starts(PlanSearchResult& result) {
    std::set<Candidate> climbed;
    for (int round = 0; round < most_rounds_of_starts && !result.was_stopped; ++round) {
      std::set<Candidate> asked;  // starts of one split have neighbours in common
      for (const RankedCandidate& best : climb_starts(fitting_, result.rest, limits_.minimise, most_starts))
        if (climbed.insert(best.candidate).second)
          for (const Candidate& of : neighbours_of(base_.job.job, limits_, best.candidate))
            if (!simulated_.contains(of)) asked.insert(of);
      if (asked.empty()) return;
      for (auto of = asked.begin(); of != asked.end();) {
        std::vector<Candidate> next;
        while (of != asked.end() && next.size() < batch_) next.push_back(*of++);
        simulate(next, result);
      }
    }
  }

  void rank(PlanSearchResult& result) {
    add_overlapped(result);
    sort_by_goal(fitting_, limits_.minimise);
    const auto best = static_cast<std::size_t>(limits_.best);
    list_first(best + best / 2 + 1, result);  // as many again: sharing links may change places
    if (!result.was_stopped) simulate_with_contention(result);
    result.is_without_contention = result.was_stopped;
    improve(refined(result));
    try_other_schedules(refined(result));
    estimate_other_schedules(result);
    improve(refined(result));
    deal_layers(result);
    improve(refined(result));  // what has its layers dealt
    if (result.has_estimates) move_layers(refined(result));
    if (tunes_) {
      tune(refined(result));
      improve(refined(result));
      try_searched_orders(refined(result));
    }
    find_front(result);
    while (result.best.size() > best) {
      result.rest.push_back(std::move(result.best.back()));
      result.best.pop_back();
    }
    if (result.best.empty()) time_nearest(result);
  }

  // Where nothing fits with layers as equal as they lie: moved to where the fullest rank has less.
  void lighten(PlanSearchResult& result) {
    if (result.was_stopped || !fitting_.empty() || has_kinds() || !result.has_estimates) return;
    const auto goes_on = [&](const PlanSearchProgress& at) {
      return !(result.was_stopped = !evaluator_.goes_on(at));
    };
    simulate(lightest_pipelines(base_, most_dealt, goes_on), result);
  }

  void approach(const EstimatedShare& share, PlanSearchResult& result) {
    const auto nothing_fits = [&] { return fitting_.empty() && !result.was_stopped && !has_kinds(); };
    if (!nothing_fits()) return;
    approach_limit(base_, first_lightest(share), result, [&](const std::vector<EstimatedCandidate>& next) {
      simulate_new(next, result);
      return nothing_fits();
    });
  }

 private:
  static constexpr int most_rounds = 8, most_rounds_of_starts = 24;
  static constexpr std::size_t most_starts = 24, few = 2, few_of_front = 4, most_dealt = 10;
  static constexpr double near_the_best = 1.3;  // x its goal: layers dealt by time hardly gain more
  static constexpr double near_enough = 1.1;
  static constexpr std::size_t most_of_front = 8;

  void simulate(const std::vector<EstimatedCandidate>& next, std::int64_t all, PlanSearchResult& result) {
    std::vector<Question> questions(next.size());
    for (std::size_t i = 0; i < next.size(); ++i) questions[i].candidate = next[i].candidate;
    const EvaluatedShare share =
        evaluator_.run(questions, EngineChoice::fast, {PlanSearchPhase::simulating, result.evaluated, all});
    result.was_stopped = share.was_stopped;
    if (result.was_stopped) return;
    result.evaluated += static_cast<std::int64_t>(next.size());
    for (std::size_t i = 0; i < next.size(); ++i) {
      simulated_.insert(next[i].candidate);
      const RankedCandidate ranked{next[i].candidate, next[i].estimate, share.found[i]};
      errors_.add(ranked);
      (share.found[i].refusal.empty() && share.found[i].fits ? fitting_ : result.rest).push_back(ranked);
    }
    evaluated_ = result.evaluated;
  }

  // What is told of where nothing fits has shared links, too.
  void time_nearest(PlanSearchResult& result) {
    const auto nearest = nearest_to_fit(result.rest);
    if (result.was_stopped || nearest == result.rest.end()) return;
    result.best.assign(1, *nearest);
    simulate_with_contention(result, 0, 1);
    result.is_without_contention = result.was_stopped;
    *nearest = std::exchange(result.best, {}).front();
  }

  // Of what is to be printed, what overlaps where the job leaves that open.
  void add_overlapped(PlanSearchResult& result) {
    sort_by_goal(fitting_, limits_.minimise);
    simulate(with_other_overlaps(base_, fitting_, static_cast<std::size_t>(limits_.best)), result);
  }

  void list_first(std::size_t most, PlanSearchResult& result) {
    const auto listed = fitting_.begin() + static_cast<std::ptrdiff_t>(std::min(fitting_.size(), most));
    result.best.assign(fitting_.begin(), listed);
    result.rest.insert(result.rest.end(), listed, fitting_.end());
  }

  // Sharing links seldom makes a step shorter (where it changes which transfer goes first): behind those that
  // are asked for, only what could still take the place of one of them is simulated, a few at a time.
  void simulate_with_contention(PlanSearchResult& result) {
    const std::size_t all = result.best.size(), asked = std::min(all, static_cast<std::size_t>(limits_.best));
    simulate_with_contention(result, 0, asked);
    std::size_t begin = asked, end = asked;
    while (begin < all && !result.was_stopped) {
      const double worst =
          goal_at(limits_.minimise,
                  {result.best.begin(), result.best.begin() + static_cast<std::ptrdiff_t>(begin)}, asked - 1);
      while (end < std::min(all, begin + few) && goal(result.best[end]) <= worst) ++end;
      if (end == begin) break;
      simulate_with_contention(result, begin, end);
      begin = end;
    }
    sort_by_goal(result.best, limits_.minimise);
  }

  bool has_kinds() const { return GpuKinds(base_.job.job.cluster).count() > 1; }
  Refined refined(PlanSearchResult& result) {
    return {base_, result, fitting_, [&](const std::vector<Candidate>& next) { simulate(next, result); },
            [&](const Newcomers& of) { place(of, result); }};
  }

  // On one kind of GPU, the best of each split and schedule with their layers dealt by time; of several kinds
  // that is a part of their balances.
  void deal_layers(PlanSearchResult& result) {
    if (result.was_stopped || result.best.empty() || has_kinds()) return;
    std::vector<Candidate> dealt = written_layout(base_);
    // A split on which layers lie badly as they are is not simulated: its estimate speaks for it.
    const double most = near_the_best * goal(result.best.front());
    for (const std::vector<RankedCandidate>& all : {fitting_, as_estimated(shortlist_, simulated_)}) {
      add_dealt_layers(base_, pipelined_starts(all, limits_.minimise, most, most_dealt), dealt);
      if (base_.job.job.world_size() <= few_gpus)
        add_dealt_layers(base_, pipelined_starts_by_microbatch(all, limits_.minimise, most, 2 * most_dealt),
                         dealt);
    }
    try_all(refined(result), dealt);
  }

  // Of all splits, which those that were simulated so far need not be.
  void estimate_other_schedules(PlanSearchResult& result) {
    if (result.was_stopped || result.best.empty() || !result.has_estimates) return;
    const double most = near_enough * goal(result.best.front());
    try_all(refined(result), near_under_other_schedules(base_, options_, most));
  }

  // With shared links: what is on the front by its time alone may not be, and what is behind it may come to
  // be. Some are simulated at a time; what is not after as many rounds is left out.
  void find_front(PlanSearchResult& result) {
    if (result.is_without_contention) return void(result.pareto = pareto_of(fitting_));
    const auto shared = [&](const RankedCandidate& of) { return shared_.contains(of.candidate); };
    const auto alone = std::stable_partition(result.best.begin(), result.best.end(), shared);
    result.rest.insert(result.rest.end(), alone, result.best.end());
    result.best.erase(alone, result.best.end());
    take_evaluations(result.best, fitting_);
    for (int round = 0; round < most_rounds && !result.was_stopped; ++round) {
      const std::size_t listed = result.best.size();
      for (const RankedCandidate& of : pareto_of(fitting_))
        if (!shared(of) && result.best.size() < listed + most_of_front) result.best.push_back(of);
      if (result.best.size() == listed) break;
      simulate_with_contention(result, listed, result.best.size());
      if (result.was_stopped) result.best.resize(listed);
      std::erase_if(result.rest, shared);
      take_evaluations(result.best, fitting_);
    }
    std::vector<RankedCandidate> known = fitting_;
    std::erase_if(known, std::not_fn(shared));
    result.pareto = pareto_of(std::move(known));
    sort_by_goal(result.best, limits_.minimise);
  }

  // What is better takes its place among the best, simulated with contention.
  void place(const Newcomers& of, PlanSearchResult& result) {
    const std::size_t listed = result.best.size();
    for (std::size_t i = of.first; i < fitting_.size(); ++i) {
      const bool is_one = !of.only || of.only->contains(fitting_[i].candidate);
      const bool is_placed = is_one && goal(fitting_[i]) < of.to_beat && !result.was_stopped;
      (is_placed ? result.best : result.rest).push_back(fitting_[i]);
    }
    if (result.was_stopped || result.best.size() == listed) return;
    simulate_with_contention(result, listed, result.best.size());
    // What was not simulated so, or gains too little by it, is not among them.
    const auto gains = [&](const RankedCandidate& one) { return goal(one) < of.to_beat_shared; };
    const auto first = result.best.begin() + static_cast<std::ptrdiff_t>(listed);
    const auto beaten = result.was_stopped ? first : std::stable_partition(first, result.best.end(), gains);
    const std::vector<RankedCandidate> left_out(beaten, result.best.end());
    result.best.erase(beaten, result.best.end());
    take_evaluations(left_out, fitting_);
    result.rest.insert(result.rest.end(), left_out.begin(), left_out.end());
    if (!result.was_stopped) sort_by_goal(result.best, limits_.minimise);
  }

  double goal(const RankedCandidate& of) const { return goal_of(limits_.minimise, of); }
  void simulate_with_contention(PlanSearchResult& result, std::size_t begin, std::size_t end) {
    std::vector<Question> questions;
    for (std::size_t i = begin; i < end; ++i)
      questions.push_back({result.best[i].candidate, result.best[i].evaluation});
    const EvaluatedShare share =
        evaluator_.run(questions, EngineChoice::automatic,
                       {PlanSearchPhase::with_contention, static_cast<std::int64_t>(begin),
                        static_cast<std::int64_t>(result.best.size())});
    result.was_stopped = share.was_stopped;
    if (result.was_stopped) return;
    for (std::size_t i = begin; i < end; ++i) {
      shared_.insert(result.best[i].candidate);
      if (const Evaluation& found = share.found[i - begin]; found.refusal.empty())
        result.best[i].evaluation = found;
    }
  }

  // From the front of what is left; behind those that were asked for only what may be among the best.
  std::vector<EstimatedCandidate> take_next(std::vector<EstimatedCandidate>& left) {
    double worst = std::numeric_limits<double>::infinity();
    if (evaluated_ >= limits_.evaluations && fitting_.size() >= static_cast<std::size_t>(limits_.best)) {
      sort_by_goal(fitting_, limits_.minimise);
      worst = goal(fitting_[static_cast<std::size_t>(limits_.best) - 1]);
    }
    return errors_.take(left, evaluated_ == 0 ? batch_ : batch, limits_.minimise, worst);
  }

  const PlanBase& base_;
  const PlanConfig& limits_;
  const PlanSearchOptions& options_;
  Evaluator evaluator_;
  bool tunes_;
  std::size_t batch_;  // the first
  std::int64_t evaluated_ = 0;
  std::vector<RankedCandidate> fitting_;
  std::set<Candidate> simulated_, shared_;  // the latter with shared links
  std::vector<EstimatedCandidate> shortlist_;
  EstimateErrors errors_;
};

// What a search has to show that was stopped while it estimated: of what seemed best so far some, simulated.
void add_front_of(const EstimatedShare& share, const PlanBase& base, const PlanSearchOptions& asked,
                  PlanSearchResult& result) {
  constexpr std::size_t most = 16;
  if (asked.among.processes > 1 || share.feasible == 0) return;
  PlanSearchOptions options = asked;
  options.progress = {};
  std::vector<EstimatedCandidate> front = share.shortlist;
  front.resize(std::min(front.size(), most));
  Search(base, options).simulate_front(front, result);
}

}  // namespace

PlanSearchResult search_jobs_once(const PlanBase& base, const PlanSearchOptions& asked) {
  PlanSearchOptions options = asked;
  if (options.threads == 0) options.threads = thread_per_processor();
  const auto most = static_cast<std::size_t>(base.job.plan.evaluations * most_evaluations_per_asked);
  PlanSearchResult result;
  if (options.progress && !options.progress({PlanSearchPhase::estimating, 0, 0}) &&
      options.among.processes == 1) {
    result.was_stopped = true;
    return result;
  }
  if (count_candidates(base.job.job, base.job.plan) == 0) throw contradiction_of_limits(base.job);
  result.has_estimates = has_layer_kinds(base.job.job);
  const EstimatedShare share =
      result.has_estimates ? estimated_start(base, most, options) : enumerated_start(base, most);
  result.candidates = share.candidates;
  result.pruned = share.pruned;
  result.feasible = share.feasible;
  result.was_stopped = share.was_stopped;
  if (result.was_stopped) {
    add_front_of(share, base, options, result);
    return result;
  }
  Search search(base, options);
  search.simulate_most_promising(share.shortlist, result);
  search.simulate(lightened(base, share.heavy), result);
  if (!result.has_estimates) search.climb_from_starts(result);
  search.lighten(result);
  search.approach(share, result);
  search.rank(result);
  add_balanced(base, options, result);
  return result;
}

}  // namespace simrun
