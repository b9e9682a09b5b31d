#include "planner/estimate_all.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>

#include "configs/diagnostics.h"
#include "planner/searched_lines.h"

namespace simrun {
namespace {

// x what there is; estimates of memory are hardly ever further above the engine's.
constexpr double may_fit = 1.03;

// Candidates that split the ranks of a stage alike, but for data parallelism, and so share costs of passes:
// one thread's work. In the order of the fields neighbours share no prices of steps, for which threads would
// wait.
struct CandidateFamily {
  std::int64_t context = 1, expert_tensor = 1, expert = 1, tensor = 1;
  auto operator<=>(const CandidateFamily&) const = default;
};

std::vector<CandidateFamily> families_of(const Job& job, const PlanConfig& limits) {
  std::set<CandidateFamily> families;
  for_each_candidate(job, limits, [&](const Candidate& of) {
    families.insert({of.context, of.expert_tensor, of.expert, of.tensor});
  });
  return {families.begin(), families.end()};
}

// The limits that leave one family.
PlanConfig limits_of(PlanConfig limits, const CandidateFamily& family) {
  limits.fixed_numbers["tensor_model_parallel_size"] = {family.tensor};
  limits.fixed_numbers["context_parallel_size"] = {family.context};
  limits.fixed_numbers["expert_model_parallel_size"] = {family.expert};
  limits.fixed_numbers["expert_tensor_parallel_size"] = {family.expert_tensor};
  return limits;
}

void take_smaller(std::optional<EstimatedCandidate>& smallest, const EstimatedCandidate& other) {
  const auto key = [](const EstimatedCandidate& of) {
    return std::make_tuple(of.estimate.peak_bytes, std::cref(of.candidate));
  };
  if (!smallest || key(other) < key(*smallest)) smallest = other;
}

// What the threads that estimate share.
struct EstimatingThreads {
  const PlanBase& base;
  const PlanSearchOptions& options;
  std::vector<CandidateFamily> families;  // of this process
  SharedStepPrices steps = {};
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> stopped = false;
};

class EstimatingThread {
 public:
  EstimatingThread(EstimatingThreads& all, std::size_t most, bool reports)
      : all_(all), shortlist_(most, all.base.job.plan.minimise), reports_(reports) {}

  EstimatedShare run() {
    for (std::size_t i = all_.next++; i < all_.families.size(); i = all_.next++) {
      estimate_family(all_.families[i]);
      if (all_.stopped) break;
    }
    share_.shortlist = shortlist_.all_stages();
    return std::move(share_);
  }

 private:
  void estimate_family(const CandidateFamily& family) {
    const Job& job = all_.base.job.job;
    Estimator estimator(
        job, [&](const Candidate& of) { return loaded(of); }, all_.steps);
    for_each_candidate(job, limits_of(all_.base.job.plan, family), [&](const Candidate& candidate) {
      if (!goes_on()) return;
      ++share_.candidates;
      if (const std::optional<Estimate> estimate = estimator.estimate(candidate))
        take({candidate, *estimate});
    });
  }

  void take(const EstimatedCandidate& of) {
    take_smaller(share_.smallest, of);
    const std::int64_t asked = all_.base.job.plan.max_memory;
    double room = of.estimate.room_bytes;
    if (asked > 0) room = std::min(room, static_cast<double>(asked));
    if (of.estimate.peak_bytes <= room) ++share_.feasible;
    if (of.estimate.peak_bytes <= room * may_fit) shortlist_.offer(of);
  }

  std::optional<Job> loaded(const Candidate& candidate) const {
    try {
      return load_candidate(all_.base, candidate);
    } catch (const ConfigError&) {
      return std::nullopt;
    }
  }

  bool goes_on() {
    constexpr std::int64_t between_looks = 256;
    const PlanSearchProgress progress{PlanSearchPhase::estimating, share_.candidates, 0};
    if (reports_ && share_.candidates % between_looks == 0 && all_.options.progress &&
        !all_.options.progress(progress))
      all_.stopped = true;
    constexpr std::int64_t between_glances = 16;
    if (share_.candidates % between_glances == 0 && !all_.options.among.goes_on()) all_.stopped = true;
    return !all_.stopped;
  }

  EstimatingThreads& all_;
  Shortlist shortlist_;
  bool reports_;  // one thread asks whether to go on
  EstimatedShare share_;
};

}  // namespace

EstimatedShare estimate_share(const PlanBase& base, std::size_t most, const PlanSearchOptions& options) {
  EstimatingThreads all{base, options, {}};
  const std::vector<CandidateFamily> families = families_of(base.job.job, base.job.plan);
  const auto processes = static_cast<std::size_t>(options.among.processes);
  for (auto i = static_cast<std::size_t>(options.among.process); i < families.size(); i += processes)
    all.families.push_back(families[i]);
  std::vector<EstimatedShare> shares(options.threads);
  {
    std::vector<std::jthread> others;
    for (std::size_t t = 1; t < shares.size(); ++t)
      others.emplace_back([&, t] { shares[t] = EstimatingThread(all, most, false).run(); });
    shares[0] = EstimatingThread(all, most, true).run();
  }
  EstimatedShare joined = join_shares(shares, most, base.job.plan.minimise);
  joined.was_stopped = all.stopped;
  return joined;
}

EstimatedShare join_shares(const std::vector<EstimatedShare>& shares, std::size_t most, PlanObjective goal) {
  EstimatedShare all;
  Shortlist shortlist(most, goal);
  for (const EstimatedShare& share : shares) {
    all.candidates += share.candidates;
    all.feasible += share.feasible;
    all.was_stopped = all.was_stopped || share.was_stopped;
    for (const EstimatedCandidate& of : share.shortlist) shortlist.offer(of);
    if (share.smallest) take_smaller(all.smallest, *share.smallest);
  }
  all.shortlist = shortlist.all_stages();
  return all;
}

std::string to_text(const EstimatedShare& share) {
  std::string text = fmt::format("{} {} {} {}\n", share.candidates, share.feasible, int{share.was_stopped},
                                 int{share.smallest.has_value()});
  const auto add = [&](const EstimatedCandidate& of) {
    text += estimated_line(of.candidate, of.estimate) + "\n";
  };
  if (share.smallest) add(*share.smallest);
  for (const EstimatedCandidate& of : share.shortlist) add(of);
  return text;
}

EstimatedShare share_from_text(const std::string& text) {
  std::istringstream in(text);
  std::string line;
  std::getline(in, line);
  std::istringstream head(line);
  EstimatedShare share;
  int stopped = 0, has_smallest = 0;
  head >> share.candidates >> share.feasible >> stopped >> has_smallest;
  if (!head) throw std::runtime_error("another process's estimates cannot be read");
  share.was_stopped = stopped != 0;
  while (std::getline(in, line)) {
    const auto read = read_estimated_line(line);
    if (!read) throw std::runtime_error("another process's estimate cannot be read: " + line);
    const EstimatedCandidate of{read->first, read->second};
    if (has_smallest != 0 && !share.smallest)
      share.smallest = of;
    else
      share.shortlist.push_back(of);
  }
  return share;
}

}  // namespace simrun
