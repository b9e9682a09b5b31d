#include "planner/search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <optional>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>

#include "configs/diagnostics.h"
#include "planner/mixed_search.h"

namespace simrun {
namespace {

// x what there is; estimates of memory are hardly ever further above the engine's.
constexpr double may_fit = 1.03;
constexpr double may_be_better = 1.05;  // x the step of the worst of the best
constexpr std::size_t batch = 16;       // candidates between two looks at what was found
constexpr std::int64_t most_evaluations_per_asked = 2;

struct Estimated {
  Candidate candidate;
  Estimate estimate;
};

double goal_of(PlanObjective objective, double step_s, double peak_bytes) {
  return objective == PlanObjective::memory ? peak_bytes : step_s;
}

// The most promising estimates, at most so many. Estimates of one ZeRO stage err alike, so among those near
// the best all stages take turns.
class Shortlist {
 public:
  Shortlist(std::size_t most, PlanObjective objective) : most_(most), objective_(objective) {}

  void offer(const Candidate& candidate, const Estimate& estimate) {
    std::vector<Estimated>& kept = by_stage_.at(static_cast<std::size_t>(candidate.zero_stage));
    kept.push_back({candidate, estimate});
    if (kept.size() >= 2 * most_ + 16) cut(kept);
  }
  // Those of every stage, for another list to choose from.
  std::vector<Estimated> all_stages() {
    std::vector<Estimated> all;
    for (std::vector<Estimated>& kept : by_stage_) {
      cut(kept);
      all.insert(all.end(), kept.begin(), kept.end());
    }
    return all;
  }
  std::vector<Estimated> take() {
    double best = std::numeric_limits<double>::infinity();
    for (std::vector<Estimated>& kept : by_stage_) {
      cut(kept);
      if (!kept.empty()) best = std::min(best, goal(kept.front()));
    }
    std::vector<Estimated> taken, others;
    for (std::size_t turn = 0; turn < most_; ++turn)
      for (const std::vector<Estimated>& kept : by_stage_)
        if (turn < kept.size()) (goal(kept[turn]) <= near * best ? taken : others).push_back(kept[turn]);
    sort(others);
    taken.insert(taken.end(), others.begin(), others.end());
    if (taken.size() > most_) taken.resize(most_);
    return taken;
  }

 private:
  static constexpr double near = 1.25;  // x the best estimate: twice what estimates err
  void sort(std::vector<Estimated>& of) const {
    std::ranges::sort(of, [&](const Estimated& a, const Estimated& b) {
      return std::make_tuple(goal(a), std::cref(a.candidate)) <
             std::make_tuple(goal(b), std::cref(b.candidate));
    });
  }
  void cut(std::vector<Estimated>& of) const {
    sort(of);
    if (of.size() > most_) of.resize(most_);
  }
  double goal(const Estimated& of) const {
    return goal_of(objective_, of.estimate.step_s, of.estimate.peak_bytes);
  }
  std::size_t most_;
  PlanObjective objective_;
  std::array<std::vector<Estimated>, 4> by_stage_;
};

struct Share {
  std::int64_t candidates = 0, feasible = 0;
  std::vector<Estimated> shortlist;
  std::optional<Estimated> smallest;  // by its peak
  bool was_stopped = false;
};

void take_smaller(std::optional<Estimated>& smallest, const Candidate& candidate, const Estimate& estimate) {
  const auto key = [](const Candidate& of, const Estimate& with) {
    return std::make_tuple(with.peak_bytes, std::cref(of));
  };
  if (!smallest || key(candidate, estimate) < key(smallest->candidate, smallest->estimate))
    smallest = {candidate, estimate};
}

// Candidates that share the costs of passes are estimated by one thread.
bool is_mine(const Candidate& candidate, unsigned thread, unsigned threads) {
  const std::int64_t key = candidate.tensor * 7 + candidate.context * 11 + candidate.expert * 13 +
                           candidate.expert_tensor * 17 + candidate.pipeline * 3;
  return static_cast<unsigned>(key % threads) == thread;
}

// One of the threads that estimate, and what they share: whether to go on, asked for by the first.
struct EstimatingThread {
  unsigned number = 0, threads = 1;
  std::atomic<bool>& stopped;
  const PlanSearchOptions& options;

