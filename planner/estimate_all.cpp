#include "planner/estimate_all.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "configs/diagnostics.h"
#include "planner/candidate_variants.h"
#include "planner/process_shares.h"
#include "planner/searched_lines.h"
#include "sim/in_threads.h"

namespace simrun {
namespace {

constexpr std::size_t most_heavy = 16;  // of a ZeRO stage
constexpr std::size_t most_light = 16;

bool is_lighter(const EstimatedCandidate& a, const EstimatedCandidate& b) {
  const auto key = [](const EstimatedCandidate& of) {
    return std::make_tuple(of.estimate.peak_bytes - of.estimate.room_bytes, of.estimate.peak_bytes,
                           std::cref(of.candidate));
  };
  return key(a) < key(b);
}

void take_lighter(EstimatedShare& share, const EstimatedCandidate& other) {
  const Candidate& of = other.candidate;
  const auto [known, is_new] = share.lightest.try_emplace({of.tensor, of.context, of.pipeline}, other);
  if (!is_new && is_lighter(other, known->second)) known->second = other;
}

std::string to_text(const EstimatedShare& share) {
  std::string text = fmt::format("{} {} {} {} {} {}\n", share.candidates, share.pruned, share.feasible,
                                 int{share.was_stopped}, share.lightest.size(), share.heavy.size());
  const auto add = [&](const EstimatedCandidate& of) {
    text += estimated_line(of.candidate, of.estimate) + "\n";
  };
  for (const auto& [ranks, of] : share.lightest) add(of);
  for (const EstimatedCandidate& of : share.heavy) add(of);
  for (const EstimatedCandidate& of : share.shortlist) add(of);
  return text;
}

EstimatedShare share_from_text(const std::string& text) {
  std::istringstream in(text);
  std::string line;
  std::getline(in, line);
  std::istringstream head(line);
  EstimatedShare share;
  int stopped = 0;
  std::size_t lightest = 0, heavy = 0;
  head >> share.candidates >> share.pruned >> share.feasible >> stopped >> lightest >> heavy;
  if (!head) throw std::runtime_error("another process's estimates cannot be read");
  share.was_stopped = stopped != 0;
  while (std::getline(in, line)) {
    const auto read = read_estimated_line(line);
    if (!read) throw std::runtime_error("another process's estimate cannot be read: " + line);
    const EstimatedCandidate of{read->first, read->second};
    if (share.lightest.size() < lightest)
      take_lighter(share, of);
    else if (share.heavy.size() < heavy)
      share.heavy.push_back(of);
    else
      share.shortlist.push_back(of);
  }
  return share;
}

bool is_plainest(const Candidate& of) {
  return of.micro_batch == 1 && of.recompute == RecomputeGranularity::none;
}

LoadCandidate loader_of(const PlanBase& base) {
  return [&base](const Candidate& candidate) { return accepted_job(base, candidate); };
}

// All nodes are as those of a kind are.
LoadOnKind loader_on_kind(const PlanBase& base) {
  return [&base](const Candidate& candidate, std::size_t kind) -> std::optional<Job> {
    std::optional<Job> job = loader_of(base)(candidate);
    if (!job) return std::nullopt;
    const Gpu gpu = GpuKinds(job->cluster).gpu(kind);
    for (const NodeGroup& group : job->cluster.node_groups)
      if (group.gpu == gpu) {
        job->cluster.intra_node = group.intra_node;
        break;
      }
    job->cluster.node_groups.clear();
    job->cluster.gpu = gpu;
    return job;
  };
}

}  // namespace

FamilyEstimates::FamilyEstimates(const PlanBase& base, std::size_t most, const PlanSearchOptions& options)
    : base_(base), most_(most), options_(options) {
  const std::vector<CandidateFamily> all = families_of(base.job.job, base.job.plan);
  const auto processes = static_cast<std::size_t>(options.among.processes);
  for (auto i = static_cast<std::size_t>(options.among.process); i < all.size(); i += processes)
    families_.push_back(all[i]);
  // The large ones, which take longest, are not left for one thread at the end.
  std::ranges::reverse(families_);
  passes_.resize(families_.size());
}

EstimatedShare FamilyEstimates::estimate(const EstimatedPart& part) {
  const PlanObjective goal = base_.job.plan.minimise;
  std::vector<Found> found(options_.threads, {{}, Shortlist(most_, goal), Shortlist(most_heavy, goal)});
  found.front().reports = true;
  in_threads(options_.threads, families_.size(), [&](unsigned thread, std::size_t family) {
    if (!stopped_) estimate_family(family, part, found[thread]);
  });
  std::vector<EstimatedShare> shares;
  for (Found& of : found) {
    of.share.shortlist = of.shortlist.all_stages();
    of.share.heavy = of.heavy.all_stages();
    shares.push_back(std::move(of.share));
  }
  EstimatedShare joined = join_shares(shares, most_, goal);
  joined.was_stopped = stopped_;
  return joined;
}

std::optional<EstimatedCandidate> FamilyEstimates::of_better_overlap(Estimator& estimator,
                                                                     const Candidate& of,
                                                                     double most_s) const {
  const std::optional<Estimate> estimate = estimator.estimate(of, most_s);
  if (!estimate) return std::nullopt;
  const EstimatedCandidate as_is{of, *estimate};
  if (estimate->is_bound || estimate->step_s == 0) return as_is;
  const std::optional<Candidate> other = with_other_overlap(base_.job.job, base_.job.plan, of);
  if (!other) return as_is;
  const std::optional<Estimate> overlapped = estimator.estimate(*other, most_s);
  return overlapped && overlapped->step_s < estimate->step_s ? EstimatedCandidate{*other, *overlapped}
                                                             : as_is;
}

void FamilyEstimates::estimate_family(std::size_t family, const EstimatedPart& part, Found& found) {
  const Job& job = base_.job.job;
  KnownPasses& known = passes_[family];
  if (GpuKinds(job.cluster).count() == 1) {
    Estimator estimator(job, loader_of(base_), steps_, std::move(known.slowest));
    visit_family(family, part, found,
                 [&](const Candidate& of) { return of_better_overlap(estimator, of, part.most_s); });
    known.slowest = std::move(estimator).passes();
  } else {
    BalancedEstimator estimator(base_.job, loader_of(base_), loader_on_kind(base_), steps_, std::move(known));
    visit_family(family, part, found,
                 [&](const Candidate& of) { return estimator.estimate(of, part.most_s); });
    known = std::move(estimator).passes();
  }
}

void FamilyEstimates::visit_family(
    std::size_t family, const EstimatedPart& part, Found& found,
    const std::function<std::optional<EstimatedCandidate>(const Candidate&)>& estimate) {
  for_each_candidate(base_.job.job, limits_of(base_.job.plan, families_[family]),
                     [&](const Candidate& candidate) {
                       if (!part.of_variants && is_plainest(candidate) != part.is_plainest) return;
                       if (!part.only.empty() && !std::ranges::binary_search(part.only, candidate)) return;
                       std::vector<Candidate> asked{candidate};
                       if (part.of_variants) asked = variants_of(base_.job.job, base_.job.plan, candidate);
                       for (const Candidate& one : asked) {
                         if (!goes_on(found.share.candidates, found.reports)) return;
                         ++found.share.candidates;
                         const std::optional<EstimatedCandidate> of = estimate(one);
                         const bool is_bound = of && of->estimate.is_bound;
                         if (is_bound) ++found.share.pruned;
                         if (of && (!is_bound || part.most_s == 0)) take(*of, found);
                       }
                     });
}

void FamilyEstimates::take(const EstimatedCandidate& of, Found& found) const {
  take_lighter(found.share, of);
  const std::int64_t asked = base_.job.plan.max_memory;
  double room = of.estimate.room_bytes;
  if (asked > 0) room = std::min(room, static_cast<double>(asked));
  if (of.estimate.peak_bytes <= room) ++found.share.feasible;
  if (of.estimate.may_fit(room))
    found.shortlist.offer(of);
  else if (of.candidate.pipeline > 1 && of.estimate.step_s > 0 && of.estimate.peak_bytes <= hopeless * room)
    found.heavy.offer(of);
}

bool FamilyEstimates::goes_on(std::int64_t candidates, bool reports) {
  constexpr std::int64_t between_looks = 256;
  const PlanSearchProgress progress{PlanSearchPhase::estimating, candidates, 0};
  if (reports && candidates % between_looks == 0 && options_.progress && !options_.progress(progress))
    stopped_ = true;
  constexpr std::int64_t between_glances = 16;
  if (candidates % between_glances == 0 && !options_.among.goes_on()) stopped_ = true;
  return !stopped_;
}

EstimatedShare join_shares(const std::vector<EstimatedShare>& shares, std::size_t most, PlanObjective goal) {
  EstimatedShare all;
  Shortlist shortlist(most, goal), heavy(most_heavy, goal);
  for (const EstimatedShare& share : shares) {
    for (const EstimatedCandidate& of : share.heavy) heavy.offer(of);
    all.candidates += share.candidates;
    all.pruned += share.pruned;
    all.feasible += share.feasible;
    all.was_stopped = all.was_stopped || share.was_stopped;
    for (const EstimatedCandidate& of : share.shortlist) shortlist.offer(of);
    for (const auto& [ranks, of] : share.lightest) take_lighter(all, of);
  }
  all.shortlist = shortlist.all_stages();
  all.heavy = heavy.all_stages();
  return all;
}

std::vector<EstimatedCandidate> first_lightest(const EstimatedShare& share) {
  std::vector<EstimatedCandidate> first;
  for (const auto& [ranks, of] : share.lightest) first.push_back(of);
  std::ranges::sort(first, is_lighter);
  if (first.size() > most_light) first.resize(most_light);
  return first;
}

// Bounds of the plainest candidates tell which of them to estimate first; those tell which others are worth
// an estimate, and all of these which candidates are that are not so plain. Of the best, variants.
EstimatedShare estimate_all(const PlanBase& base, std::size_t most, const PlanSearchOptions& options) {
  const PlanObjective goal = base.job.plan.minimise;
  FamilyEstimates estimates(base, most, options);
  bool was_stopped = false;
  const auto estimated = [&](const EstimatedPart& part) {
    EstimatedShare all =
        join_shares(of_all_processes<EstimatedShare>(
                        options.among, [&] { return estimates.estimate(part); },
                        [](const EstimatedShare& share) { return to_text(share); }, share_from_text),
                    most, goal);
    was_stopped = was_stopped || all.was_stopped;
    return all;
  };
  const auto most_worth = [&](const EstimatedShare& of) {
    Shortlist shortlist(most, goal);
    for (const EstimatedCandidate& one : of.shortlist) shortlist.offer(one);
    return shortlist.most_worth_offering();
  };
  EstimatedPart part;
  // Balanced plans take longer to estimate, bounds say nothing of their memory: the plainest ones are few.
  const bool has_kinds = GpuKinds(base.job.job.cluster).count() > 1;
  if (goal != PlanObjective::memory && !has_kinds)
    for (const EstimatedCandidate& of : estimated(part).shortlist) part.only.push_back(of.candidate);
  std::ranges::sort(part.only);
  part.most_s = std::numeric_limits<double>::infinity();
  if (!part.only.empty() && !was_stopped) part.most_s = most_worth(estimated(part));
  part.only.clear();
  EstimatedShare plainest, others;
  if (!was_stopped) plainest = estimated(part);
  if (!was_stopped) others = estimated({false, most_worth(plainest)});
  EstimatedShare all = join_shares({plainest, others}, most, goal);
  for (const EstimatedCandidate& of : all.shortlist) {
    part.only.push_back(of.candidate);
    part.only.back().overlaps = false;
  }
  if (!was_stopped && !has_kinds && !part.only.empty()) {
    std::ranges::sort(part.only);
    part.most_s = most_worth(all);
    part.of_variants = true;
    all = join_shares({all, estimated(part)}, most, goal);
  }
  all.was_stopped = was_stopped;
  return all;
}

}  // namespace simrun
