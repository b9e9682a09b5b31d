#include "planner/climb.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "configs/diagnostics.h"
#include "configs/pipeline_layout.h"
#include "planner/candidate_neighbours.h"
#include "planner/layer_shares.h"
#include "planner/shortlist.h"
#include "sim/in_threads.h"

namespace simrun {

namespace {

constexpr std::size_t most_evaluations = 240;

// One layer from every stage that can spare it to every other one.
void add_moved_layers(const PlanBase& base, const Candidate& of, std::vector<Candidate>& neighbours) {
  std::vector<StageContent> stages;
  try {
    stages = load_candidate(base, of).parallelism.stages;
  } catch (const ConfigError&) {
    return;
  }
  for (std::size_t from = 0; from < stages.size(); ++from)
    for (std::size_t to = 0; to < stages.size(); ++to) {
      if (from == to || stages[from].layers <= least_layers(stages[from])) continue;
      std::vector<StageContent> moved = stages;
      --moved[from].layers;
      ++moved[to].layers;
      Candidate next = of;
      next.balance.layout = pipeline_layout_text(moved);
      neighbours.push_back(std::move(next));
    }
}

std::vector<Candidate> all_neighbours(const PlanBase& base, const Candidate& of) {
  std::vector<Candidate> neighbours;
  add_moved_layers(base, of, neighbours);
  if (of.is_as_written) return neighbours;
  const bool shares_batch = of.balance.micro_batch > 0 || !of.balance.replicas.empty();
  for (Candidate& next : neighbours_of(base.job.job, base.job.plan, of)) {
    if (shares_batch && next.micro_batch != of.micro_batch) continue;
    next.balance = of.balance;
    if (next.virtual_stages != of.virtual_stages) next.balance.layout.clear();
    neighbours.push_back(std::move(next));
  }
  return neighbours;
}

}  // namespace

RankedCandidate climbed(const PlanBase& base, RankedCandidate from, Climb& climb) {
  const auto goal = [&](const Evaluation& of) {
    return goal_of(base.job.plan.minimise, of.step_s, static_cast<double>(of.peak_bytes));
  };
  RankedCandidate best = from;
  best.evaluation = evaluate_candidate(base, from.candidate, EngineChoice::fast);
  std::set<Candidate> seen{from.candidate};
  const auto left = [&] { return most_evaluations - std::min(most_evaluations, seen.size()); };
  for (bool is_better = true; is_better && left() > 0 && (!climb.goes_on || climb.goes_on());) {
    std::vector<Candidate> neighbours = all_neighbours(base, best.candidate);
    std::erase_if(neighbours, [&](const Candidate& of) { return left() == 0 || !seen.insert(of).second; });
    std::vector<Evaluation> found(neighbours.size());
    std::atomic<bool> is_over = false;
    in_threads(climb.threads, neighbours.size(), [&](unsigned thread, std::size_t i) {
      if (thread == 0 && climb.goes_on && !climb.goes_on()) is_over = true;
      if (!is_over) found[i] = evaluate_candidate(base, neighbours[i], EngineChoice::fast);
    });
    is_better = false;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!found[i].refusal.empty() || !found[i].fits || goal(found[i]) >= goal(best.evaluation)) continue;
      best.candidate = std::move(neighbours[i]);
      best.evaluation = std::move(found[i]);
      is_better = true;
    }
  }
  climb.evaluated += static_cast<std::int64_t>(seen.size());
  if (best.candidate == from.candidate) return from;
  best.estimate = {};  // that of another candidate
  best.evaluation = evaluate_candidate(base, best.candidate, EngineChoice::automatic);
  return best;
}

}  // namespace simrun