  bool goes_on(std::int64_t done) const {
    constexpr std::int64_t between_looks = 256;
    const PlanSearchProgress progress{PlanSearchPhase::estimating, done, 0};
    if (number == 0 && done % between_looks == 0 && options.progress && !options.progress(progress))
      stopped = true;
    return !stopped;
  }
};

Share estimated_share(const PlanBase& base, std::size_t most, const EstimatingThread& thread) {
  const Job& job = base.job.job;
  const PlanConfig& limits = base.job.plan;
  Estimator estimator(job, [&](const Candidate& candidate) -> std::optional<Job> {
    try {
      return load_candidate(base, candidate);
    } catch (const ConfigError&) {
      return std::nullopt;
    }
  });
  Shortlist shortlist(most, limits.minimise);
  Share share;
  for_each_candidate(job, limits, [&](const Candidate& candidate) {
    if (!is_mine(candidate, thread.number, thread.threads)) return;
    if (!thread.goes_on(share.candidates)) return;
    ++share.candidates;
    const std::optional<Estimate> estimate = estimator.estimate(candidate);
    if (!estimate) return;
    take_smaller(share.smallest, candidate, *estimate);
    double room = estimate->room_bytes;
    if (limits.max_memory > 0) room = std::min(room, static_cast<double>(limits.max_memory));
    if (estimate->peak_bytes <= room) ++share.feasible;
    if (estimate->peak_bytes <= room * may_fit) shortlist.offer(candidate, *estimate);
  });
  share.shortlist = shortlist.all_stages();
  return share;
}

Share estimated(const PlanBase& base, std::size_t most, unsigned threads, const PlanSearchOptions& options) {
  std::vector<Share> shares(threads);
  std::atomic<bool> stopped = false;
  {
    std::vector<std::jthread> others;
    for (unsigned t = 1; t < threads; ++t)
      others.emplace_back([&, t] {
        shares[t] = estimated_share(base, most, {t, threads, stopped, options});
      });
    shares[0] = estimated_share(base, most, {0, threads, stopped, options});
  }
  Share all;
  all.was_stopped = stopped;
  Shortlist shortlist(most, base.job.plan.minimise);
  for (Share& share : shares) {
    all.candidates += share.candidates;
    all.feasible += share.feasible;
    for (const Estimated& of : share.shortlist) shortlist.offer(of.candidate, of.estimate);
    if (share.smallest) take_smaller(all.smallest, share.smallest->candidate, share.smallest->estimate);
  }
  all.shortlist = shortlist.take();
  // Where nothing fits, what comes nearest.
  if (all.shortlist.empty() && all.smallest) all.shortlist.push_back(*all.smallest);
  return all;
}

// Without estimates: in their own order, as long as there are few.
Share enumerated(const PlanBase& base, std::size_t most) {
  Share all;
  for_each_candidate(base.job.job, base.job.plan, [&](const Candidate& candidate) {
    if (++all.candidates <= static_cast<std::int64_t>(most)) all.shortlist.push_back({candidate, {}});
  });
  if (all.candidates > static_cast<std::int64_t>(most))
    throw std::invalid_argument(fmt::format(
        "{} candidates of a model whose layers are not alike by kind: each has to be simulated; fix "
        "some sizes in plan.fix, or allow as many with plan.evaluations",
        all.candidates));
  all.feasible = all.candidates;
  return all;
}

std::int64_t count_candidates(const Job& job, const PlanConfig& limits) {
  std::int64_t count = 0;
  for_each_candidate(job, limits, [&](const Candidate&) { ++count; });
  return count;
}

// Which of the limits leaves nothing, and what is left without it.
std::string contradiction(const Job& job, const PlanConfig& limits) {
  std::string text = fmt::format("no way to split {} GPUs keeps plan.fix", job.world_size());
  for (const auto& [key, values] : limits.fixed_numbers) {
    PlanConfig without = limits;
    without.fixed_numbers.erase(key);
    if (const std::int64_t left = count_candidates(job, without); left > 0)
      return text +
             fmt::format("; without {}: [{}] there are {} candidates", key, fmt::join(values, ", "), left);
  }
  return text + (limits.fixed_numbers.size() > 1 ? "; no single key of it is to blame" : "");
}

class Evaluator {
 public:
  Evaluator(const PlanBase& base, const PlanSearchOptions& options, unsigned threads)
      : base_(base), options_(options), threads_(threads) {}

