#include "planner/moved_layers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "configs/node_groups.h"
#include "configs/pipeline_layout.h"
#include "planner/layer_shares.h"
#include "planner/pipeline_costs.h"

namespace simrun {
namespace {

constexpr double worth_a_look = 1.01;  // x what its step is estimated to take

struct Move {
  double step_s = 0;
  std::size_t from = 0, to = 0;
  auto operator<=>(const Move&) const = default;
};

void move(std::vector<StageContent>& stages, std::size_t from, std::size_t to) {
  --stages[from].layers;
  ++stages[to].layers;
}

// The same layers, so many fewer than an equal share on the first stage and on the last, the rest as equal as
// they can be; empty where that leaves a stage too few.
std::vector<StageContent> fewer_at_ends(std::vector<StageContent> stages, std::int64_t fewer_first,
                                        std::int64_t fewer_last) {
  if (stages.size() < 3) return {};
  std::int64_t layers = 0;
  for (const StageContent& stage : stages) layers += stage.layers;
  const auto all = static_cast<std::int64_t>(stages.size()), share = (layers + all - 1) / all;
  stages.front().layers = share - fewer_first;
  stages.back().layers = share - fewer_last;
  const std::int64_t rest = layers - stages.front().layers - stages.back().layers, inner = all - 2;
  for (std::int64_t s = 0; s < inner; ++s)
    stages[static_cast<std::size_t>(s + 1)].layers = rest / inner + (s < rest % inner ? 1 : 0);
  const bool has_too_few = std::ranges::any_of(
      stages, [](const StageContent& stage) { return stage.layers < least_layers(stage); });
  return has_too_few ? std::vector<StageContent>{} : stages;
}

// Of DualPipe a stage lies on two ranks.
bool lies_on(const Candidate& candidate, std::size_t stage, std::size_t rank) {
  const std::size_t down = pipeline_rank_of(candidate, stage);
  const auto ranks = static_cast<std::size_t>(candidate.pipeline);
  return down == rank || (goes_both_ways(candidate) && ranks - 1 - down == rank);
}

// One layer of the fullest rank to another one, the emptiest first, if that leaves all of them with less than
// it had; `now` is what every rank needs.
template <typename Peaks>
bool lighten(const Candidate& candidate, std::vector<StageContent>& stages, std::vector<double>& now,
             const Peaks& peaks) {
  constexpr std::size_t emptiest = 4;
  std::vector<std::size_t> order(stages.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto need = [&](std::size_t stage) { return now[pipeline_rank_of(candidate, stage)]; };
  std::ranges::stable_sort(order, {}, need);
  const std::size_t fullest = pipeline_rank_of(candidate, order.back());
  for (std::size_t from = 0; from < stages.size(); ++from) {
    if (!lies_on(candidate, from, fullest) || stages[from].layers <= least_layers(stages[from])) continue;
    for (std::size_t i = 0; i < std::min(order.size(), emptiest); ++i) {
      if (order[i] == from || (lies_on(candidate, order[i], fullest) && !goes_both_ways(candidate))) continue;
      move(stages, from, order[i]);
      std::vector<double> then = peaks();
      if (std::ranges::max(then) < std::ranges::max(now)) {
        now = std::move(then);
        return true;
      }
      move(stages, order[i], from);
    }
  }
  return false;
}

}  // namespace

MovedLayers::MovedLayers(const PlanBase& base)
    : base_(base),
      estimator_(
          base.job.job, [&base](const Candidate& of) { return accepted_job(base, of); }, prices_) {}

std::vector<Candidate> MovedLayers::of(const Candidate& candidate, std::size_t most) {
  if (candidate.pipeline == 1 || candidate.is_as_written || !has_layer_kinds(base_.job.job)) return {};
  const std::optional<Job> job = accepted_job(base_, candidate);
  const PassCosts* passes = estimator_.passes_of(candidate, candidate.micro_batch, candidate.recompute);
  if (!job || passes == nullptr) return {};
  std::vector<StageContent> stages = job->parallelism.stages;
  const std::vector costs(static_cast<std::size_t>(candidate.pipeline), passes);
  const auto microbatches = static_cast<double>(candidate.microbatches(job->training.global_batch_size));
  const double room = room_of(*passes);
  const auto estimated = [&](const PipelineCosts& pipeline) {
    return estimator_.step_s(candidate, pipeline, passes->tied_elements);
  };
  const std::optional<double> now = estimated(pipeline_costs(candidate, stages, costs));
  if (!now) return {};
  std::vector<Move> moves;
  for (std::size_t from = 0; from < stages.size(); ++from)
    for (std::size_t to = 0; to < stages.size(); ++to) {
      if (from == to || stages[from].layers <= least_layers(stages[from])) continue;
      move(stages, from, to);
      const PipelineCosts pipeline = pipeline_costs(candidate, stages, costs);
      if (peak_bytes(*passes, candidate, microbatches, pipeline) <= memory_excess(candidate) * room)
        if (const auto seconds = estimated(pipeline); seconds && *seconds < *now * worth_a_look)
          moves.push_back({*seconds, from, to});
      move(stages, to, from);
    }
  std::ranges::sort(moves);
  const std::int64_t to_run = 2 * std::llround(microbatches) * static_cast<std::int64_t>(stages.size());
  moves.resize(std::min({moves.size(), most, static_cast<std::size_t>(passes_left_ / to_run)}));
  passes_left_ -= to_run * static_cast<std::int64_t>(moves.size());
  std::vector<Candidate> moved;
  for (const Move& of : moves) {
    move(stages, of.from, of.to);
    moved.push_back(candidate);
    moved.back().balance.layout = pipeline_layout_text(stages);
    move(stages, of.to, of.from);
  }
  return moved;
}

double MovedLayers::room_of(const PassCosts& passes) const {
  const auto limit = static_cast<double>(base_.job.plan.max_memory);
  return limit > 0 ? std::min(passes.room_bytes, limit) : passes.room_bytes;
}

std::optional<MovedLayers::Lightest> MovedLayers::with_lighter_ends(const Candidate& candidate) {
  constexpr std::int64_t most_fewer_first = 2, most_fewer_last = 4;
  const std::optional<Job> job = accepted_job(base_, candidate);
  const PassCosts* passes = estimator_.passes_of(candidate, candidate.micro_batch, candidate.recompute);
  if (!job || passes == nullptr) return std::nullopt;
  const std::vector costs(static_cast<std::size_t>(candidate.pipeline), passes);
  const auto microbatches = static_cast<double>(candidate.microbatches(job->training.global_batch_size));
  std::optional<Lightest> best;
  for (std::int64_t first = 0; first <= most_fewer_first; ++first)
    for (std::int64_t last = 0; last <= most_fewer_last; ++last) {
      const std::vector<StageContent> stages = fewer_at_ends(job->parallelism.stages, first, last);
      if (stages.empty()) continue;
      const PipelineCosts pipeline = pipeline_costs(candidate, stages, costs);
      const double peak = std::ranges::max(peaks_of_ranks(*passes, candidate, microbatches, pipeline));
      if (peak > room_of(*passes)) continue;
      const auto seconds = estimator_.step_s(candidate, pipeline, passes->tied_elements);
      if (!seconds || (best && best->step_s <= *seconds)) continue;
      best = Lightest{candidate, true, *seconds, peak};
      best->candidate.balance.layout = pipeline_layout_text(stages);
    }
  return best;
}

std::optional<MovedLayers::Lightest> MovedLayers::lightest(const Candidate& candidate) {
  const std::optional<Job> job = accepted_job(base_, candidate);
  const PassCosts* passes = estimator_.passes_of(candidate, candidate.micro_batch, candidate.recompute);
  if (!job || passes == nullptr) return std::nullopt;
  std::vector<StageContent> stages = job->parallelism.stages;
  const std::vector costs(static_cast<std::size_t>(candidate.pipeline), passes);
  const auto microbatches = static_cast<double>(candidate.microbatches(job->training.global_batch_size));
  const auto peaks = [&] {
    return peaks_of_ranks(*passes, candidate, microbatches, pipeline_costs(candidate, stages, costs));
  };
  std::vector<double> now = peaks();
  const double first = std::ranges::max(now);
  // What all ranks need together hardly changes with where layers lie.
  const double mean = std::accumulate(now.begin(), now.end(), 0.0) / static_cast<double>(now.size());
  if (mean > memory_excess(candidate) * room_of(*passes)) return std::nullopt;
  for (std::size_t round = 0; round < 4 * stages.size() && lighten(candidate, stages, now, peaks);) ++round;
  const auto seconds =
      estimator_.step_s(candidate, pipeline_costs(candidate, stages, costs), passes->tied_elements);
  const double least = std::ranges::max(now);
  if (least >= first || !seconds) return std::nullopt;
  Lightest lightest{candidate, least <= room_of(*passes), *seconds, least};
  lightest.candidate.balance.layout = pipeline_layout_text(stages);
  return lightest;
}

bool MovedLayers::has_time_for(const Candidate& of) {
  const std::int64_t stages = of.pipeline * of.virtual_stages;
  passes_left_ -= 2 * of.microbatches(base_.job.job.training.global_batch_size) * stages;
  return passes_left_ >= 0;
}

std::vector<Candidate> lightened(const PlanBase& base, std::vector<EstimatedCandidate> heavy) {
  constexpr std::size_t most = 10;
  constexpr int most_alike = 2;
  if (heavy.empty() || GpuKinds(base.job.job.cluster).count() > 1) return {};
  std::ranges::stable_sort(heavy, {}, [](const EstimatedCandidate& of) { return of.estimate.step_s; });
  MovedLayers moved(base);
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::string>, int> alike;
  std::vector<Candidate> found;
  for (const EstimatedCandidate& one : heavy) {
    const Candidate& of = one.candidate;
    int& known = alike[{of.tensor, of.context, of.pipeline, of.schedule}];
    if (known == most_alike || found.size() == most) continue;
    auto lightest = moved.with_lighter_ends(of);
    if (!lightest) lightest = moved.lightest(of);
    if (!lightest || !lightest->fits) continue;
    if (!moved.has_time_for(of)) break;
    ++known;
    found.push_back(lightest->candidate);
  }
  return found;
}

std::vector<Candidate> lightest_pipelines(const PlanBase& base, std::size_t most,
                                          const std::function<bool(const PlanSearchProgress&)>& goes_on) {
  if (!has_layer_kinds(base.job.job)) return {};
  const auto split_of = [](const Candidate& of) {
    return std::tuple(of.tensor, of.context, of.expert, of.expert_tensor, of.pipeline, of.virtual_stages,
                      of.schedule, of.zero_stage);
  };
  const auto lightness = [](const Candidate& of) {
    return std::pair(of.micro_batch, -static_cast<int>(of.recompute));
  };
  std::map<decltype(split_of({})), Candidate> plainest;
  for_each_candidate(base.job.job, base.job.plan, [&](const Candidate& of) {
    if (of.pipeline == 1 || of.overlaps || !of.balance.empty()) return;
    const auto [known, fresh] = plainest.try_emplace(split_of(of), of);
    if (!fresh && lightness(of) < lightness(known->second)) known->second = of;
  });
  MovedLayers moved(base);
  std::vector<MovedLayers::Lightest> found;
  std::int64_t done = 0;
  for (const auto& [split, candidate] : plainest) {
    if (!goes_on({PlanSearchPhase::estimating, done++, std::ssize(plainest)})) return {};
    if (const auto lightest = moved.lightest(candidate)) found.push_back(*lightest);
  }
  std::ranges::stable_sort(found, {}, [](const MovedLayers::Lightest& of) {
    return std::tuple(!of.fits, of.fits ? of.step_s : of.peak_bytes);
  });
  std::vector<Candidate> first;
  for (const MovedLayers::Lightest& of : found)
    if (first.size() < most) first.push_back(of.candidate);
  return first;
}

}  // namespace simrun