  std::vector<Evaluation> run(const std::vector<Candidate>& candidates, EngineChoice engine) const {
    std::vector<Evaluation> found(candidates.size());
    std::vector<Candidate> unknown;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const auto known = options_.known.find(candidates[i]);
      if (engine == EngineChoice::fast && known != options_.known.end()) {
        found[i] = known->second;
      } else {
        unknown.push_back(candidates[i]);
        places.push_back(i);
      }
    }
    const std::vector<Evaluation> fresh = on_threads(unknown, engine);
    for (std::size_t i = 0; i < fresh.size(); ++i) found[places[i]] = fresh[i];
    return found;
  }

 private:
  std::vector<Evaluation> on_threads(const std::vector<Candidate>& candidates, EngineChoice engine) const {
    std::vector<Evaluation> found(candidates.size());
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < candidates.size(); i = next++)
        found[i] = evaluate_candidate(base_, candidates[i], engine);
    };
    std::vector<std::jthread> others;
    for (unsigned t = 1; t < std::min<std::size_t>(threads_, candidates.size()); ++t)
      others.emplace_back(work);
    work();
    others.clear();
    return found;
  }

  const PlanBase& base_;
  const PlanSearchOptions& options_;
  unsigned threads_;
};

// By the objective; equal ones in their own order.
void sort_by_goal(std::vector<RankedCandidate>& of, PlanObjective objective) {
  std::ranges::sort(of, [&](const RankedCandidate& a, const RankedCandidate& b) {
    const auto key = [&](const RankedCandidate& one) {
      const auto peak = static_cast<double>(one.evaluation.peak_bytes);
      return std::make_tuple(goal_of(objective, one.evaluation.step_s, peak), one.evaluation.step_s, peak,
                             std::cref(one.candidate));
    };
    return key(a) < key(b);
  });
}

std::vector<RankedCandidate> pareto_of(std::vector<RankedCandidate> of) {
  sort_by_goal(of, PlanObjective::step_time);
  std::vector<RankedCandidate> front;
  for (RankedCandidate& one : of)
    if (front.empty() || one.evaluation.peak_bytes < front.back().evaluation.peak_bytes)
      front.push_back(std::move(one));
  return front;
}

class Search {
 public:
  Search(const PlanBase& base, const PlanSearchOptions& options, unsigned threads)
      : limits_(base.job.plan), options_(options), evaluator_(base, options, threads) {}

  void simulate_most_promising(const std::vector<Estimated>& shortlist, PlanSearchResult& result) {
    const std::size_t most = shortlist.size();
    for (std::size_t first = 0; first < most && !is_enough(shortlist[first], result); first += batch) {
      if (!go_on({PlanSearchPhase::simulating, static_cast<std::int64_t>(first),
                  static_cast<std::int64_t>(most)},
                 result))
        return;
      std::vector<Candidate> candidates;
      for (std::size_t i = first; i < std::min(first + batch, most); ++i)
        candidates.push_back(shortlist[i].candidate);
      const std::vector<Evaluation> found = evaluator_.run(candidates, EngineChoice::fast);
      for (std::size_t i = 0; i < found.size(); ++i) {
        ++result.evaluated;
        const RankedCandidate ranked{candidates[i], shortlist[first + i].estimate, found[i]};
        (found[i].refusal.empty() && found[i].fits ? fitting_ : result.rest).push_back(ranked);
      }
    }
  }

  void rank(PlanSearchResult& result) {
    sort_by_goal(fitting_, limits_.minimise);
    const auto best = static_cast<std::size_t>(limits_.best);
    if (fitting_.size() > best) {
      // As many again: sharing links may change places.
      const std::size_t kept = std::min(fitting_.size(), best + best / 2 + 1);
      result.rest.insert(result.rest.end(), fitting_.begin() + static_cast<std::ptrdiff_t>(kept),
                         fitting_.end());
      result.best.assign(fitting_.begin(), fitting_.begin() + static_cast<std::ptrdiff_t>(kept));
    } else {
      result.best = fitting_;
    }
    result.pareto = pareto_of(fitting_);
    if (go_on({PlanSearchPhase::with_contention, 0, static_cast<std::int64_t>(result.best.size())}, result))
      simulate_with_contention(result.best);
    while (result.best.size() > best) {
      result.rest.push_back(std::move(result.best.back()));
      result.best.pop_back();
    }
  }

 private:
  void simulate_with_contention(std::vector<RankedCandidate>& best) const {
    std::vector<Candidate> candidates;
    candidates.reserve(best.size());
    for (const RankedCandidate& one : best) candidates.push_back(one.candidate);
    const std::vector<Evaluation> found = evaluator_.run(candidates, EngineChoice::automatic);
    for (std::size_t i = 0; i < found.size(); ++i)
      if (found[i].refusal.empty()) best[i].evaluation = found[i];
    sort_by_goal(best, limits_.minimise);
  }

  bool go_on(const PlanSearchProgress& progress, PlanSearchResult& result) const {
    if (options_.progress && !options_.progress(progress)) result.was_stopped = true;
    return !result.was_stopped;
  }

  // Enough were simulated, and those to come look worse than what is found.
  bool is_enough(const Estimated& next, const PlanSearchResult& result) {
    if (result.evaluated < limits_.evaluations) return false;
    if (result.evaluated >= limits_.evaluations * most_evaluations_per_asked) return true;
    if (fitting_.size() < static_cast<std::size_t>(limits_.best)) return false;
    sort_by_goal(fitting_, limits_.minimise);
    const Evaluation& worst = fitting_[static_cast<std::size_t>(limits_.best) - 1].evaluation;
    return goal_of(limits_.minimise, next.estimate.step_s, next.estimate.peak_bytes) >
           may_be_better * goal_of(limits_.minimise, worst.step_s, static_cast<double>(worst.peak_bytes));
  }

  const PlanConfig& limits_;
  const PlanSearchOptions& options_;
  Evaluator evaluator_;
  std::vector<RankedCandidate> fitting_;
};

}  // namespace

PlanSearchResult search_jobs(const PlanBase& base, const PlanSearchOptions& options) {
  const unsigned threads =
      options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
  const auto most = static_cast<std::size_t>(base.job.plan.evaluations * most_evaluations_per_asked);
  PlanSearchResult result;
  if (options.progress && !options.progress({PlanSearchPhase::estimating, 0, 0})) {
    result.was_stopped = true;
    return result;
  }
  if (count_candidates(base.job.job, base.job.plan) == 0)
    throw std::invalid_argument(contradiction(base.job.job, base.job.plan));
  const Share share =
      has_layer_kinds(base.job.job) ? estimated(base, most, threads, options) : enumerated(base, most);
  result.candidates = share.candidates;
  result.feasible = share.feasible;
  result.was_stopped = share.was_stopped;
  if (result.was_stopped) return result;
  Search search(base, options, threads);
  search.simulate_most_promising(share.shortlist, result);
  search.rank(result);
  add_balanced(base, result);
  return result;
}

void keep_best(const PlanBase& base, std::vector<RankedCandidate> fitting, PlanSearchResult& result) {
  std::vector<RankedCandidate> front = result.pareto;
  front.insert(front.end(), fitting.begin(), fitting.end());
  result.pareto = pareto_of(std::move(front));
  sort_by_goal(fitting, base.job.plan.minimise);
  if (std::cmp_greater(fitting.size(), base.job.plan.best))
    fitting.resize(static_cast<std::size_t>(base.job.plan.best));
  result.best = std::move(fitting);
}

}  // namespace simrun
